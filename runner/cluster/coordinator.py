"""Execute a plan on the machines of a cluster and store the results.

Each machine has its own run with its environment, its reference cases and its assigned cases. A
free machine gets the next case. All results pass through the driver's spool, each case once.

Machines may join and leave at any time. If a machine leaves, its case goes to another one; after
MAX_ASSIGNMENTS assignments it gets the outcome `lost`. An interrupted plan continues with the cases
without a result, on the machines that are connected then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from compile_hud.db.jobs.live_log import LiveLog
from compile_hud.db.records.results import Run, RunDocument
from compile_hud.db.shared.text import counted
from compile_hud.db.shared.trace_paths import trace_name
from compile_hud.runner.cluster.api import POLL_INTERVAL_S, Nodes, Reply, Slot, Status, connection
from compile_hud.runner.cluster.assignments import MAX_ASSIGNMENTS, CaseQueue
from compile_hud.runner.cluster.machine_run import MachineRun
from compile_hud.runner.cluster.resume import remaining_plan, resumed_request, resumed_run
from compile_hud.runner.errors import ExecutorError, RunInterrupted, ToolchainUnusable
from compile_hud.runner.events import CaseStarted, LogMessage
from compile_hud.runner.execution.run_plan import (
    ResolvedRun,
    RunContext,
    case_order,
    deferred_message,
    new_run,
)
from compile_hud.runner.format import clock
from compile_hud.runner.planning.plan import PlannedCase, make_plan, plan_references
from compile_hud.runner.planning.time_budget import TimeBudget, Worth
from compile_hud.runner.protocol.files import whole_file
from compile_hud.runner.system.heartbeat_thread import heartbeat
from compile_hud.runner.system.interrupts import Interrupts

# A node that has died is listed for some seconds more; others take its case meanwhile.
BACKOFF_S = 60.0
# The plan ends after this time without any machine: a restarting or preempted machine is back in a
# few minutes.
NO_NODES_LIMIT_S = 300.0


@dataclass(slots=True, kw_only=True)
class _Node:
    """A node with its run, and its task since `started_at`: `planned`, or the query of facts."""

    slot: Slot
    run: MachineRun | None = None
    started_at: datetime | None = None
    planned: PlannedCase | None = None
    unusable_reason: str = ""
    backoff_until: datetime | None = None


def run_on_cluster(
    request: ResolvedRun,
    *,
    nodes: Nodes,
    context: RunContext,
    earlier: Sequence[RunDocument] = (),
) -> list[RunDocument]:
    """Execute `request` on the machines of a cluster and return the run of each, by name.

    `earlier` are the runs of an interrupted plan; then only its remaining cases are measured.
    Raises UnknownNameError, ExecutorError when no machine is connected or able to measure,
    SpoolFull, and RunInterrupted when it was stopped before a machine had a run. When it is stopped
    later, the state of the runs is `interrupted`.
    """
    # Wrong names fail before any node is contacted.
    if earlier:
        request = resumed_request(request, earlier=earlier)
        plan = remaining_plan(earlier, context=context)
    else:
        plan = make_plan(
            request.selection,
            catalog=context.catalog,
            variants=context.variants,
            device=request.device,
        )
    with connection(nodes.cluster), Interrupts() as interrupts:
        context.writer.drain_before_run(is_resume=bool(earlier))
        driver = _Driver(request, plan=plan, nodes=nodes, context=context)
        driver.resume(earlier)
        with interrupts.deferred(lambda: None), heartbeat(driver.record_heartbeat):
            driver.work(is_stopped=interrupts.were_requested)
    documents = driver.documents()
    if not documents:
        raise RunInterrupted("stopped before a machine was ready to measure")
    return documents


class _Driver:
    """One plan while it is executed."""

    def __init__(
        self,
        request: ResolvedRun,
        *,
        plan: Sequence[PlannedCase],
        nodes: Nodes,
        context: RunContext,
    ) -> None:
        self._request = request
        self._nodes = nodes
        self._cluster = nodes.cluster
        self._context = context
        self._started_at = self._last_node_at = context.services.now()
        # All nodes so far; those that are connected now.
        self._known: dict[Slot, _Node] = {}
        self._connected: list[_Node] = []
        self._update_nodes()
        if not self._connected:
            raise _no_nodes_error(nodes)
        worth, homes = self._load_worth()
        self._budget = TimeBudget(request.time_budget_s, worth=worth, now=context.services.now)
        ordered = self._budget.in_turn(plan, case_of=lambda planned: planned.case)
        self._queue = CaseQueue(ordered, homes=homes)
        self._plan = tuple(planned.case for planned in ordered)
        self._runs: dict[tuple[str, str, str], MachineRun] = {}

    def resume(self, earlier: Sequence[RunDocument]) -> None:
        """Resume the runs of an interrupted plan, each when its machine connects."""
        for document in earlier:
            self._started_at = document.run.started_at
            self._runs[_identity(document.run)] = resumed_run(document, context=self._context)

    def documents(self) -> list[RunDocument]:
        """Return the runs, by the names of their machines."""
        documents = [run.document for run in self._runs.values()]
        return sorted(documents, key=lambda document: document.run.machine)

    def record_heartbeat(self) -> None:
        """Record in the store that the runs are alive."""
        for run in list(self._runs.values()):
            self._context.writer.record_heartbeat(run.run.id, log=run.log)

    def work(self, *, is_stopped: Callable[[], bool]) -> None:
        """Execute the plan until it is complete, no machine is left, or it is stopped."""
        is_complete = False
        try:
            while not is_stopped() and self._has_work():
                self._update_nodes()
                self._assign_cases()
                for slot, output in self._cluster.wait(limit_s=POLL_INTERVAL_S):
                    self._receive(self._known[slot], output)
                self._cancel_overdue()
            is_complete = not is_stopped()
        finally:
            for run in self._runs.values():
                run.end_plan(is_complete=is_complete)

    def _load_worth(self) -> tuple[Worth, dict[str, str]]:
        """Return the worth of the cases, and the machine that measured each case last."""
        worth, last = Worth(), dict[str, tuple[datetime, str]]()
        for machine in dict.fromkeys(node.slot.machine for node in self._connected):
            worth = self._context.services.worth(replace(self._request, machine=machine))
            for key, at in worth.last_measured.items():
                last[key] = max((at, machine), last.get(key, (at, machine)))
        worth = replace(worth, last_measured={key: at for key, (at, _) in last.items()})
        return worth, {key: machine for key, (_, machine) in last.items()}

    def _has_work(self) -> bool:
        if any(node.started_at for node in self._known.values()):
            return True
        usable = self._usable()
        if not self._queue and not any(node.run and node.run.references for node in usable):
            return False
        reasons = {
            f"{node.slot.machine}: {node.unusable_reason}"
            for node in self._known.values()
            if node.unusable_reason
        }
        if reasons and not usable and not self._begun():
            raise ToolchainUnusable(f"no machine can measure: {'; '.join(sorted(reasons))}")
        now = self._context.services.now()
        if usable:
            self._last_node_at = now
        if now - self._last_node_at < timedelta(seconds=NO_NODES_LIMIT_S):
            return True
        self._fail_remaining()
        return False

    def _usable(self) -> list[_Node]:
        return [node for node in self._connected if not node.unusable_reason]

    def _update_nodes(self) -> None:
        """Update the list of connected nodes and report those that left."""
        slots = self._nodes.slots()
        for node in self._connected:
            if node.slot not in slots:
                self._warn(f"machine {node.slot.machine} is gone")
        self._connected = [self._known.setdefault(slot, _Node(slot=slot)) for slot in slots]

    def _assign_cases(self) -> None:
        for node in self._usable():
            if node.started_at or self._is_backing_off(node):
                continue
            if node.run is None:
                self._submit(node, None)
            elif (planned := self._next_case(node.slot.machine, node.run)) is not None:
                self._submit(node, planned)

    def _is_backing_off(self, node: _Node) -> bool:
        """Return whether a silent machine gets no case for now, since it may have disappeared."""
        has_others = any(item.backoff_until is None for item in self._usable())
        now = self._context.services.now()
        return has_others and node.backoff_until is not None and now < node.backoff_until

    def _next_case(self, machine: str, run: MachineRun) -> PlannedCase | None:
        if run.references:
            return run.references.popleft()
        planned = self._queue.take(machine, machines={item.slot.machine for item in self._usable()})
        if planned is None or self._budget.allows(planned.case):
            return planned
        deferred = [planned.case, *(item.case for item in self._queue.take_all())]
        run.defer(deferred, budget=self._budget)
        self._context.notify(deferred_message(len(deferred), budget=self._budget))
        return None

    def _submit(self, node: _Node, planned: PlannedCase | None) -> None:
        node.planned, node.started_at = planned, self._context.services.now()
        order = None
        if planned is not None and node.run is not None:
            self._context.notify(CaseStarted(case=planned.case))
            order = case_order(planned, run_id=node.run.run.id, settings=self._request.settings)
        self._cluster.submit(order, slot=node.slot, setup=self._nodes.setup)

    def _receive(self, node: _Node, output: LiveLog | Reply) -> None:
        run, planned, machine = node.run, node.planned, node.slot.machine
        if isinstance(output, LiveLog):
            assert run is not None
            run.log = output
            return
        node.planned = node.started_at = None
        if output.status is Status.UNUSABLE:
            node.unusable_reason = output.reason
            self._warn(f"machine {machine} cannot measure: {output.reason}")
        elif output.status is Status.GONE:
            self._warn(f"machine {machine} did not answer: {output.reason}")
            node.backoff_until = self._context.services.now() + timedelta(seconds=BACKOFF_S)
            if planned is None:
                node.unusable_reason = output.reason
        if run is None or planned is None:
            if output.status is Status.DONE:
                self._join(node, output)
            return
        run.log = None
        if output.status is Status.DONE:
            self._write(run, output)
        elif output.status is Status.BUSY:
            self._put_back(planned, run)
        else:
            self._retry(planned, run, reason=output.reason)

    def _write(self, run: MachineRun, reply: Reply) -> None:
        assert reply.result is not None
        name = trace_name(reply.result.id)
        if reply.trace and name is not None:
            folder = self._nodes.trace_folder
            folder.mkdir(parents=True, exist_ok=True)
            with whole_file(folder / name) as stream:
                stream.write(reply.trace)
        run.write(reply.result)

    def _put_back(self, planned: PlannedCase, run: MachineRun) -> None:
        """Return the case that a busy machine did not start."""
        if planned.case in self._plan:
            self._queue.put_back(planned)
        else:
            run.references.appendleft(planned)

    def _retry(self, planned: PlannedCase, run: MachineRun, *, reason: str) -> None:
        """Return the case of a failed machine to the queue; a reference case is of its machine."""
        if planned.case not in self._plan:
            text = f"{run.run.machine}: {reason}"
        elif self._queue.retry(planned):
            return
        else:
            text = f"{MAX_ASSIGNMENTS} machines were lost with it, the last by: {reason}"
        run.write(run.node_lost_result(planned.case, reason=text))

    def _join(self, node: _Node, reply: Reply) -> None:
        """Begin the run of a machine, or resume it."""
        request, context = self._request, self._context
        references = plan_references(request.device) if request.has_references else ()
        references = tuple(item for item in references if item.case not in self._plan)
        run = new_run(
            replace(request, machine=node.slot.machine),
            cases=(*(planned.case for planned in references), *self._plan),
            facts=reply.facts,
            context=context,
            # All machines share the start time, which identifies runs of one plan.
            at=self._started_at,
        )
        made = MachineRun(run, references=references, context=context)
        node.run = self._runs.setdefault(_identity(run), made)
        node.run.join(users=reply.users)

    def _cancel_overdue(self) -> None:
        limit_s = self._nodes.setup.limit_s(self._request.settings.timeout_s)
        at = self._context.services.now() - timedelta(seconds=limit_s)
        for node in self._known.values():
            if node.started_at and node.started_at < at:
                self._cluster.cancel(node.slot)
                reason = f"no answer within {clock(limit_s)}"
                self._receive(node, Reply(status=Status.GONE, reason=reason))
                # The machine would not answer about the next case either.
                node.unusable_reason = reason

    def _fail_remaining(self) -> None:
        """Give every pending case the outcome NODE_LOST."""
        run = next(iter(self._begun()), None)
        if run is None:
            raise _no_nodes_error(self._nodes)
        why = f"no machine was there for {clock(NO_NODES_LIMIT_S)}"
        results = [run.node_lost_result(item.case, reason=why) for item in self._queue.take_all()]
        run.write_all(results)
        verb = "is" if len(results) == 1 else "are"
        self._warn(f"{why}: {counted(len(results), 'case')} {verb} lost")

    def _begun(self) -> list[MachineRun]:
        """Return the runs whose machine was able to measure."""
        return [run for run in self._runs.values() if run.has_machine]

    def _warn(self, text: str) -> None:
        self._context.notify(LogMessage(text=text, is_warning=True))


def _no_nodes_error(nodes: Nodes) -> ExecutorError:
    who = "the cluster" if nodes.machine is None else f"machine {nodes.machine}"
    resource = f"hud-{nodes.setup.device}"
    return ExecutorError(
        f"no node of {who} offers {resource}; on each machine that will measure, run `ray start"
        f" --address HOST:6379 --resources '{{\"{resource}\": 1}}'`"
    )


def _identity(run: Run) -> tuple[str, str, str]:
    """Return the key that all runs of one machine in one environment share."""
    return run.machine, run.fingerprint, run.revision

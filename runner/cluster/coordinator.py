"""Execute a plan on the machines of a cluster and store the results.

Each machine has its own run with its environment, its reference cases and its assigned cases; in a
comparison it has one for each toolchain, and a case is measured under all of them there. A free
machine gets the next case. All results pass through the driver's spool, each case once.

Machines may join and leave at any time. If a machine leaves, its case goes to another one; after
MAX_ASSIGNMENTS assignments it gets the outcome `lost`. An interrupted plan continues with the cases
without a result, on the machines that are connected then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from compile_hud.db.records.results import Run, RunDocument
from compile_hud.db.shared.text import counted
from compile_hud.db.shared.trace_paths import trace_name
from compile_hud.runner.cluster.api import (
    POLL_INTERVAL_S,
    CasePolicy,
    LaunchesBySettings,
    Logs,
    Nodes,
    Reply,
    Slot,
    Status,
    Task,
    connection,
    measure_once,
)
from compile_hud.runner.cluster.assignments import MAX_ASSIGNMENTS, CaseQueue
from compile_hud.runner.cluster.machine_run import MachineRun
from compile_hud.runner.cluster.resume import remaining_plan, resumed_request, resumed_run
from compile_hud.runner.errors import ExecutorError, RunInterrupted, ToolchainUnusable
from compile_hud.runner.events import CaseStarted, LogMessage
from compile_hud.runner.execution.environment import differing_keys
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

# The runs of one machine: one for each request.
MachineDocuments = tuple[RunDocument, ...]
_Identity = tuple[tuple[str, str, str], ...]


@dataclass(slots=True, kw_only=True)
class _Node:
    """A node with its runs, and its task since `started_at`: `planned`, or the query of facts."""

    slot: Slot
    runs: tuple[MachineRun, ...] = ()
    started_at: datetime | None = None
    planned: PlannedCase | None = None
    unusable_reason: str = ""
    backoff_until: datetime | None = None

    def set_logs(self, logs: Logs) -> None:
        """Set the newest log of each run; () removes them."""
        for run, log in itertools.zip_longest(self.runs, logs):
            run.log = log


def run_on_cluster(
    request: ResolvedRun,
    *,
    nodes: Nodes,
    context: RunContext,
    earlier: Sequence[RunDocument] = (),
) -> list[RunDocument]:
    """Execute `request` on the machines of a cluster and return the run of each, by name.

    `earlier` are the runs of an interrupted plan. See `run_together_on_cluster`.
    """
    machines = run_together_on_cluster(
        [request], nodes=nodes, context=context, earlier=[(document,) for document in earlier]
    )
    return [document for (document,) in machines]


def run_together_on_cluster(
    requests: Sequence[ResolvedRun],
    *,
    nodes: Nodes,
    context: RunContext,
    earlier: Sequence[MachineDocuments] = (),
    policy: CasePolicy | None = None,
) -> list[MachineDocuments]:
    """Execute each case under all `requests` on one machine; return the runs, by machine.

    All requests have the same cases and device, and request i uses interpreter i of the nodes.
    `earlier` are the runs of an interrupted plan; then only its remaining cases are measured.
    Raises UnknownNameError, ExecutorError when no machine is connected or able to measure,
    SpoolFull, and RunInterrupted when it was stopped before a machine had a run. When it is stopped
    later, or `policy` left cases, the state of the runs is `interrupted`.
    """
    # Wrong names fail before any node is contacted.
    if earlier:
        requests = [
            resumed_request(request, earlier=documents)
            for request, documents in zip(requests, zip(*earlier, strict=True), strict=True)
        ]
        plan = remaining_plan(earlier, context=context)
    else:
        plan = make_plan(
            requests[0].selection,
            catalog=context.catalog,
            variants=context.variants,
            device=requests[0].device,
        )
    with connection(nodes.cluster), Interrupts() as interrupts:
        context.writer.drain_before_run(is_resume=bool(earlier))
        driver = _Driver(
            requests,
            plan=plan,
            nodes=nodes,
            context=context,
            policy=policy or LaunchesBySettings(),
        )
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
        requests: Sequence[ResolvedRun],
        *,
        plan: Sequence[PlannedCase],
        nodes: Nodes,
        context: RunContext,
        policy: CasePolicy,
    ) -> None:
        self._requests = requests
        self._request = requests[0]
        self._nodes = nodes
        self._cluster = nodes.cluster
        self._context = context
        self._policy = policy
        self._last_node_at = context.services.now()
        # All machines share the start times, which identify runs of one plan.
        self._started_at = [self._last_node_at for _ in requests]
        # All nodes so far; those that are connected now.
        self._known: dict[Slot, _Node] = {}
        self._connected: list[_Node] = []
        self._update_nodes()
        if not self._connected:
            raise _no_nodes_error(nodes)
        worth, homes = self._load_worth()
        self._budget = TimeBudget(
            self._request.time_budget_s, worth=worth, now=context.services.now
        )
        ordered = self._budget.in_turn(plan, case_of=lambda planned: planned.case)
        self._queue = CaseQueue(ordered, homes=homes)
        self._plan = tuple(planned.case for planned in ordered)
        self._runs: dict[_Identity, tuple[MachineRun, ...]] = {}

    def resume(self, earlier: Sequence[MachineDocuments]) -> None:
        """Resume the runs of an interrupted plan, each when its machine connects."""
        for documents in earlier:
            self._started_at = [document.run.started_at for document in documents]
            self._runs[_identity([document.run for document in documents])] = tuple(
                resumed_run(document, context=self._context) for document in documents
            )

    def documents(self) -> list[MachineDocuments]:
        """Return the runs, by the names of their machines."""
        documents = [tuple(run.document for run in runs) for runs in self._runs.values()]
        return sorted(documents, key=lambda documents: documents[0].run.machine)

    def record_heartbeat(self) -> None:
        """Record in the store that the runs are alive."""
        for run in self._all_runs():
            self._context.writer.record_heartbeat(run.run.id, log=run.log)

    def work(self, *, is_stopped: Callable[[], bool]) -> None:
        """Execute the plan until it is complete, no machine is left, or it is stopped."""
        is_complete = False
        try:
            while not is_stopped() and self._has_work():
                self._update_nodes()
                self._assign_cases()
                for slot, output in self._cluster.wait(limit_s=POLL_INTERVAL_S):
                    node = self._known[slot]
                    if isinstance(output, Reply):
                        self._receive(node, output)
                    else:
                        node.set_logs(output)
                self._cancel_overdue()
            is_complete = not is_stopped() and not self._queue
        finally:
            for run in self._all_runs():
                run.end_plan(is_complete=is_complete)

    def _all_runs(self) -> list[MachineRun]:
        return [run for runs in list(self._runs.values()) for run in runs]

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
        has_cases = bool(self._queue) and self._policy.has_time()
        if not has_cases and not any(node.runs and node.runs[0].references for node in usable):
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
            if not node.runs:
                self._submit(node, None)
            elif (planned := self._next_case(node.slot.machine, node.runs)) is not None:
                self._submit(node, planned)

    def _is_backing_off(self, node: _Node) -> bool:
        """Return whether a silent machine gets no case for now, since it may have disappeared."""
        has_others = any(item.backoff_until is None for item in self._usable())
        now = self._context.services.now()
        return has_others and node.backoff_until is not None and now < node.backoff_until

    def _next_case(self, machine: str, runs: Sequence[MachineRun]) -> PlannedCase | None:
        if runs[0].references:
            return runs[0].references.popleft()
        if not self._policy.has_time():
            return None
        planned = self._queue.take(machine, machines={item.slot.machine for item in self._usable()})
        if planned is None or self._budget.allows(planned.case):
            return planned
        deferred = [planned.case, *(item.case for item in self._queue.take_all())]
        for run in runs:
            run.defer(deferred, budget=self._budget)
        self._context.notify(deferred_message(len(deferred), budget=self._budget))
        return None

    def _submit(self, node: _Node, planned: PlannedCase | None) -> None:
        node.planned, node.started_at = planned, self._context.services.now()
        task = None
        if planned is not None:
            self._context.notify(CaseStarted(case=planned.case))
            task = Task(
                orders=tuple(
                    case_order(planned, run_id=run.run.id, settings=request.settings)
                    for run, request in zip(node.runs, self._requests, strict=True)
                ),
                measure=self._policy.begin() if planned.case in self._plan else measure_once,
            )
        self._cluster.submit(task, slot=node.slot, setup=self._nodes.setup)

    def _receive(self, node: _Node, reply: Reply) -> None:
        runs, planned, machine = node.runs, node.planned, node.slot.machine
        started_at, node.planned, node.started_at = node.started_at, None, None
        if reply.status is Status.UNUSABLE:
            node.unusable_reason = reply.reason
            self._warn(f"machine {machine} cannot measure: {reply.reason}")
        elif reply.status is Status.GONE:
            self._warn(f"machine {machine} did not answer: {reply.reason}")
            node.backoff_until = self._context.services.now() + timedelta(seconds=BACKOFF_S)
            if planned is None:
                node.unusable_reason = reply.reason
        if planned is None:
            if reply.status is Status.DONE:
                self._join(node, reply)
            return
        node.set_logs(())
        if reply.status is Status.DONE:
            if planned.case in self._plan and started_at is not None:
                self._policy.end(self._context.services.now() - started_at)
            self._write(runs, reply)
        elif reply.status is Status.BUSY:
            self._put_back(planned, runs)
        else:
            self._retry(planned, runs, reason=reply.reason)

    def _write(self, runs: Sequence[MachineRun], reply: Reply) -> None:
        for run, result, trace in zip(runs, reply.results, reply.traces, strict=True):
            name = trace_name(result.id)
            if trace and name is not None:
                folder = self._nodes.trace_folder
                folder.mkdir(parents=True, exist_ok=True)
                with whole_file(folder / name) as stream:
                    stream.write(trace)
            run.write(result)

    def _put_back(self, planned: PlannedCase, runs: Sequence[MachineRun]) -> None:
        """Return the case that a busy machine did not start."""
        if planned.case in self._plan:
            self._queue.put_back(planned)
        else:
            runs[0].references.appendleft(planned)

    def _retry(self, planned: PlannedCase, runs: Sequence[MachineRun], *, reason: str) -> None:
        """Return the case of a failed machine to the queue; a reference case is of its machine."""
        if planned.case not in self._plan:
            text = f"{runs[0].run.machine}: {reason}"
        elif self._queue.retry(planned):
            return
        else:
            text = f"{MAX_ASSIGNMENTS} machines were lost with it, the last by: {reason}"
        for run in runs:
            run.write(run.node_lost_result(planned.case, reason=text))

    def _join(self, node: _Node, reply: Reply) -> None:
        """Begin the runs of a machine, or resume them."""
        references = plan_references(self._request.device) if self._request.has_references else ()
        references = tuple(item for item in references if item.case not in self._plan)
        made = [
            new_run(
                replace(request, machine=node.slot.machine),
                cases=(*(planned.case for planned in references), *self._plan),
                facts=facts,
                context=self._context,
                at=at,
            )
            for request, facts, at in zip(
                self._requests, reply.facts, self._started_at, strict=True
            )
        ]
        node.unusable_reason = self._mismatch(made)
        if node.unusable_reason:
            self._warn(f"machine {node.slot.machine} cannot measure: {node.unusable_reason}")
            return
        key = _identity(made)
        if key not in self._runs:
            self._runs[key] = tuple(
                MachineRun(run, references=references, context=self._context) for run in made
            )
        node.runs = self._runs[key]
        for run in node.runs:
            is_alone = len(node.runs) == 1
            label = run.run.machine if is_alone else f"{run.run.machine} {run.run.toolchain}"
            run.join(users=reply.users, label=label)

    def _mismatch(self, runs: Sequence[Run]) -> str:
        """Return the reason why a machine cannot share a comparison, "" if it can.

        A comparison is about the same builds everywhere, and has one pair of runs a machine.
        """
        if len(runs) == 1:
            return ""
        others = [other.run for other in self._all_runs()]
        for run, other in itertools.product(runs, others):
            if run.toolchain == other.toolchain and run.revision != other.revision:
                return (
                    f"toolchain {run.toolchain} is {run.revision} there, and {other.revision} on"
                    f" {other.machine}"
                )
            is_same = (run.toolchain, run.machine) == (other.toolchain, other.machine)
            if is_same and run.fingerprint != other.fingerprint:
                keys = ", ".join(differing_keys(other.environment, candidate=run.environment))
                return f"its environment is not that of its run {other.id} ({keys} differ)"
        return ""

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
        """Give every pending case the outcome NODE_LOST; a comparison leaves them to `--resume`."""
        runs = next(iter(self._begun()), None)
        if runs is None:
            raise _no_nodes_error(self._nodes)
        why = f"no machine was there for {clock(NO_NODES_LIMIT_S)}"
        if len(runs) > 1:
            self._warn(why)
            return
        cases = [planned.case for planned in self._queue.take_all()]
        for run in runs:
            run.write_all([run.node_lost_result(case, reason=why) for case in cases])
        verb = "is" if len(cases) == 1 else "are"
        self._warn(f"{why}: {counted(len(cases), 'case')} {verb} lost")

    def _begun(self) -> list[tuple[MachineRun, ...]]:
        """Return the runs of each machine that was able to measure."""
        return [runs for runs in self._runs.values() if runs[0].has_machine]

    def _warn(self, text: str) -> None:
        self._context.notify(LogMessage(text=text, is_warning=True))


def _no_nodes_error(nodes: Nodes) -> ExecutorError:
    who = "the cluster" if nodes.machine is None else f"machine {nodes.machine}"
    resource = f"hud-{nodes.setup.device}"
    return ExecutorError(
        f"no node of {who} offers {resource}; on each machine that will measure, run `ray start"
        f" --address HOST:6379 --resources '{{\"{resource}\": 1}}'`"
    )


def _identity(runs: Sequence[Run]) -> _Identity:
    """Return the key that all runs of one machine in one environment share."""
    return tuple((run.machine, run.fingerprint, run.revision) for run in runs)

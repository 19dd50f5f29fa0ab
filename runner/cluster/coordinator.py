"""Execute a plan on the machines of a cluster and store the results.

Each machine has its own run with its environment, its reference cases and its assigned cases. A
free machine gets the next case. All results pass through the driver's spool, each case once.

Machines may join and leave at any time. If a machine leaves, its case goes to another one; after
MAX_ASSIGNMENTS assignments it gets the outcome `lost`. An interrupted plan continues with the cases
without a result, on the machines that are connected then.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import Case, CaseResult, Outcome, Run, RunDocument
from compile_hud.db.shared.model_sources import MODEL_SOURCES
from compile_hud.db.shared.text import counted
from compile_hud.db.shared.trace_paths import trace_name
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES
from compile_hud.runner.cluster.api import Cluster, Ended, Reply, Setup, Slot, Status, connection
from compile_hud.runner.cluster.assignments import MAX_ASSIGNMENTS, Assignment, CaseQueue
from compile_hud.runner.cluster.machine_run import MachineRun
from compile_hud.runner.cluster.resume import remaining_plan, resumed_request, resumed_run
from compile_hud.runner.errors import ExecutorError, RunInterrupted, ToolchainUnusable
from compile_hud.runner.events import CaseStarted, LogMessage
from compile_hud.runner.execution.environment import fingerprint, revision
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.model_commits import model_commits
from compile_hud.runner.execution.retries import MAX_ATTEMPTS
from compile_hud.runner.execution.run_plan import ResolvedRun, RunContext, settings_for
from compile_hud.runner.files.model_sources import SourceAttacher, hashes_of, kept_sources
from compile_hud.runner.format import clock
from compile_hud.runner.planning.plan import PlannedCase, make_plan
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.planning.time_budget import TimeBudget, Worth
from compile_hud.runner.protocol.files import whole_file
from compile_hud.runner.system.heartbeat_thread import heartbeat
from compile_hud.runner.system.interrupts import Interrupts

# Seconds between two reads of the node list.
POLL_INTERVAL_S = 2.0
# A node that has died is listed for some seconds more; others take its case meanwhile.
BACKOFF_S = 60.0
# Limit of a task beyond the limit of its case. It covers the wait for a lock, the start of a worker
# host, the device's facts and peaks, and compiled headers. Each of these has its own limit.
SETUP_LIMIT_S = 900.0
# The plan ends after this time without any machine: a restarting or preempted machine is back in a
# few minutes.
NO_NODES_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _SlotTask:
    """The task of a slot: a case of the queue, a reference case, or the query of its facts."""

    slot: Slot
    started_at: datetime
    run: MachineRun | None = None
    assignment: Assignment | None = None
    reference: PlannedCase | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of a run and their settings; with `machine`, only that one.

    The spool looks for traces in `trace_folder`.
    """

    cluster: Cluster
    setup: Setup
    trace_folder: Path
    machine: str | None = None

    def slots(self) -> tuple[Slot, ...]:
        """Return the slots that are connected now."""
        slots = self.cluster.slots()
        return tuple(slot for slot in slots if self.machine in (None, slot.machine))


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
        plan = remaining_plan(
            earlier,
            catalog=context.catalog,
            variants=context.variants,
        )
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
        self._started_at = context.services.now()
        self._slots = nodes.slots()
        if not self._slots:
            raise ExecutorError(no_nodes_message(request.device, machine=nodes.machine))
        worths = {
            slot.machine: context.services.worth(_on_machine(request, slot.machine))
            for slot in self._slots
        }
        self._budget = TimeBudget(
            request.time_budget_s, worth=_merged_worth(worths.values()), now=context.services.now
        )
        ordered = self._budget.in_turn(plan, case_of=lambda planned: planned.case)
        self._queue = CaseQueue(ordered, homes=_homes(worths))
        self._plan = tuple(planned.case for planned in ordered)
        self._runs: dict[tuple[str, str, str], MachineRun] = {}
        self._run_of: dict[Slot, MachineRun] = {}
        self._unusable: dict[Slot, str] = {}
        self._backoff_until: dict[Slot, datetime] = {}
        self._tasks: dict[str, _SlotTask] = {}
        self._checked_at = self._last_node_at = self._started_at

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
            run_id = run.run.id
            self._context.writer.record_heartbeat(run_id, log=self._cluster.log_of(run_id))

    def work(self, *, is_stopped: Callable[[], bool]) -> None:
        """Execute the plan until it is complete, no machine is left, or it is stopped."""
        is_complete = False
        try:
            while not is_stopped() and self._has_work():
                self._update_slots()
                self._assign_cases()
                for ended in self._cluster.wait(limit_s=POLL_INTERVAL_S):
                    self._on_ended(ended)
                self._cancel_overdue()
            is_complete = not is_stopped()
        finally:
            self._end(is_complete=is_complete)

    def _has_work(self) -> bool:
        if self._tasks:
            return True
        usable = [slot for slot in self._slots if slot not in self._unusable]
        owed = [slot for slot in usable if slot in self._run_of and self._run_of[slot].references]
        if not self._queue.waiting and not owed:
            return False
        if self._unusable and not usable and not self._has_begun():
            reasons = {f"{slot.machine}: {why}" for slot, why in self._unusable.items()}
            raise ToolchainUnusable(f"no machine can measure: {'; '.join(sorted(reasons))}")
        now = self._context.services.now()
        if usable:
            self._last_node_at = now
        if now - self._last_node_at < timedelta(seconds=NO_NODES_LIMIT_S):
            return True
        self._fail_remaining()
        return False

    def _update_slots(self) -> None:
        """Update the list of connected slots and report those that left."""
        now = self._context.services.now()
        if now - self._checked_at < timedelta(seconds=POLL_INTERVAL_S):
            return
        self._checked_at = now
        before, self._slots = self._slots, self._nodes.slots()
        for slot in before:
            if slot not in self._slots:
                self._run_of.pop(slot, None)
                self._warn(f"machine {slot.machine} is gone")

    def _assign_cases(self) -> None:
        busy = {task.slot for task in self._tasks.values()}
        for slot in self._slots:
            if slot in busy or slot in self._unusable or self._is_backing_off(slot):
                continue
            run = self._run_of.get(slot)
            if run is None:
                self._submit(None, _SlotTask(slot=slot, started_at=self._context.services.now()))
            elif run.references:
                self._assign_reference(slot, run)
            elif self._queue.waiting:
                self._assign_case(slot, run)

    def _is_backing_off(self, slot: Slot) -> bool:
        """Return whether a silent machine gets no case for now, since it may have disappeared."""
        others = [
            item for item in self._slots if item not in (*self._backoff_until, *self._unusable)
        ]
        until = self._backoff_until.get(slot)
        return bool(others) and until is not None and self._context.services.now() < until

    def _assign_reference(self, slot: Slot, run: MachineRun) -> None:
        planned = run.references.popleft()
        task = _SlotTask(
            slot=slot, started_at=self._context.services.now(), run=run, reference=planned
        )
        self._submit(self._order(planned, run), task)

    def _assign_case(self, slot: Slot, run: MachineRun) -> None:
        machines = {item.machine for item in self._slots if item not in self._unusable}
        assignment = self._queue.take(slot.machine, machines=machines)
        assert assignment is not None
        if not self._budget.allows(assignment.planned.case):
            self._queue.take_back(assignment, is_counted=False)
            self._defer(run)
            return
        run.assign(assignment.planned.case)
        task = _SlotTask(
            slot=slot, started_at=self._context.services.now(), run=run, assignment=assignment
        )
        self._submit(self._order(assignment.planned, run), task)

    def _submit(self, order: CaseOrder | None, task: _SlotTask) -> None:
        if order is not None:
            self._context.notify(CaseStarted(case=order.case))
        name = self._cluster.submit(order, slot=task.slot, setup=self._nodes.setup)
        self._tasks[name] = task

    def _order(self, planned: PlannedCase, run: MachineRun) -> CaseOrder:
        return CaseOrder(
            run_id=run.run.id,
            case=planned.case,
            workload=planned.workload,
            settings=settings_for(planned.case, self._request.settings),
            skips_same_code=True,
        )

    def _on_ended(self, ended: Ended) -> None:
        task = self._tasks.pop(ended.task)
        reply = ended.reply
        if reply is None:
            self._warn(f"machine {task.slot.machine} did not answer: {ended.reason}")
            self._backoff_until[task.slot] = self._context.services.now() + timedelta(
                seconds=BACKOFF_S
            )
            if task.assignment is None and task.reference is None:
                self._unusable[task.slot] = ended.reason
            self._reassign(task, reason=ended.reason)
        elif reply.status is Status.BUSY:
            self._return_case(task)
        elif reply.status is Status.UNUSABLE:
            self._unusable[task.slot] = reply.reason
            self._warn(f"machine {task.slot.machine} cannot measure: {reply.reason}")
            self._reassign(task, reason=reply.reason)
        elif reply.result is None:
            self._join(task.slot, reply)
        elif task.assignment is None or self._queue.accept(task.assignment):
            self._write(reply.result, reply=reply)

    def _write(self, result: CaseResult, *, reply: Reply) -> None:
        name = trace_name(result.id)
        if reply.trace and name is not None:
            folder = self._nodes.trace_folder
            folder.mkdir(parents=True, exist_ok=True)
            with whole_file(folder / name) as stream:
                stream.write(reply.trace)
        self._by_id(result.run_id).write(result)

    def _by_id(self, run_id: str) -> MachineRun:
        return next(run for run in self._runs.values() if run.run.id == run_id)

    def _reassign(self, task: _SlotTask, *, reason: str) -> None:
        """Reassign the case of a failed machine."""
        run = task.run
        if task.reference is not None and run is not None:
            run.write(
                self._node_lost_result(task.reference.case, run, f"{task.slot.machine}: {reason}")
            )
        if task.assignment is None or run is None:
            return
        case = task.assignment.planned.case
        if self._queue.take_back(task.assignment):
            run.withdraw(case)
            return
        text = f"{MAX_ASSIGNMENTS} machines were lost with it, the last by: {reason}"
        run.write(self._node_lost_result(case, run, text))

    def _return_case(self, task: _SlotTask) -> None:
        """Return the case that a busy machine did not start to the queue."""
        run = task.run
        if task.assignment is not None and run is not None:
            run.withdraw(task.assignment.planned.case)
            self._queue.take_back(task.assignment, is_counted=False)
        elif task.reference is not None and run is not None:
            run.references.appendleft(task.reference)

    def _join(self, slot: Slot, reply: Reply) -> None:
        """Begin the run of a machine, or resume it."""
        specs = [
            self._context.catalog[name]
            for name in dict.fromkeys(case.model for case in self._plan)
            if name in self._context.catalog
        ]
        facts = {
            **reply.facts,
            "num_threads": self._request.settings.num_threads,
            "measure_settings": dataclasses.asdict(self._request.settings),
            "model_commits": model_commits(specs),
        }
        if sources := kept_sources(specs):
            facts[MODEL_SOURCES] = hashes_of(sources)
        made = self._make_run(slot, facts=facts, sources=sources)
        run = self._runs.setdefault(_identity(made.run), made)
        run.start(users=reply.users)
        self._run_of[slot] = run

    def _make_run(
        self, slot: Slot, *, facts: Mapping[str, Any], sources: Mapping[str, KernelSource]
    ) -> MachineRun:
        request = self._request
        references: tuple[PlannedCase, ...] = ()
        if request.has_references:
            selection = Selection(models=tuple(REFERENCES))
            reference_plan = make_plan(
                selection,
                catalog=self._context.catalog,
                variants=self._context.variants,
                device=request.device,
            )
            references = tuple(item for item in reference_plan if item.case not in self._plan)
        run = Run(
            id=uuid.uuid4().hex[:12],
            # All machines share the start time, which identifies runs of one plan.
            started_at=self._started_at,
            suite=request.suite,
            toolchain=request.toolchain,
            revision=revision(facts),
            machine=slot.machine,
            environment=facts,
            fingerprint=fingerprint(facts),
            plan=(*(planned.case for planned in references), *self._plan),
            trigger=request.trigger,
        )
        return MachineRun(
            run,
            references=references,
            context=self._context,
            sources=SourceAttacher(sources),
        )

    def _cancel_overdue(self) -> None:
        limit_s = MAX_ATTEMPTS * self._request.settings.timeout_s + SETUP_LIMIT_S
        limit = timedelta(seconds=limit_s + self._request.wait_idle_s)
        for name, task in list(self._tasks.items()):
            if self._context.services.now() - task.started_at > limit:
                self._cluster.cancel(name)
                reason = f"no answer within {clock(limit.total_seconds())}"
                # The machine would not answer about the next case either.
                self._unusable[task.slot] = reason
                self._on_ended(Ended(task=name, reason=reason))

    def _defer(self, run: MachineRun) -> None:
        waiting = self._queue.waiting
        for planned in waiting:
            self._queue.drop(planned)
        run.write_all([self._budget.defer(planned.case, run_id=run.run.id) for planned in waiting])
        deferred = counted(len(waiting), "case")
        text = f"{self._budget.text}; deferred to the next run: {deferred}"
        self._context.notify(LogMessage(text=text))

    def _fail_remaining(self) -> None:
        """Give every pending case the outcome NODE_LOST."""
        if not self._has_begun():
            raise ExecutorError(no_nodes_message(self._request.device, machine=self._nodes.machine))
        run = next(run for run in self._runs.values() if run.has_machine)
        why = f"no machine was there for {clock(NO_NODES_LIMIT_S)}"
        run.write_all(
            [self._node_lost_result(planned.case, run, why) for planned in self._queue.waiting]
        )
        num = len(self._queue.waiting)
        self._warn(f"{why}: {counted(num, 'case')} {'is' if num == 1 else 'are'} lost")

    def _node_lost_result(self, case: Case, run: MachineRun, reason: str) -> CaseResult:
        at = self._context.services.now()
        return CaseResult(
            id=uuid.uuid4().hex,
            run_id=run.run.id,
            case=case,
            outcome=Outcome.NODE_LOST,
            reason=reason,
            started_at=at,
            finished_at=at,
        )

    def _has_begun(self) -> bool:
        """Return whether any machine was able to measure."""
        return any(run.has_machine for run in self._runs.values())

    def _end(self, *, is_complete: bool) -> None:
        for task in self._tasks.values():
            run = task.run
            if task.assignment is not None and run is not None:
                run.withdraw(task.assignment.planned.case)
        for run in self._runs.values():
            # The machine left before it measured them, or the plan is complete without them.
            for planned in run.references:
                run.withdraw(planned.case)
            run.end(is_complete=is_complete)

    def _warn(self, text: str) -> None:
        self._context.notify(LogMessage(text=text, is_warning=True))


def no_nodes_message(device: str, *, machine: str | None) -> str:
    """Return the error text for no node with `device`, with the command that adds one."""
    who = "the cluster" if machine is None else f"machine {machine}"
    return (
        f"no node of {who} offers hud-{device}; on each machine that will measure, run `ray"
        f" start --address HOST:6379 --resources '{{\"hud-{device}\": 1}}'`"
    )


def _identity(run: Run) -> tuple[str, str, str]:
    """Return the key that all runs of one machine in one environment share."""
    return run.machine, run.fingerprint, run.revision


def _on_machine(request: ResolvedRun, machine: str) -> ResolvedRun:
    return replace(request, machine=machine)


def _merged_worth(worths: Iterable[Worth]) -> Worth:
    """Return the worth of the cases over all machines; the newest measurement counts."""
    last_measured: dict[str, datetime] = {}
    joined = Worth()
    for worth in worths:
        for key, at in worth.last_measured.items():
            last_measured[key] = max(at, last_measured.get(key, at))
        joined = worth
    return replace(joined, last_measured=last_measured)


def _homes(worths: Mapping[str, Worth]) -> dict[str, str]:
    """Return the machine that measured each case last, by the case's key."""
    last: dict[str, tuple[datetime, str]] = {}
    for machine, worth in worths.items():
        for key, at in worth.last_measured.items():
            last[key] = max((at, machine), last.get(key, (at, machine)))
    return {key: machine for key, (_, machine) in last.items()}

"""Execute the plan of a run, or of several runs interleaved, case by case.

A result is in the spool before the next case starts. The run survives a store that is locked, full
or missing; Ctrl-C and SIGTERM end it in good order, and `resume` continues it later.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from compile_hud.db.jobs.live_log import LiveLog
from compile_hud.db.records.results import Case, CaseResult, Run, RunDocument, RunState
from compile_hud.db.records.summaries import CaseSeconds
from compile_hud.db.shared.model_sources import MODEL_SOURCES
from compile_hud.db.shared.text import counted
from compile_hud.models_zoo.catalog.spec import ModelSpec, Variant
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.errors import ExecutorError, ResumeError, ToolchainUnusable
from compile_hud.runner.events import (
    CaseFinished,
    CaseStarted,
    LogMessage,
    Notify,
    RunEnded,
    RunStarted,
)
from compile_hud.runner.execution.ahead.cases import CompileAhead, longest_first, open_compile_ahead
from compile_hud.runner.execution.device_idle import DeviceUsers, wait_until_idle, with_users
from compile_hud.runner.execution.environment import differing_keys, fingerprint, revision
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.model_commits import model_commits
from compile_hud.runner.execution.paired_launches import (
    MeasureCase,
    MeasureCases,
    PairSide,
    launch_interleaved,
)
from compile_hud.runner.execution.retries import measure_with_retries
from compile_hud.runner.files.model_sources import SourceAttacher, hashes_of, kept_sources
from compile_hud.runner.format import distinct
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.planning.open_work import OpenWork
from compile_hud.runner.planning.plan import PlannedCase, make_plan, plan_case
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.planning.time_budget import TimeBudget, Worth
from compile_hud.runner.protocol.messages import MeasureSettings
from compile_hud.runner.system.heartbeat_thread import heartbeat
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.locks import device_lock

# Sampling of one launch of a reference case, in wall seconds. They are in every run, so they must
# cost next to nothing; 30 products of 9 ms fit.
REFERENCE_BUDGET_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRun:
    """The cases and settings of a run; `resume_id` names an interrupted run to continue.

    With `has_references` the reference cases come first. A run starts cases for `time_budget_s`
    seconds, in order of their worth, and defers the others. It waits at most `wait_idle_s` seconds
    for a device that other processes use. A run alone compiles `compile_ahead` cases at a time
    before they sample one by one; 0 compiles each alone.
    """

    suite: str
    selection: Selection
    toolchain: str
    device: str
    settings: MeasureSettings
    machine: str
    has_references: bool = False
    time_budget_s: float | None = None
    wait_idle_s: float = 0.0
    compile_ahead: int = 0
    trigger: str = "manual"
    resume_id: str | None = None


class DocumentLoader(Protocol):
    """Loads a run with its results."""

    def __call__(self, run_id: str, /) -> RunDocument:
        """Return the run; raise NotFoundError."""
        ...


class WorthSource(Protocol):
    """Knows which cases a run with a time budget should begin with."""

    def __call__(self, request: ResolvedRun, /) -> Worth:
        """Return the worth of the cases of `request`."""
        ...


class CostSource(Protocol):
    """Knows how long the cases of a run take to compile."""

    def __call__(self, request: ResolvedRun, /) -> Mapping[str, float]:
        """Return the seconds by the key of each known case."""
        ...


class DurationSource(Protocol):
    """Knows how long the cases of a run took last."""

    def __call__(self, request: ResolvedRun, /) -> Mapping[str, CaseSeconds]:
        """Return the seconds by the key of each known case."""
        ...


class LiveLogSource(Protocol):
    """Finds the log of the case that a run is measuring."""

    def __call__(self, run_id: str, /) -> LiveLog | None:
        """Return the log, None where there is none yet."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunServices:
    """The collaborators of a run that tests replace.

    `device_users` lists the processes of others on a device.
    """

    load_document: DocumentLoader
    now: Callable[[], datetime]
    worth: WorthSource = lambda _request: Worth()
    compile_seconds: CostSource = lambda _request: {}
    durations: DurationSource = lambda _request: {}
    device_users: DeviceUsers = lambda _device: ()
    live_log: LiveLogSource = lambda _run_id: None
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The environment of runs, with one executor for each of them."""

    executors: tuple[Executor, ...]
    writer: ResultWriter
    catalog: Mapping[str, ModelSpec]
    lock_dir: Path
    notify: Notify
    services: RunServices
    variants: Mapping[str, Variant] = field(default_factory=lambda: VARIANTS)


def run_plans(
    requests: Sequence[ResolvedRun],
    *,
    context: RunContext,
    measure_case: MeasureCase = launch_interleaved,
    measure_cases: MeasureCases | None = None,
) -> list[RunDocument]:
    """Execute `requests`, each case under all of them in turn, and return their runs.

    All requests have the same cases and device, and request i uses executor i. A case whose worker
    is killed from outside is retried. `measure_cases` measures all cases instead, if given. A run
    includes its results from before a resume. Waits for the lock of the device. A run that was
    stopped, or some of whose cases were not measured, has the state `interrupted`. Raises
    UnknownNameError, ExecutorError, SpoolFull and ResumeError, and RunInterrupted when it was
    stopped before a run existed.
    """
    device = requests[0].device
    # Wrong names fail before a worker host is started and before the device is locked.
    for request in requests:
        if request.resume_id is None:
            _plan(request, context=context)
    with (
        Interrupts() as interrupts,
        device_lock(device, lock_dir=context.lock_dir, notify=context.notify),
    ):
        try:
            # Only the first executor starts: imports of another would disturb the peaks.
            _start_executor(context.executors[0])
            context.writer.drain_before_run(is_resume=any(item.resume_id for item in requests))
            context.writer.mark_stale_runs_interrupted(machine=requests[0].machine, device=device)
            # This precedes our own processes on the device, which look like those of others.
            users = _wait_until_idle(requests[0], context=context)
            ahead = _open_ahead(requests, context=context)
            executions = [
                _prepare(request, executor=executor, context=context, users=users, ahead=ahead)
                for request, executor in zip(requests, context.executors, strict=True)
            ]
            # All sides measure a case at the same time, so the budget of the first one decides.
            budget = _budget(requests[0], context=context)
            with interrupts.deferred(lambda: _cancel(context.executors)):
                _execute(
                    executions,
                    context=context,
                    measure=measure_cases
                    or partial(_measured, measure_case=measure_case, ahead=ahead),
                    ahead=ahead,
                    request=requests[0],
                    budget=budget,
                    stop=interrupts,
                )
        finally:
            for executor in context.executors:
                executor.close()
    return [item.document for item in executions]


def _wait_until_idle(request: ResolvedRun, *, context: RunContext) -> tuple[str, ...]:
    """Return the processes of others on the device, after the wait for them to end."""
    return wait_until_idle(
        request.device,
        users=context.services.device_users,
        limit_s=request.wait_idle_s,
        now=context.services.now,
        sleep=context.services.sleep,
        notify=context.notify,
    )


class ActiveRun:
    """One run while it is executed.

    `users` are the other processes on the device, `results` those from before a resume.
    """

    def __init__(
        self,
        run: Run,
        *,
        context: RunContext,
        users: tuple[str, ...] = (),
        results: Sequence[CaseResult] = (),
    ) -> None:
        self.run = run
        self.results = list(results)
        self.users = users
        self._context = context
        self._sources = SourceAttacher(kept_sources(_specs(run.plan, context=context)))

    @property
    def document(self) -> RunDocument:
        """Return the run with its results so far."""
        return RunDocument(run=self.run, results=tuple(self.results))

    def start(self, *, label: str) -> None:
        """Store and announce the run; raise SpoolFull."""
        self._context.writer.write(self.run)
        started = RunStarted(run=self.run, num_done=len(self.results), label=label)
        self._context.notify(started)

    def write(self, result: CaseResult) -> None:
        """Write `result` to the spool; raise SpoolFull."""
        result = with_users(result, users=self.users)
        result = self._sources.attach(result, run=self.run)
        self._context.writer.write(self.run, result=result)
        self.results.append(result)
        self._context.notify(CaseFinished(result=result))

    def write_all(self, results: Sequence[CaseResult]) -> None:
        """Spool many results of cases that were not measured; raise SpoolFull."""
        self._context.writer.write_all(self.run, results)
        self.results.extend(results)

    def defer(self, cases: Collection[Case], *, budget: TimeBudget) -> None:
        """Defer the cases beyond the time budget; raise SpoolFull."""
        self.write_all([budget.defer(case, run_id=self.run.id) for case in cases])

    def end(self, state: RunState) -> None:
        """Store the end of the run."""
        self.run = replace(self.run, state=state, finished_at=self._context.services.now())
        self._context.writer.write_state(self.run)
        self._context.notify(RunEnded(run=self.run))


class _Execution(ActiveRun):
    """A run on this machine, with its plan and its executor."""

    def __init__(
        self,
        run: Run,
        *,
        plan: tuple[PlannedCase, ...],
        settings: MeasureSettings,
        executor: Executor,
        context: RunContext,
        users: tuple[str, ...],
        results: Sequence[CaseResult],
    ) -> None:
        super().__init__(run, context=context, users=users, results=results)
        self._plan = plan
        self._settings = settings
        self._executor = executor

    def sides(self) -> list[PairSide]:
        """Return the remaining cases of the plan with executor and settings."""
        done = {result.case.key for result in self.results}
        orders = [
            case_order(planned, run_id=self.run.id, settings=self._settings, position=position)
            for position, planned in enumerate(self._plan)
            if planned.case.key not in done
        ]
        return [PairSide(executor=self._executor, order=order) for order in orders]


def _execute(
    executions: Sequence[_Execution],
    *,
    context: RunContext,
    measure: MeasureCases,
    ahead: CompileAhead | None,
    request: ResolvedRun,
    budget: TimeBudget,
    stop: Interrupts,
) -> None:
    """Execute the remaining cases; the runs are interrupted unless all were executed.

    Cases beyond the time budget are deferred, which does not interrupt a run.
    """
    state = RunState.INTERRUPTED
    started: list[_Execution] = []
    try:
        names = distinct([execution.run.toolchain for execution in executions])
        for execution, name in zip(executions, names, strict=True):
            execution.start(label=name if len(executions) > 1 else "")
            started.append(execution)
        with heartbeat(lambda: _record_heartbeats(started, context=context)):
            cases = zip(*(execution.sides() for execution in executions), strict=True)
            left = deque(budget.in_turn(list(cases), case_of=_case_of))
            if ahead is not None and not budget.is_limited:
                seconds = context.services.compile_seconds(request)
                left = deque(longest_first(left, case_of=_case_of, seconds=seconds))
            work = _open_work(request, ahead=ahead, context=context)
            coming = _started_cases(
                left, budget=budget, work=work, notify=context.notify, stop=stop
            )
            for results in measure(coming, stop.were_requested):
                for execution, result in zip(executions, results, strict=True):
                    execution.write(result)
                if work is not None:
                    work.end(results[0])
            # Without a time budget there are cases left only if `measure` takes no more.
            is_over = budget.is_limited or not left
            if (is_over and not stop.were_requested()) or _is_complete(executions[0]):
                _defer(executions, cases=left, budget=budget, context=context)
                state = RunState.FINISHED
    finally:
        for execution in started:
            execution.end(state)


def _is_complete(execution: _Execution) -> bool:
    """Return whether each case has a result, even if a stop came at the end."""
    return len(execution.results) == len(execution.run.plan)


def _case_of(sides: Sequence[PairSide]) -> Case:
    return sides[0].order.case


def _started_cases(
    left: deque[tuple[PairSide, ...]],
    *,
    budget: TimeBudget,
    work: OpenWork | None,
    notify: Notify,
    stop: Interrupts,
) -> Iterator[tuple[PairSide, ...] | None]:
    """Take the cases that may start from `left`, one after the other, and report each.

    None means that the budget has no time for one more case while those of `work` are open.
    """
    while left and not stop.were_requested():
        case = _case_of(left[0])
        if not budget.allows(case, needed_s=0.0 if work is None else work.needed_s(case)):
            yield None
            continue
        if work is not None:
            work.begin(case)
        notify(CaseStarted(case=case))
        yield left.popleft()


def _measured(
    cases: Iterable[Sequence[PairSide] | None],
    is_stopped: Callable[[], bool],
    *,
    measure_case: MeasureCase,
    ahead: CompileAhead | None,
) -> Iterator[Sequence[CaseResult]]:
    """Yield the results of each case, one a side.

    The result of a case that was killed by a stop is no result of the case.
    """
    if ahead is not None:
        orders = (None if sides is None else sides[0].order for sides in cases)
        for result in ahead.measure(orders, is_stopped=is_stopped):
            yield (result,)
        return
    for sides in cases:
        if sides is None:
            return
        results = measure_with_retries(sides, measure_case=measure_case, is_stopped=is_stopped)
        if is_stopped():
            return
        yield results


def _budget(request: ResolvedRun, *, context: RunContext) -> TimeBudget:
    if request.time_budget_s is None:
        return TimeBudget(None, now=context.services.now)
    return TimeBudget(
        request.time_budget_s, worth=context.services.worth(request), now=context.services.now
    )


def _open_work(
    request: ResolvedRun, *, ahead: CompileAhead | None, context: RunContext
) -> OpenWork | None:
    """Return the open cases of a run that compiles ahead and has a time budget, else None."""
    if ahead is None or request.time_budget_s is None:
        return None
    return OpenWork(ahead.num_processes, known=context.services.durations(request))


def _defer(
    executions: Sequence[_Execution],
    *,
    cases: Collection[Sequence[PairSide]],
    budget: TimeBudget,
    context: RunContext,
) -> None:
    if not cases:
        return
    for execution in executions:
        execution.defer([_case_of(sides) for sides in cases], budget=budget)
    context.notify(deferred_message(len(cases), budget=budget))


def deferred_message(num_cases: int, *, budget: TimeBudget) -> LogMessage:
    """Return the message about cases beyond the time budget."""
    deferred = counted(num_cases, "case")
    return LogMessage(text=f"{budget.text}; deferred to the next run: {deferred}")


def _record_heartbeats(executions: Sequence[_Execution], *, context: RunContext) -> None:
    for execution in executions:
        run_id = execution.run.id
        context.writer.record_heartbeat(run_id, log=context.services.live_log(run_id))


def _cancel(executors: Sequence[Executor]) -> None:
    for executor in executors:
        executor.cancel()


def _open_ahead(requests: Sequence[ResolvedRun], *, context: RunContext) -> CompileAhead | None:
    """Return the phases of a run alone; launches of several runs take turns instead."""
    if len(requests) > 1:
        return None
    ahead = open_compile_ahead(
        context.executors[0],
        num_processes=requests[0].compile_ahead,
        notify=context.notify,
        sleep=context.services.sleep,
    )
    if ahead is not None:
        cores = counted(ahead.cores_each, "core")
        text = f"compiling {counted(ahead.num_processes, 'case')} at a time on {cores} each"
        context.notify(LogMessage(text=f"{text}; they sample one by one"))
    return ahead


def _prepare(
    request: ResolvedRun,
    *,
    executor: Executor,
    context: RunContext,
    users: tuple[str, ...],
    ahead: CompileAhead | None,
) -> _Execution:
    # This reads under the lock: the process before us may have continued this run.
    resumed = (
        None if request.resume_id is None else context.services.load_document(request.resume_id)
    )
    settings = request.settings
    if resumed is not None:
        settings = recorded_settings(resumed.run, default=settings)
    context.notify(LogMessage(text=f"starting toolchain {request.toolchain} on {request.device}"))
    facts = {
        **_open_executor(executor),
        "num_threads": settings.num_threads,
        **(ahead.facts() if ahead is not None else {}),
    }
    if resumed is None:
        plan = _plan(request, context=context)
        cases = tuple(planned.case for planned in plan)
        at = context.services.now()
        run = new_run(request, cases=cases, facts=facts, context=context, at=at)
    else:
        _check_can_resume(resumed.run, facts=facts, machine=request.machine)
        plan = tuple(
            plan_case(case, catalog=context.catalog, variants=context.variants)
            for case in resumed.run.plan
        )
        run = replace(resumed.run, state=RunState.RUNNING, finished_at=None)
    return _Execution(
        run,
        plan=plan,
        settings=settings,
        executor=executor,
        context=context,
        users=users,
        results=() if resumed is None else resumed.results,
    )


def _plan(request: ResolvedRun, *, context: RunContext) -> tuple[PlannedCase, ...]:
    return make_plan(
        request.selection,
        catalog=context.catalog,
        variants=context.variants,
        device=request.device,
        has_references=request.has_references,
    )


def _specs(cases: Iterable[Case], *, context: RunContext) -> list[ModelSpec]:
    names = dict.fromkeys(case.model for case in cases)
    return [context.catalog[name] for name in names if name in context.catalog]


def case_order(
    planned: PlannedCase, *, run_id: str, settings: MeasureSettings, position: int = 0
) -> CaseOrder:
    """Return the order of a case for the executor of its run, at `position` of the plan."""
    return CaseOrder(
        run_id=run_id,
        case=planned.case,
        workload=planned.workload,
        settings=settings_for(planned.case, settings),
        skips_same_code=True,
        position=position,
    )


def settings_for(case: Case, settings: MeasureSettings) -> MeasureSettings:
    """Return the settings of `case`; a reference case gets a small budget."""
    if not case.is_reference:
        return settings
    # A reference case gets no further launches: disagreement is the machine's, and should show.
    return replace(
        settings,
        budget_s=min(settings.budget_s, REFERENCE_BUDGET_S),
        max_launches=settings.num_launches,
    )


def _start_executor(executor: Executor) -> None:
    try:
        executor.start()
    except ExecutorError as error:
        raise ToolchainUnusable(str(error)) from error


def _open_executor(executor: Executor) -> Mapping[str, Any]:
    try:
        return executor.open()
    except ExecutorError as error:
        raise ToolchainUnusable(str(error)) from error


def new_run(
    request: ResolvedRun,
    *,
    cases: tuple[Case, ...],
    facts: Mapping[str, Any],
    context: RunContext,
    at: datetime,
) -> Run:
    """Return a run of `cases` that starts at `at`; `facts` are those of its executor."""
    specs = _specs(cases, context=context)
    facts = {
        **facts,
        "num_threads": request.settings.num_threads,
        "measure_settings": dataclasses.asdict(request.settings),
        "model_commits": model_commits(specs),
    }
    if sources := kept_sources(specs):
        facts[MODEL_SOURCES] = hashes_of(sources)
    return Run(
        id=uuid.uuid4().hex[:12],
        started_at=at,
        suite=request.suite,
        toolchain=request.toolchain,
        revision=revision(facts),
        machine=request.machine,
        environment=facts,
        fingerprint=fingerprint(facts),
        plan=cases,
        trigger=request.trigger,
    )


def recorded_settings(run: Run, *, default: MeasureSettings) -> MeasureSettings:
    """Return the settings that `run` was measured with."""
    recorded = run.environment.get("measure_settings")
    return MeasureSettings(**recorded) if isinstance(recorded, Mapping) else default


def _check_can_resume(run: Run, *, facts: Mapping[str, Any], machine: str) -> None:
    if run.state is RunState.FINISHED:
        raise ResumeError(f"run {run.id} is finished; there is nothing to resume", run=run.id)
    if run.machine != machine:
        raise ResumeError(
            f"run {run.id} is of machine {run.machine}, this is {machine}: resume it there, or with"
            " `--executor ray` when it is of a cluster",
            run=run.id,
            machine=run.machine,
        )
    if run.revision != revision(facts):
        raise ResumeError(
            f"run {run.id} was started at revision {run.revision}, this is {revision(facts)}:"
            " their numbers do not belong into one run. Start a new one with `hud run`",
            run=run.id,
            revision=run.revision,
        )
    if run.fingerprint != fingerprint(facts):
        keys = ", ".join(differing_keys(run.environment, candidate=facts))
        raise ResumeError(
            f"run {run.id} was started in another environment ({keys} differ):"
            " their numbers do not belong into one run. Start a new one with `hud run`",
            run=run.id,
            keys=keys,
        )

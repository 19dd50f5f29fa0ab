"""Execute the plan of one run, case by case, and keep what comes of it.

A result is in the spool before the next case starts. The run survives a store that is locked, full
or missing; Ctrl-C and SIGTERM end it in good order, and `resume` continues it later.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from db.records import CaseResult, Run, RunDocument, RunState
from models_zoo.spec import ModelSpec
from runner.environment import differing_keys, fingerprint, revision
from runner.errors import ExecutorError, ResumeError, ToolchainUnusable
from runner.events import CaseFinished, CaseStarted, Notify, RunEnded, RunStarted, Said
from runner.executor_api import CaseOrder, Executor
from runner.heartbeat import heartbeat
from runner.interrupts import Interrupts
from runner.keeper import Keeper
from runner.locks import waiting_lock
from runner.plan import PlannedCase, make_plan, plan_case
from runner.protocol import MeasureSettings
from runner.suites import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What to measure; `resume_id` is an interrupted run whose remaining cases are wanted."""

    suite: str
    selection: Selection
    toolchain: str
    device: str
    settings: MeasureSettings
    machine: str
    trigger: str = "manual"
    resume_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a run works with; the seams that tests replace."""

    executor: Executor
    keeper: Keeper
    catalog: Mapping[str, ModelSpec]
    lock_dir: Path
    load_document: Callable[[str], RunDocument]
    notify: Notify
    now: Callable[[], datetime]


def run_plan(request: RunRequest, *, around: Surroundings) -> RunDocument:
    """Execute `request` and return the run with all its results, those before a resume included.

    Waits while another run has the device. The run's state is `interrupted` when it was stopped
    from outside. Raises UnknownNameError, ExecutorError, SpoolFull and ResumeError, and
    RunInterrupted when it was stopped before there was a run.
    """
    # Wrong names are said before a worker host is started and before anybody waits.
    if request.resume_id is None:
        make_plan(request.selection, catalog=around.catalog, device=request.device)
    lock = around.lock_dir / f"device-{request.device}.lock"
    with (
        Interrupts() as interrupts,
        waiting_lock(lock, on_wait=lambda pid: _say_waiting(request.device, pid, around)),
    ):
        around.keeper.drain()
        around.keeper.interrupt_dead_runs(machine=request.machine, device=request.device)
        try:
            execution = _prepare(request, around=around, interrupts=interrupts)
            with interrupts.deferred(around.executor.cancel):
                execution.execute()
        finally:
            around.executor.close()
    return RunDocument(run=execution.run, results=tuple(execution.results))


class _Execution:
    """One run while it is executed."""

    def __init__(
        self,
        run: Run,
        *,
        plan: tuple[PlannedCase, ...],
        settings: MeasureSettings,
        around: Surroundings,
        interrupts: Interrupts,
    ) -> None:
        self.run = run
        self.results: list[CaseResult] = []
        self._plan = plan
        self._settings = settings
        self._around = around
        self._interrupts = interrupts

    def execute(self) -> None:
        """Execute what is left of the plan; the run is interrupted unless all of it was."""
        around = self._around
        state = RunState.INTERRUPTED
        done = {result.case.key for result in self.results}
        remaining = [planned for planned in self._plan if planned.case.key not in done]
        around.keeper.keep(self.run)
        around.notify(RunStarted(run=self.run, num_done=len(self.results)))
        try:
            with heartbeat(lambda: around.keeper.beat(self.run.id)):
                if all(self._execute_case(planned) for planned in remaining):
                    state = RunState.FINISHED
        finally:
            self.run = replace(self.run, state=state, finished_at=around.now())
            around.keeper.keep_state(self.run)
            around.notify(RunEnded(run=self.run))

    def _execute_case(self, planned: PlannedCase) -> bool:
        around = self._around
        if self._interrupts.were_requested():
            return False
        around.notify(CaseStarted(case=planned.case))
        result = around.executor.execute(
            CaseOrder(
                run_id=self.run.id,
                case=planned.case,
                workload=planned.workload,
                settings=self._settings,
            )
        )
        # What a killed case left behind says nothing about the case.
        if self._interrupts.were_requested():
            return False
        around.keeper.keep(self.run, result=result)
        self.results.append(result)
        around.notify(CaseFinished(result=result))
        return True


def _prepare(request: RunRequest, *, around: Surroundings, interrupts: Interrupts) -> _Execution:
    # Read only now: whoever had the device until a moment ago may have continued the very run.
    resumed = None if request.resume_id is None else around.load_document(request.resume_id)
    settings = request.settings if resumed is None else _recorded_settings(resumed.run, request)
    around.notify(Said(text=f"starting toolchain {request.toolchain} on {request.device}"))
    facts = {
        **_open_executor(around.executor),
        "num_threads": settings.num_threads,
        "measure_settings": dataclasses.asdict(settings),
    }
    if resumed is None:
        plan = make_plan(request.selection, catalog=around.catalog, device=request.device)
        run = _new_run(request, plan=plan, facts=facts, at=around.now())
    else:
        _check_can_resume(resumed.run, facts=facts)
        plan = tuple(plan_case(case, catalog=around.catalog) for case in resumed.run.plan)
        run = replace(resumed.run, state=RunState.RUNNING, finished_at=None)
    execution = _Execution(run, plan=plan, settings=settings, around=around, interrupts=interrupts)
    execution.results.extend(() if resumed is None else resumed.results)
    return execution


def _open_executor(executor: Executor) -> Mapping[str, Any]:
    try:
        return executor.open()
    except ExecutorError as error:
        raise ToolchainUnusable(str(error)) from error


def _new_run(
    request: RunRequest,
    *,
    plan: tuple[PlannedCase, ...],
    facts: Mapping[str, Any],
    at: datetime,
) -> Run:
    return Run(
        id=uuid.uuid4().hex[:12],
        started_at=at,
        suite=request.suite,
        toolchain=request.toolchain,
        revision=revision(facts),
        machine=request.machine,
        environment=facts,
        fingerprint=fingerprint(facts),
        plan=tuple(planned.case for planned in plan),
        trigger=request.trigger,
    )


def _recorded_settings(run: Run, request: RunRequest) -> MeasureSettings:
    # The rest of a run is measured as its beginning was, whatever hud.toml says by now.
    recorded = run.environment.get("measure_settings")
    return MeasureSettings(**recorded) if isinstance(recorded, Mapping) else request.settings


def _check_can_resume(run: Run, *, facts: Mapping[str, Any]) -> None:
    if run.state is RunState.FINISHED:
        raise ResumeError(f"run {run.id} is finished; there is nothing to resume")
    if run.revision != revision(facts):
        raise ResumeError(
            f"run {run.id} was started at revision {run.revision}, this is {revision(facts)}:"
            " their numbers do not belong into one run. Start a new one with `hud run`"
        )
    if run.fingerprint != fingerprint(facts):
        keys = ", ".join(differing_keys(run.environment, candidate=facts))
        raise ResumeError(
            f"run {run.id} was started in another environment ({keys} differ):"
            " their numbers do not belong into one run. Start a new one with `hud run`"
        )


def _say_waiting(device: str, pid: int | None, around: Surroundings) -> None:
    holder = f"PID {pid}" if pid is not None else "another process"
    around.notify(Said(text=f"waiting for device {device}, held by {holder}"))

"""The run of one machine of a cluster.

Its plan lists every case while it lasts and only the assigned cases once it is finished. The plan
of an interrupted run keeps every case, so that it can be resumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from compile_hud.db.records.results import Case, CaseResult, Run, RunDocument, RunState
from compile_hud.runner.events import CaseFinished, RunEnded, RunStarted
from compile_hud.runner.execution.device_idle import with_users
from compile_hud.runner.execution.run_plan import RunContext
from compile_hud.runner.files.model_sources import SourceAttacher
from compile_hud.runner.planning.plan import PlannedCase


class MachineRun:
    """One run in progress; `references` are the reference cases that it begins with.

    `results` are those from before an interruption.
    """

    def __init__(
        self,
        run: Run,
        *,
        references: Sequence[PlannedCase],
        context: RunContext,
        sources: SourceAttacher,
        results: Sequence[CaseResult] = (),
    ) -> None:
        self.run = run
        self.references = deque(references)
        self._results = list(results)
        self._assigned = {planned.case for planned in references}
        self._assigned.update(result.case for result in results)
        self._users: tuple[str, ...] = ()
        self.has_machine = False
        self._context = context
        self._sources = sources

    @property
    def document(self) -> RunDocument:
        """Return the run with its results so far."""
        return RunDocument(run=self.run, results=tuple(self._results))

    def start(self, *, users: tuple[str, ...]) -> None:
        """Store the run and announce its first start; raise SpoolFull.

        `users` are the other processes on the device.
        """
        if self.has_machine:
            return
        self.has_machine = True
        self._users = users
        self.run = replace(self.run, state=RunState.RUNNING, finished_at=None)
        self._context.writer.write(self.run)
        self._context.notify(
            RunStarted(run=self.run, num_done=len(self._results), label=self.run.machine)
        )

    def assign(self, case: Case) -> None:
        """Expect a result of `case`."""
        self._assigned.add(case)

    def withdraw(self, case: Case) -> None:
        """Expect no result of `case`, which another machine may get."""
        self._assigned.discard(case)

    def write(self, result: CaseResult) -> None:
        """Write `result` to the spool; raise SpoolFull."""
        result = with_users(result, users=self._users)
        result = self._sources.attach(result, run=self.run)
        self._context.writer.write(self.run, result=result)
        self._results.append(result)
        self._context.notify(CaseFinished(result=result))

    def write_all(self, results: Sequence[CaseResult]) -> None:
        """Spool many results of cases that were not measured; raise SpoolFull."""
        for result in results:
            self.assign(result.case)
        self._context.writer.write_all(self.run, results)
        self._results.extend(results)

    def end(self, *, is_complete: bool) -> None:
        """Store the end of the run; a complete one keeps only its assigned cases."""
        state, plan = RunState.INTERRUPTED, self.run.plan
        if is_complete:
            state, plan = RunState.FINISHED, tuple(case for case in plan if case in self._assigned)
        self.run = replace(
            self.run, plan=plan, state=state, finished_at=self._context.services.now()
        )
        self._context.writer.write_state(self.run)
        self._context.notify(RunEnded(run=self.run))

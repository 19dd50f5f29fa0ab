"""The run of one machine of a cluster.

Its plan lists every case while it lasts and only the measured cases once it is finished. The plan
of an interrupted run keeps every case, so that it can be resumed.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from compile_hud.db.jobs.live_log import LiveLog
from compile_hud.db.records.results import Case, CaseResult, Outcome, Run, RunState
from compile_hud.runner.execution.run_plan import ActiveRun, RunContext
from compile_hud.runner.planning.plan import PlannedCase


class MachineRun(ActiveRun):
    """One run in progress; `references` are the reference cases that it begins with.

    `results` are those from before an interruption. `log` is the newest of the case at work.
    """

    def __init__(
        self,
        run: Run,
        *,
        references: Sequence[PlannedCase],
        context: RunContext,
        results: Sequence[CaseResult] = (),
    ) -> None:
        super().__init__(run, context=context, results=results)
        self.references = deque(references)
        self.has_machine = False
        self.log: LiveLog | None = None

    def join(self, *, users: tuple[str, ...], label: str) -> None:
        """Start or continue the run with the first node of its machine; raise SpoolFull.

        `users` are the other processes on the device; the progress names the run by `label`.
        """
        if self.has_machine:
            return
        self.has_machine = True
        self.users = users
        self.run = replace(self.run, state=RunState.RUNNING, finished_at=None)
        self.start(label=label)

    def node_lost_result(self, case: Case, *, reason: str) -> CaseResult:
        """Return the result of a case that no machine finished."""
        at = self._context.services.now()
        return CaseResult(
            id=uuid.uuid4().hex,
            run_id=self.run.id,
            case=case,
            outcome=Outcome.NODE_LOST,
            reason=reason,
            started_at=at,
            finished_at=at,
        )

    def end_plan(self, *, is_complete: bool) -> None:
        """Store the end of the run; the plan of a complete one is the cases with a result."""
        if is_complete:
            done = {result.case for result in self.results}
            plan = tuple(case for case in self.run.plan if case in done)
            self.run = replace(self.run, plan=plan)
        self.end(RunState.FINISHED if is_complete else RunState.INTERRUPTED)

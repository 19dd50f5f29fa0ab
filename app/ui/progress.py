"""The progress of a run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.results import Case, RunState
from compile_hud.db.records.summaries import HEARTBEAT_TIMEOUT_S, RunSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a run; `current` is None when all cases are done.

    `left_s` is None before the first result, and while only eager results of compiled cases exist.
    `elapsed_s` sums the time of its results, without the pauses of a resumed run. `since_start_s`
    continues with the clock.
    """

    num_done: int
    num_planned: int
    current: Case | None
    elapsed_s: float
    since_start_s: float
    left_s: float | None
    silent_s: float

    @property
    def is_silent(self) -> bool:
        """Return whether the last heartbeat is so old that the run has probably died."""
        return self.silent_s > HEARTBEAT_TIMEOUT_S


def progress_of(summary: RunSummary, *, now: datetime) -> Progress:
    """Return the progress of the run; cases execute in the order of the plan."""
    run = summary.run
    num_done = sum(summary.num_by_outcome.values())
    num_planned = len(run.plan)
    elapsed_s = summary.worked_s
    # An eager case takes a fraction of a compiled one, so only compiled cases estimate the rest.
    counted = [not case.is_eager for case in run.plan]
    if not any(counted):
        counted = [True] * num_planned
    num_counted = sum(counted[:num_done])
    left_s = elapsed_s / num_counted * sum(counted[num_done:]) if num_counted else None
    return Progress(
        num_done=num_done,
        num_planned=num_planned,
        current=run.plan[num_done] if num_done < num_planned else None,
        elapsed_s=elapsed_s,
        since_start_s=(now - run.started_at).total_seconds(),
        left_s=left_s,
        silent_s=(now - (summary.heartbeat_at or run.started_at)).total_seconds(),
    )


def running(summaries: tuple[RunSummary, ...]) -> list[RunSummary]:
    """Return the runs in progress, newest first."""
    return [summary for summary in summaries if summary.run.state is RunState.RUNNING]

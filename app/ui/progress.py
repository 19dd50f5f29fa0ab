"""How far a run is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.results import Case, RunState
from compile_hud.db.records.summaries import HEARTBEAT_TIMEOUT_S, RunSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run stands; `current` is None when all are done.

    `left_s` is None before the first result, and while only eager ones of compiled cases are there.
    `elapsed_s` is what its results took, without the pauses of a run that was resumed;
    `since_start_s` goes on with the clock.
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
        """Return whether the run gave no sign of life for so long that it has likely died."""
        return self.silent_s > HEARTBEAT_TIMEOUT_S


def progress_of(summary: RunSummary, *, now: datetime) -> Progress:
    """Return how far the run is; cases execute in the order of the plan."""
    run = summary.run
    num_done = sum(summary.num_by_outcome.values())
    num_planned = len(run.plan)
    elapsed_s = summary.worked_s
    # An eager case takes a fraction of a compiled one, so those that count are the compiled ones.
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
    """Return the runs that are going, newest first."""
    return [summary for summary in summaries if summary.run.state is RunState.RUNNING]

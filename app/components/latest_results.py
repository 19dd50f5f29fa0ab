"""Facts about the runs behind the latest results, and silent schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from compile_hud.app.components.matrix.result_matrix import common_dimensions
from compile_hud.app.data.latest_results import has_previous_run
from compile_hud.app.ui.format import age, local_moment, moment
from compile_hud.app.ui.html import Cell, key_values
from compile_hud.app.ui.urls import CompareState, compare_url, run_url
from compile_hud.db.jobs.health import SchedulerState
from compile_hud.db.records.summaries import LatestCell, RunSummary
from compile_hud.db.shared.text import short_revision

# A banner has room for so many.
_SHOWN_SCHEDULES = 3


def latest_facts(
    cells: Sequence[LatestCell],
    *,
    now: datetime,
    names_toolchain: bool = True,
    runs: Sequence[RunSummary],
) -> str:
    """Return the facts that all cells share, and the newest run among them.

    `runs` are the newest of the store; one before the newest run gives a comparison to link to.
    """
    newest = max(cells, key=lambda cell: cell.run_started_at)
    run = Cell(
        text=age(newest.run_started_at, now=now),
        href=run_url(newest.run_id),
        title=moment(newest.run_started_at),
    )
    shared = common_dimensions(cell.summary.case for cell in cells)
    common = [(name, Cell(text=value)) for name, value in shared.items()]
    compared = Cell(
        text="with the previous run", href=compare_url(CompareState(candidate=newest.run_id))
    )
    places = [("revision", short_revision(newest.revision))]
    places += [("toolchain", newest.toolchain)] if names_toolchain else []
    labelled = [(name, Cell(text=text)) for name, text in places]
    has_before = has_previous_run(newest.run_id, [summary.run for summary in runs])
    links = [("newest run", run), *([("compare", compared)] if has_before else [])]
    return key_values([*links, *labelled, *common])


def silence_notice(late: SchedulerState, *, now: datetime) -> tuple[str, ...]:
    """Return since when a scheduler is silent, which runs it has missed, and a remedy."""
    due = [
        schedule
        for schedule in late.schedules
        if schedule.next_at is not None and schedule.next_at < now
    ]
    missed = "".join(
        f" Schedule {schedule.name} was due {local_moment(schedule.next_at)}."
        for schedule in due[:_SHOWN_SCHEDULES]
        if schedule.next_at is not None
    )
    return (
        f"The scheduler of {late.machine} has been silent since {local_moment(late.heartbeat_at)}"
        f" ({age(late.heartbeat_at, now=now)}).{missed}",
        "Start `hud up` or `hud schedule` there; `hud doctor` names the cause.",
    )

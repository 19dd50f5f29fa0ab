"""The table of all runs, and its filters. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from compile_hud.app.components.machine_status import moved_cell
from compile_hud.app.components.shared_filters import first_moment
from compile_hud.app.components.table.columns import (
    DataTable,
    DurationColumn,
    Link,
    LinkColumn,
    NumberColumn,
    ShareColumn,
    TextColumn,
    TimeColumn,
    data_table,
)
from compile_hud.app.components.table.filters import is_within
from compile_hud.app.data.page_records import MachineMove
from compile_hud.app.ui.format import outcome_label
from compile_hud.app.ui.progress import progress_of
from compile_hud.app.ui.urls import RunsState, run_url
from compile_hud.app.views.runs.tables import CASES_TOOK
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.results import Outcome, RunState
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.shared.model_code import revisions_text
from compile_hud.db.shared.text import has_words, short_revision

# The state of a run in progress without a heartbeat.
SILENT = "silent"
_COLUMNS = (
    LinkColumn(label="run", help="opens the run", is_pinned=True),
    TimeColumn(label="started"),
    TextColumn(label="state"),
    ShareColumn(label="passed", help="cases that passed, of all that were attempted", width=120),
    NumberColumn(label="ok"),
    NumberColumn(label="not ok"),
    LinkColumn(label="other outcomes", help="opens the run, with these cases first"),
    NumberColumn(label="planned", is_hidden=True),
    DurationColumn(label="cases took", help=CASES_TOOK),
    TextColumn(label="suite"),
    TextColumn(label="trigger"),
    TextColumn(label="machine"),
    TextColumn(label="machine drift", help="by the reference cases, against the runs before"),
    TextColumn(label="toolchain"),
    TextColumn(label="revision"),
    TextColumn(label="model code", help="revision of own models", is_hidden=True),
)


def state_of(summary: RunSummary, *, now: datetime) -> str:
    """Return the state of a run, `silent` for one in progress without a heartbeat."""
    is_running = summary.run.state is RunState.RUNNING
    is_silent = is_running and progress_of(summary, now=now).is_silent
    return SILENT if is_silent else str(summary.run.state)


def runs_in_range(
    summaries: Sequence[RunSummary], state: RunsState, *, now: datetime
) -> Sequence[RunSummary]:
    """Return the runs of the range of `state`, all of them if it has bounds of its own.

    A range without a run leaves out none: an empty list would hide that there are older ones.
    """
    first = first_moment(state.range, now=now)
    if first is None or state.since or state.until:
        return summaries
    return [item for item in summaries if item.run.started_at >= first] or summaries


def is_cut(state: RunsState, *, now: datetime) -> bool:
    """Return whether the range of `state` leaves out older runs."""
    return first_moment(state.range, now=now) is not None and not (state.since or state.until)


def matching_runs(
    summaries: Sequence[RunSummary], state: RunsState, *, now: datetime
) -> list[RunSummary]:
    """Return the runs that pass the filters of `state`."""
    return [
        summary
        for summary in summaries
        if state.machine in ("", summary.run.machine)
        and state.suite in ("", summary.run.suite)
        and state.toolchain in ("", summary.run.toolchain)
        and state.state in ("", state_of(summary, now=now))
        and (not state.outcome or summary.num_by_outcome.get(Outcome(state.outcome), 0))
        and is_within(summary.run.started_at, since=state.since, until=state.until)
        and has_words(state.text, _searched(summary))
    ]


def runs_table(
    summaries: Sequence[RunSummary],
    *,
    moves: Mapping[str, Sequence[MachineMove]],
    now: datetime,
) -> DataTable:
    """Return a row for each run, in the order of `summaries`."""
    rows = (_row(item, moves.get(item.run.id, ()), now=now) for item in summaries)
    return data_table(_COLUMNS, rows, label="runs")


def _row(summary: RunSummary, moves: Sequence[MachineMove], *, now: datetime) -> tuple[object, ...]:
    run = summary.run
    numbers = summary.num_by_outcome
    num_bad = sum(number for outcome, number in numbers.items() if not outcome.is_expected)
    num_ended = sum(numbers.values())
    # The overview has the same rule: a skipped or unavailable case was not attempted.
    num_attempted = sum(number for item, number in numbers.items() if item.is_attempted)
    num_passed = sum(number for item, number in numbers.items() if item.is_success)
    others = [
        f"{number} {outcome_label(outcome)}"
        for outcome, number in numbers.items()
        if outcome is not Outcome.OK
    ]
    is_timed = bool(num_ended) and not is_imported(run.toolchain)
    return (
        Link(run.id, run_url(run.id)),
        run.started_at,
        state_of(summary, now=now),
        num_passed / num_attempted if num_attempted else None,
        numbers.get(Outcome.OK, 0),
        num_bad,
        Link(", ".join(others), run_url(run.id)) if others else None,
        len(run.plan),
        summary.worked_s if is_timed else None,
        run.suite,
        run.trigger,
        run.machine,
        moved_cell(moves).text,
        run.toolchain,
        short_revision(run.revision),
        revisions_text(run) or None,
    )


def _searched(summary: RunSummary) -> tuple[str, ...]:
    run = summary.run
    places = (run.suite, run.trigger, run.machine, run.toolchain)
    return (run.id, *places, run.revision, revisions_text(run))

"""The parts of the overview, as cells and HTML. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

from compile_hud.app.components.alert_rows import (
    ALERT_COLUMNS,
    IMPROVEMENT_COLUMNS,
    alert_row,
    is_by_machine,
    lets_through,
    open_alerts,
)
from compile_hud.app.components.result_matrix import DIMENSIONS, common_dimensions
from compile_hud.app.data.page_records import ModeSummary
from compile_hud.app.ui.format import age, moment, outcome_label
from compile_hud.app.ui.html import Cell, Note, facts, folded, table
from compile_hud.app.ui.urls import CompareState, OverviewState, compare_url, run_url
from compile_hud.app.views.overview._merge_needs import needs_of, needs_table, needs_title
from compile_hud.db.jobs.health import SchedulerState
from compile_hud.db.records.results import Alert, Outcome, Run, Verdict
from compile_hud.db.records.summaries import LatestCell, RunSummary
from compile_hud.db.shared.text import counted, short_revision
from compile_hud.runner.analysis.comparison.run_selection import run_before

# A notice has room for so many.
_SHOWN_SCHEDULES = 3
# Half a screen; the others are behind a fold.
_SHOWN_NEEDS = 12


def alert_sections(
    state: OverviewState,
    alerts: Sequence[Alert],
    *,
    now: datetime,
    newest_runs: Collection[str] = (),
    common: Collection[str] = (),
    names_toolchain: bool = False,
) -> tuple[str, list[str]]:
    """Return the title and the tables of what is open: regressions, then folded the others.

    The others are what the machine did, and improvements. `newest_runs` are the ids of the newest
    run of each toolchain, which make an alert a new one. What the dimensions `common` say of the
    cases is told elsewhere; `names_toolchain` puts the toolchain of an alert into its row.
    """
    found = open_alerts(alerts, verdict=Verdict.REGRESSION)
    by_machine = [alert for alert in found if is_by_machine(alert)]
    regressions = [alert for alert in found if not is_by_machine(alert)]
    shown = [alert for alert in regressions if lets_through(state, alert.case)]
    needs = needs_of(shown, newest_runs=newest_runs)
    num_hidden = len(needs_of(regressions, newest_runs=())) - len(needs)
    varied = [
        name
        for name in DIMENSIONS
        if name not in common or len({getattr(alert.case, name) for alert in shown}) > 1
    ]
    draw = partial(needs_table, now=now, varied=varied, names_toolchain=names_toolchain)
    sections = []
    if needs:
        sections.append(draw(needs[:_SHOWN_NEEDS], label="open regressions"))
    if rest := needs[_SHOWN_NEEDS:]:
        more = draw(rest, label="more open regressions")
        sections.append(folded(f"{len(rest)} more, less severe", more))
    others = partial(_alert_table, now=now, names_toolchain=names_toolchain)
    if its := [alert for alert in by_machine if _concerns(state, alert)]:
        content = others(its, label="machine side")
        sections.append(folded(f"The machine, not the code: {len(its)}", content))
    improvements = open_alerts(alerts, verdict=Verdict.IMPROVEMENT)
    if better := [alert for alert in improvements if _concerns(state, alert)]:
        content = others(better, label="improvements")
        sections.append(folded(f"Improvements: {len(better)}", content))
    hidden = f" ({num_hidden} more hidden by the filters)" if num_hidden else ""
    return f"{needs_title(needs)}{hidden}", sections


def unwatched_text(cells: Sequence[LatestCell], *, alerts: Sequence[Alert]) -> str:
    """Return how many results are not ok without an open alert of theirs, empty for none."""
    found = open_alerts(alerts, verdict=Verdict.REGRESSION)
    watched = {(alert.case.key, alert.machine, alert.toolchain) for alert in found}
    num = sum(
        cell.summary.outcome is not Outcome.OK
        and (cell.summary.case.key, cell.machine, cell.toolchain) not in watched
        for cell in cells
    )
    if not num:
        return ""
    verb = "is" if num == 1 else "are"
    return (
        f"{counted(num, 'case')} below {verb} not ok and {'has' if num == 1 else 'have'} no open"
        " alert: not ok from the first night on, decided about, or not judged yet."
    )


def _concerns(state: OverviewState, alert: Alert) -> bool:
    # What a reference case says holds for whatever the filters show.
    return alert.case.is_reference or lets_through(state, alert.case)


def mode_tile(summary: ModeSummary) -> tuple[str, Cell]:
    """Return a mode's name and its headline number, in brackets when the mode never really ran."""
    bad = [*_counts(summary.failures), *_counts(summary.missing)]
    text, why = _mean_words(summary)
    notes = [
        Note(text=why),
        Note(text=", ".join([f"{summary.num_ok} of {summary.num_tried} ok", *bad])),
    ]
    if summary.untried:
        notes.append(Note(text=f"not counted: {', '.join(_counts(summary.untried))}"))
    num_others = 0
    for mode, number in summary.effective_modes:
        num_others += number
        notes.append(Note(text=f"{number} ran as {mode}: not {summary.variant}"))
    has_real = summary.num_ok > num_others
    return summary.variant, Cell(
        text=text if has_real else f"({text})",
        style="" if has_real and summary.mean is not None else "quiet",
        title="speedup over eager, same process, over the models that are ok in every mode",
        notes=tuple(notes),
    )


def _counts(numbers: Sequence[tuple[str, int]]) -> list[str]:
    return [f"{number} {outcome_label(name)}" for name, number in numbers]


def _mean_words(summary: ModeSummary) -> tuple[str, str]:
    """Return the mean of a mode with what it is over, or why there is none."""
    if summary.mean is not None:
        over = f"geometric mean over {summary.num_common} of {summary.num_subjects}"
        return f"{summary.mean:.2f}x", over
    if summary.num_speedups:
        return "no common model", f"none of {summary.num_subjects} has a speedup in every mode"
    if not summary.num_ok:
        return "no speedup", "no case of this mode is ok"
    return "no speedup", "none was measured against eager"


def latest_facts(
    cells: Sequence[LatestCell],
    *,
    now: datetime,
    names_toolchain: bool = True,
    runs: Sequence[RunSummary],
) -> str:
    """Return what all cells have in common, and the newest run among them.

    Of `runs`, the newest of the store, there may be one before it that it can be compared with.
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
        text="with the run before", href=compare_url(CompareState(candidate=newest.run_id))
    )
    places = [("revision", short_revision(newest.revision))]
    places += [("toolchain", newest.toolchain)] if names_toolchain else []
    told = [(name, Cell(text=text)) for name, text in places]
    has_before = _has_before(newest.run_id, [summary.run for summary in runs])
    links = [("newest run", run), *([("compare it", compared)] if has_before else [])]
    return facts([*links, *told, *common])


def _has_before(run_id: str, runs: Sequence[Run]) -> bool:
    run = next((run for run in runs if run.id == run_id), None)
    return run is not None and run_before(run, runs) is not None


def _alert_table(
    alerts: Sequence[Alert], *, now: datetime, names_toolchain: bool, label: str
) -> str:
    is_better = all(alert.verdict is Verdict.IMPROVEMENT for alert in alerts)
    columns = IMPROVEMENT_COLUMNS if is_better else ALERT_COLUMNS
    rows = [alert_row(alert, now=now, names_toolchain=names_toolchain) for alert in alerts]
    return table(columns, rows, label=label)


def silence_text(late: SchedulerState, *, now: datetime) -> str:
    """Return since when a scheduler is silent, what it should have done, and what to do now."""
    due = [
        schedule
        for schedule in late.schedules
        if schedule.next_at is not None and schedule.next_at < now
    ]
    missed = "".join(
        f" Schedule {schedule.name} was due {moment(schedule.next_at)}."
        for schedule in due[:_SHOWN_SCHEDULES]
        if schedule.next_at is not None
    )
    return (
        f"The scheduler of {late.machine} has been silent since {moment(late.heartbeat_at)}"
        f" ({age(late.heartbeat_at, now=now)}): what is shown gets older.{missed} Start `hud up` or"
        f" `hud schedule` there again; `hud doctor` says what is wrong."
    )


def dead_letter_notice(counts: Mapping[str, int]) -> str:
    """Return the banner of notifications that were given up, by receiver; "" without any."""
    if not counts:
        return ""
    told = ", ".join(f"{number} to {name}" for name, number in sorted(counts.items()))
    return (
        f"Notifications that were given up: {told}. `hud alerts outbox` says why, `hud alerts"
        " resend` sends them again."
    )

"""The tables of the overview: open regressions, machine drift, improvements. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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
from compile_hud.app.components.result_matrix import DIMENSIONS
from compile_hud.app.data.latest_results import NUM_BASELINE_RUNS
from compile_hud.app.data.page_records import ModeSummary
from compile_hud.app.data.runs import MAX_RUNS
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.format import age, moment, outcome_label
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, collapsible, table
from compile_hud.app.ui.urls import OverviewState, decide_url, run_url
from compile_hud.db.records.alerts import Alert, began
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.db.records.summaries import LatestCell, RunSummary
from compile_hud.db.records.triage import MISSING_KINDS, is_muted
from compile_hud.db.shared.text import counted, short_revision, shortened

# Half a screen; the others are behind a fold.
_SHOWN_ITEMS = 12
FAILING, WORSE = "failing", "worse"
_COLUMNS = (
    HtmlColumn(label="change", title="change of the metric with its 95 % interval", is_number=True),
    HtmlColumn(label="model and variant"),
    HtmlColumn(label="what", title="the metric, and its level before and after"),
    HtmlColumn(label="since", title="opens the first bad run"),
    HtmlColumn(label="cause", title="as far as the measurements tell", is_spare=True),
    HtmlColumn(label="", title="opens the page of the alert"),
)
_REVISION_LENGTH = 28
# One line of a window; the tooltip has it whole.
_CAUSE_LENGTH = 64


def alert_sections(
    state: OverviewState,
    alerts: Sequence[Alert],
    *,
    now: datetime,
    newest_runs: Collection[str] = (),
    common: Collection[str] = (),
    names_toolchain: bool = False,
) -> tuple[str, list[str]]:
    """Return the title and the tables of open alerts: regressions, then behind a fold the others.

    The others are muted regressions, changes of the machine, and improvements. `newest_runs` are
    the ids of the newest run of each toolchain, whose alerts are new. Rows leave out the dimensions
    `common`, which all cases share. `names_toolchain` adds the toolchain of an alert to its row.
    """
    open_regressions = open_alerts(alerts, verdict=Verdict.REGRESSION)
    by_machine = [alert for alert in open_regressions if is_by_machine(alert)]
    of_code = [alert for alert in open_regressions if not is_by_machine(alert)]
    regressions = [alert for alert in of_code if not is_muted(alert, at=now)]
    shown = [alert for alert in regressions if lets_through(state, alert.case)]
    needs = action_items(shown, newest_runs=newest_runs)
    num_hidden = len(action_items(regressions, newest_runs=())) - len(needs)
    varied = [
        name
        for name in DIMENSIONS
        if name not in common or len({getattr(alert.case, name) for alert in shown}) > 1
    ]
    draw = partial(action_items_table, now=now, varied=varied, names_toolchain=names_toolchain)
    sections = []
    if needs:
        sections.append(draw(needs[:_SHOWN_ITEMS], label="open regressions"))
    if rest := needs[_SHOWN_ITEMS:]:
        more = draw(rest, label="more open regressions")
        sections.append(collapsible(f"{len(rest)} more, less severe", more))
    others = partial(_alert_table, now=now, names_toolchain=names_toolchain)
    if muted := [alert for alert in of_code if is_muted(alert, at=now) and _concerns(state, alert)]:
        content = others(muted, label="muted regressions")
        sections.append(collapsible(f"Muted: {len(muted)}", content))
    if its := [alert for alert in by_machine if _concerns(state, alert)]:
        content = others(its, label="machine side")
        sections.append(collapsible(f"Attributed to the machine: {len(its)}", content))
    improvements = open_alerts(alerts, verdict=Verdict.IMPROVEMENT)
    if better := [alert for alert in improvements if _concerns(state, alert)]:
        content = others(better, label="improvements")
        sections.append(collapsible(f"Improvements: {len(better)}", content))
    hidden = f" ({num_hidden} more hidden by the filters)" if num_hidden else ""
    return f"{action_items_title(needs)}{hidden}", sections


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionItem:
    """The open regressions of one case in one toolchain, the worst first."""

    alerts: tuple[Alert, ...]
    is_new: bool

    @property
    def worst(self) -> Alert:
        """Return the alert that comes first."""
        return self.alerts[0]

    @property
    def kind(self) -> str:
        """Return the kind of the problem: `failing`, `vanished`, `late`, or `worse`."""
        kinds = [alert.kind for alert in self.alerts]
        if "outcome" in kinds:
            return FAILING
        return next((kind for kind in MISSING_KINDS if kind in kinds), WORSE)


def action_items(alerts: Sequence[Alert], *, newest_runs: Collection[str]) -> list[ActionItem]:
    """Return the cases of `alerts`, which come the worst first, in the same order.

    A case is new if its first bad run is among `newest_runs`.
    """
    by_case: dict[tuple[str, str, str], list[Alert]] = {}
    for alert in alerts:
        key = (alert.case.key, alert.machine, alert.toolchain)
        by_case.setdefault(key, []).append(alert)
    return [
        ActionItem(
            alerts=tuple(own),
            is_new=any(alert.first_bad.run_id in newest_runs for alert in own),
        )
        for own in by_case.values()
    ]


def action_items_title(needs: Sequence[ActionItem]) -> str:
    """Return the number of cases that need attention, by kind."""
    if not needs:
        return "No open regressions"
    counts = Counter(need.kind for need in needs)
    counts_text = [
        f"{counts[kind]} {kind}" for kind in (FAILING, WORSE, *MISSING_KINDS) if counts[kind]
    ]
    if num_new := sum(need.is_new for need in needs):
        counts_text.insert(0, f"{num_new} new")
    noun = "case needs" if len(needs) == 1 else "cases need"
    return f"{len(needs)} {noun} attention: {', '.join(counts_text)}"


def action_items_table(
    needs: Sequence[ActionItem],
    *,
    now: datetime,
    label: str,
    varied: Sequence[str] = DIMENSIONS,
    names_toolchain: bool = False,
) -> str:
    """Return a row per case, named by those of its dimensions that are `varied`."""
    rows = [
        _row(need, now=now, scope_notes=_scope_notes(need, varied, names_toolchain))
        for need in needs
    ]
    return table(_COLUMNS, rows, label=label, style="lines")


def learning_text(runs: Sequence[RunSummary], *, machine: str, toolchain: str) -> str:
    """Return the number of runs that make the baseline, "" if there are enough to judge one."""
    num = sum(
        (summary.run.machine, summary.run.toolchain) == (machine, toolchain)
        and bool(summary.num_by_outcome.get(Outcome.OK))
        for summary in runs
    )
    # Runs beyond the newest ones are not counted.
    if num >= NUM_BASELINE_RUNS or len(runs) >= MAX_RUNS:
        return ""
    return f"Learning: {num} of {counted(NUM_BASELINE_RUNS, 'run')}"


def unwatched_text(cells: Sequence[LatestCell], *, alerts: Sequence[Alert]) -> str:
    """Return the number of results that are not ok and have no open alert, "" for none."""
    regressions = open_alerts(alerts, verdict=Verdict.REGRESSION)
    watched = {(alert.case.key, alert.machine, alert.toolchain) for alert in regressions}
    num = sum(
        not cell.summary.outcome.is_expected
        and (cell.summary.case.key, cell.machine, cell.toolchain) not in watched
        for cell in cells
    )
    if not num:
        return ""
    verb = "is" if num == 1 else "are"
    return (
        f"{counted(num, 'case')} below {verb} not ok and {'has' if num == 1 else 'have'} no open"
        " alert: not ok since the first night, triaged, or not judged yet."
    )


def _concerns(state: OverviewState, alert: Alert) -> bool:
    # The reference cases are those of the machine, whatever the filters select.
    return alert.case.is_reference or lets_through(state, alert.case)


def mode_tile(summary: ModeSummary) -> tuple[str, Cell]:
    """Return a mode's name and its headline number, in brackets when the mode never really ran."""
    bad = [*_counts(summary.failures), *_counts(summary.missing)]
    text, why = _mean_words(summary)
    notes = [
        Note(text=why),
        Note(text=", ".join([f"{summary.num_ok} of {summary.num_attempted} ok", *bad])),
    ]
    if summary.untried:
        notes.append(Note(text=f"not counted: {', '.join(_counts(summary.untried))}"))
    num_others = 0
    for mode, number in summary.effective_modes:
        num_others += number
        notes.append(Note(text=f"{number} fell back to {mode}, not {summary.variant}"))
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
    """Return the mean of a mode with its cohort, or the reason why there is none."""
    if summary.mean is not None:
        over = f"geometric mean over {summary.num_common} of {summary.num_subjects}"
        return f"{summary.mean:.2f}x", over
    if summary.num_speedups:
        return "no common model", f"none of {summary.num_subjects} has a speedup in every mode"
    if not summary.num_ok:
        return "no speedup", "no case of this mode is ok"
    return "no speedup", "none was measured against eager"


def _alert_table(
    alerts: Sequence[Alert], *, now: datetime, names_toolchain: bool, label: str
) -> str:
    is_better = all(alert.verdict is Verdict.IMPROVEMENT for alert in alerts)
    columns = IMPROVEMENT_COLUMNS if is_better else ALERT_COLUMNS
    rows = [alert_row(alert, now=now, names_toolchain=names_toolchain) for alert in alerts]
    return table(columns, rows, label=label)


def dead_letter_notice(counts: Mapping[str, int]) -> str:
    """Return the banner of failed notifications, by receiver; "" without any."""
    if not counts:
        return ""
    text = ", ".join(f"{number} to {name}" for name, number in sorted(counts.items()))
    return (
        f"Failed notifications: {text}. `hud alerts outbox` says why, `hud alerts"
        " resend` sends them again."
    )


def _scope_notes(need: ActionItem, varied: Sequence[str], names_toolchain: bool) -> list[str]:
    notes = [" ".join(str(getattr(need.worst.case, name)) for name in varied)]
    if names_toolchain or is_imported(need.worst.toolchain):
        notes.append(f"toolchain {need.worst.toolchain}")
    return [text for text in notes if text]


def _row(need: ActionItem, *, now: datetime, scope_notes: Sequence[str]) -> Sequence[Cell]:
    alert, text = need.worst, alert_text(need.worst)
    case = alert.case
    others = [alert_text(other) for other in need.alerts[1:]]
    values = [text.values] if text.values else []
    cause = alert.cause_text or alert.cause_kind
    return (
        Cell(
            text=text.change,
            href=text.url,
            style=text.style,
            title=f"{alert.verdict} of {case.key}",
            notes=(Note(text=text.interval),) if text.interval else (),
        ),
        Cell(
            text=f"{case.model} {case.variant}",
            href=text.url,
            style="strong wraps",
            title=case.key,
            notes=tuple(Note(text=item) for item in scope_notes),
        ),
        Cell(
            text=text.topic,
            notes=tuple(
                Note(text=item)
                for item in (*values, *(f"and {it.topic} {it.change}" for it in others))
            ),
        ),
        _since(need, now=now),
        Cell(text=shortened(cause, limit=_CAUSE_LENGTH), style="quiet", title=cause),
        Cell(text="triage", href=decide_url(alert.id)),
    )


def _since(need: ActionItem, *, now: datetime) -> Cell:
    alert = need.worst
    seen = began(alert)
    if alert.kind == "late":
        return Cell(text=f"due {age(seen.at, now=now)}", style="quiet", title=moment(seen.at))
    return Cell(
        text=age(seen.at, now=now),
        href=run_url(seen.run_id, case_key=alert.case.key),
        title=alert_text(alert).bounds,
        style="strong" if need.is_new else "",
        notes=(
            *((Note(text="new"),) if need.is_new else ()),
            Note(text=shortened(short_revision(seen.revision), limit=_REVISION_LENGTH)),
        ),
    )

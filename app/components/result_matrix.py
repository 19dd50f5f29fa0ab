"""The model x variant matrix of the overview. Pure: latest cells and alerts in, cells out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from compile_hud.app.components.alert_rows import is_by_machine
from compile_hud.app.data.mode_summaries import MODE_ORDER, _live
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.format import (
    Scale,
    age,
    estimate,
    metric_label,
    moment,
    outcome_label,
    scale_for,
)
from compile_hud.app.ui.html import Cell, HtmlColumn, Note
from compile_hud.app.ui.urls import run_url, series_url
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.metrics import METRICS, speedup_latencies
from compile_hud.db.records.results import Case, Outcome, Verdict
from compile_hud.db.records.summaries import LatestCell, MeasurementSummary
from compile_hud.db.records.triage import missing_cases, worsening, worst_first
from compile_hud.db.shared.text import counted

DIMENSIONS = ("phase", "shape", "dtype", "device")
# Nightly runs start within minutes of each other; an older run missed a night.
_STALE_AFTER = timedelta(hours=36)
# A warning that has a note of its own in the cell.
_NOTED_CODES = frozenset({"mode-fallback"})
# Some screens, the worst first: the trends of thousands of cells are most of a page's bytes.
_ROWS_WITH_TREND = 60
# The class of a mark of another revision, and its explanation below the matrix.
OTHER_STYLE = "note other"
_LEGEND = (
    "other torch, other model code: measured at another revision than the newest result of the row;"
    " the tooltip has both. Cells with such a mark do not compare with the others."
)
_NO_TRENDS: Mapping[tuple[str, str], tuple[float, ...]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The table, and the dimensions in which all its cases agree (they need no column).

    `legend` explains the marks of other revisions, empty without any.
    """

    columns: tuple[HtmlColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    common: Mapping[str, str]
    legend: str = ""


def variants_in_order(cases: Iterable[Case]) -> list[str]:
    """Return the variants of `cases`: eager, the modes as PyTorch lists them, then the others."""
    names = {case.variant for case in cases}
    known = [name for name in MODE_ORDER if name in names]
    return known + sorted(names - set(known))


def common_dimensions(cases: Iterable[Case]) -> dict[str, str]:
    """Return those of phase, shape, dtype and device that all `cases` share."""
    values = [tuple(str(getattr(case, name)) for name in DIMENSIONS) for case in cases]
    columns = zip(DIMENSIONS, zip(*values, strict=True), strict=False)
    return {name: column[0] for name, column in columns if len(set(column)) == 1}


def effective_note(case: Case, effective_mode: str) -> str:
    """Return `ran as default` if another mode ran than the requested one, else ""."""
    return f"ran as {effective_mode}" if effective_mode not in ("", case.mode) else ""


def build_matrix(
    cells: Sequence[LatestCell],
    *,
    alerts: Sequence[Alert],
    metric: str,
    now: datetime,
    trends: Mapping[tuple[str, str], tuple[float, ...]] = _NO_TRENDS,
    num_shown: int | None = None,
) -> Matrix:
    """Return the latest results as a table, worst first; the first `num_shown` rows, or all.

    `cells` and `alerts` are of one machine and one toolchain. `trends` has their last medians by
    case key and metric.
    """
    variants = variants_in_order(cell.summary.case for cell in cells)
    common = common_dimensions([cell.summary.case for cell in cells])
    shown = [name for name in DIMENSIONS if name not in common]
    marks, missing = _marks(alerts), missing_cases(alerts)
    names = {name: _shown_metric(name, metric, cells) for name in variants}
    scales = {name: _scale(cells, variant=name, metric=names[name]) for name in variants}
    newest = max((cell.run_started_at for cell in cells), default=now)
    rows = []
    for number, subject in enumerate(_subjects(cells, marks=marks)[:num_shown]):
        case = next(iter(subject.values())).summary.case
        heading = [Cell(text=case.model, style="strong", title=f"{case.model}, {case.family}")]
        heading += [Cell(text=str(getattr(case, name))) for name in shown]
        latest = max(subject.values(), key=lambda cell: cell.run_started_at)
        body = [
            _cell(
                subject.get(name),
                latest=latest,
                marks=_marks_of(subject.get(name), marks, missing),
                metric=names[name],
                scale=scales[name],
                newest=newest,
                trends=trends if number < _ROWS_WITH_TREND else _NO_TRENDS,
            )
            for name in variants
        ]
        rows.append((*heading, *body))
    columns = [HtmlColumn(label="model"), *(HtmlColumn(label=name) for name in shown)]
    columns += [
        _column(name, metric=names[name], is_chosen=names[name] == metric, scale=scales[name])
        for name in variants
    ]
    return Matrix(
        columns=tuple(columns),
        rows=tuple(rows),
        common=common,
        legend=_LEGEND if any(_has_other_mark(row) for row in rows) else "",
    )


def _has_other_mark(row: Iterable[Cell]) -> bool:
    return any(note.style == OTHER_STYLE for cell in row for note in cell.notes)


def _other_notes(cell: LatestCell, *, latest: LatestCell) -> tuple[list[Note], list[str]]:
    """Return the marks of a result at another revision than `latest`, and their tooltips."""
    others = cell.differing_revisions(latest)
    notes = [Note(text=f"other {name}", style=OTHER_STYLE) for name, _, _ in others]
    return notes, [f"other {name}: {own}, the row has {new}" for name, own, new in others]


def _marks(alerts: Sequence[Alert]) -> dict[str, Alert]:
    """Return the worst live alert of each case, without changes of the machine."""
    live = [alert for alert in _live(alerts) if not is_by_machine(alert)]
    regressions = [alert for alert in live if alert.verdict is Verdict.REGRESSION]
    improvements = [alert for alert in live if alert.verdict is Verdict.IMPROVEMENT]
    ordered = [*worst_first(regressions), *worst_first(improvements)[::-1]]
    return {alert.case.key: alert for alert in reversed(ordered)}


def _marks_of(
    cell: LatestCell | None, marks: Mapping[str, Alert], missing: Mapping[str, Alert]
) -> list[Alert]:
    """Return the worst alert of a cell, and its alert about missing results."""
    key = "" if cell is None else cell.summary.case.key
    by_id = {alert.id: alert for alert in (marks.get(key), missing.get(key)) if alert}
    return list(by_id.values())


def num_rows_of(cells: Iterable[LatestCell]) -> int:
    """Return the number of rows of a matrix of `cells`."""
    return len({_subject(cell.summary.case) for cell in cells})


def _subject(case: Case) -> tuple[str, ...]:
    return (case.model, *(str(getattr(case, name)) for name in DIMENSIONS))


def _subjects(
    cells: Sequence[LatestCell], *, marks: Mapping[str, Alert]
) -> list[dict[str, LatestCell]]:
    """Return the rows, each a result by variant: regressed first, then failing, then by name."""
    subjects: dict[tuple[str, ...], dict[str, LatestCell]] = defaultdict(dict)
    for cell in cells:
        case = cell.summary.case
        subjects[_subject(case)][case.variant] = cell

    def badness(key: tuple[str, ...]) -> float:
        alerts = [marks.get(cell.summary.case.key) for cell in subjects[key].values()]
        return max(
            (worsening(alert) for alert in alerts if alert and _is_regression(alert)), default=0.0
        )

    def num_not_ok(key: tuple[str, ...]) -> int:
        return sum(not cell.summary.outcome.is_expected for cell in subjects[key].values())

    ordered = sorted(subjects, key=lambda key: (-badness(key), -num_not_ok(key), key))
    return [subjects[key] for key in ordered]


def _is_regression(alert: Alert) -> bool:
    return alert.verdict is Verdict.REGRESSION


def first_metric(cells: Sequence[LatestCell]) -> str:
    """Return the default metric of a matrix of `cells`: the speedup, if there is one.

    Imported results often have latencies only.
    """
    measured = {metric for cell in cells for metric in cell.summary.measurements}
    return "latency_s" if "latency_s" in measured and "speedup" not in measured else "speedup"


def _scale(cells: Sequence[LatestCell], *, variant: str, metric: str) -> Scale:
    medians = [
        cell.summary.measurements[metric].median
        for cell in cells
        if cell.summary.case.variant == variant and metric in cell.summary.measurements
    ]
    return scale_for(METRICS[metric].unit, medians)


def _shown_metric(variant: str, metric: str, cells: Sequence[LatestCell]) -> str:
    """Return `metric`, but of eager its latency instead of its speedup of 1.00x.

    It is on the clock of the speedups, if eager was measured on that one.
    """
    if variant != "eager" or metric != "speedup":
        return metric
    taken = [cell.summary.measurements.get("speedup") for cell in cells]
    _, latency = speedup_latencies(item.method for item in taken if item is not None)
    is_measured = any(
        latency in cell.summary.measurements
        for cell in cells
        if cell.summary.case.variant == variant
    )
    return latency if is_measured else "latency_s"


def _column(variant: str, *, metric: str, is_chosen: bool, scale: Scale) -> HtmlColumn:
    unit = "" if scale.unit in ("", "x") else f" ({scale.unit})"
    prefix = variant if is_chosen else f"eager {metric_label(metric)}"
    title = f"{metric_label(metric)}: {METRICS[metric].description}"
    return HtmlColumn(label=f"{prefix}{unit}", title=title, is_number=True)


def _cell(
    cell: LatestCell | None,
    *,
    latest: LatestCell,
    marks: Sequence[Alert],
    metric: str,
    scale: Scale,
    newest: datetime,
    trends: Mapping[tuple[str, str], tuple[float, ...]],
) -> Cell:
    if cell is None:
        return Cell(text="-", style="quiet", title="not measured on this machine in this toolchain")
    summary = cell.summary
    mark = marks[0] if marks else None
    notes = [_mark_note(alert) for alert in marks]
    if note := effective_note(summary.case, summary.effective_mode):
        notes.append(Note(text=note))
    others, tooltips = _other_notes(cell, latest=latest)
    notes += others
    if newest - cell.run_started_at > _STALE_AFTER:
        notes.append(Note(text=age(cell.run_started_at, now=newest).replace("ago", "older")))
    details = run_url(cell.run_id, case_key=summary.case.key)
    if not summary.outcome.is_expected:
        notes.append(Note(text="log", href=details))
    elif num := sum(warning.code not in _NOTED_CODES for warning in summary.warnings):
        notes.append(Note(text=counted(num, "warning"), href=details))
    measured = summary.measurements.get(metric)
    if metric == "speedup" and measured is not None:
        notes = [*_latency_notes(summary.measurements), *notes]
    return Cell(
        text=_text(cell, measured=measured, scale=scale),
        href=series_url(
            summary.case.key, metric=metric, machine=cell.machine, toolchain=cell.toolchain
        ),
        style=_style(mark, summary.outcome, has_value=measured is not None),
        title="\n".join([_title(cell, measured=measured), *tooltips]),
        notes=tuple(notes),
        trend=trends.get((summary.case.key, metric), ()),
    )


def _latency_notes(measured: Mapping[str, MeasurementSummary]) -> list[Note]:
    """Return the latencies that a speedup is the ratio of; none where they were not measured."""
    latencies = [measured.get(name) for name in speedup_latencies([measured["speedup"].method])]
    medians = [item.median for item in latencies if item is not None]
    if len(medians) < len(latencies):
        return []
    scale = scale_for("s", medians)
    before, after = (scale.number(median) for median in medians)
    return [Note(text=f"{before} -> {after} {scale.unit}")]


def _mark_note(alert: Alert) -> Note:
    state = "" if alert.state is AlertState.OPEN else f" ({alert.state})"
    text = alert_text(alert)
    return Note(
        text=text.mark + state,
        href=text.url,
        style="note bad" if _is_regression(alert) else "note good",
    )


def _style(mark: Alert | None, outcome: Outcome, *, has_value: bool) -> str:
    style = "strong" if not outcome.is_expected else "" if has_value else "quiet"
    if mark is not None:
        style += " cell-bad" if _is_regression(mark) else " cell-good"
    return style.strip()


def _text(cell: LatestCell, *, measured: MeasurementSummary | None, scale: Scale) -> str:
    if cell.summary.outcome is Outcome.SAME_CODE:
        return cell.summary.reason
    if cell.summary.outcome is not Outcome.OK:
        return outcome_label(cell.summary.outcome)
    if measured is None:
        return "-"
    return scale.text(measured.median) if scale.unit == "x" else scale.number(measured.median)


def _title(cell: LatestCell, *, measured: MeasurementSummary | None) -> str:
    summary = cell.summary
    lines = [f"{summary.case.key}"]
    if measured is not None:
        shown = estimate(measured.median, low=measured.low, high=measured.high, unit=measured.unit)
        lines.append(f"{shown}, {counted(measured.num_samples, 'sample')}")
    elif summary.outcome is Outcome.OK:
        lines.append("ok, but without this metric")
    if summary.reason:
        lines.append(summary.reason)
    lines += [warning.text for warning in summary.warnings]
    lines.append(f"{cell.revision}, {moment(cell.run_started_at)}")
    return "\n".join(lines)

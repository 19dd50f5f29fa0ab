"""The model x variant matrix of the overview. Pure: latest cells and alerts in, cells out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from compile_hud.app.components.alert_rows import is_by_machine
from compile_hud.app.components.matrix.order import (
    ALERTS,
    CHANGE,
    FAILING,
    MODEL,
    STALE,
    VALUE,
    MatrixView,
    change_level,
    change_of,
    sections_of,
    sorted_rows,
    value_levels,
)
from compile_hud.app.data.latest_results import own_eager_times
from compile_hud.app.data.mode_summaries import MODE_ORDER, _live
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.format import (
    Scale,
    age,
    estimate,
    moment,
    outcome_label,
    percent,
    quantity,
    scale_for,
)
from compile_hud.app.ui.html import Cell, HtmlColumn, Note
from compile_hud.app.ui.urls import run_url, series_url
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.metrics import (
    METRICS,
    column_latencies,
    metric_label,
    speedup_latencies,
)
from compile_hud.db.records.results import Case, Outcome, Verdict
from compile_hud.db.records.summaries import LatestCell, MeasurementSummary
from compile_hud.db.records.triage import missing_cases, worsening, worst_first
from compile_hud.db.shared.text import LOAD_DIFFERED, counted, own_eager_text

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
    "other torch, other model code: at another revision than the newest result of the row, so not"
    " comparable. The tooltip has both."
)
_NO_TRENDS: Mapping[tuple[str, str], tuple[float, ...]] = {}
_WORST_FIRST = MatrixView()


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The table, and the dimensions in which all its cases agree (they need no column).

    `legend` explains the marks of other revisions, empty without any. `sections` are the titles of
    groups of rows with their numbers of rows; without sections the groups have columns. `bounds`
    are the least and the largest value, None where nothing is shaded by value.
    """

    columns: tuple[HtmlColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    common: Mapping[str, str]
    legend: str = ""
    sections: tuple[tuple[str, int], ...] = ()
    bounds: tuple[str, str] | None = None
    has_stale: bool = False


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
    """Return `fell back to default` if another mode ran than the requested one, else ""."""
    return f"fell back to {effective_mode}" if effective_mode not in ("", case.mode) else ""


def build_matrix(
    cells: Sequence[LatestCell],
    *,
    alerts: Sequence[Alert],
    metric: str,
    now: datetime,
    trends: Mapping[tuple[str, str], tuple[float, ...]] = _NO_TRENDS,
    num_shown: int | None = None,
    view: MatrixView = _WORST_FIRST,
    sort_url: Callable[[str], str] | None = None,
) -> Matrix:
    """Return the latest results as a table, by default worst first; the first `num_shown` rows.

    `cells` and `alerts` are of one machine and one toolchain. `trends` has their last medians by
    case key and metric. `sort_url` has the address of a click on the heading of a column.
    """
    variants = variants_in_order(cell.summary.case for cell in cells)
    common = common_dimensions([cell.summary.case for cell in cells])
    varied = [name for name in DIMENSIONS if name not in common]
    names = {name: _shown_metric(name, metric, cells) for name in variants}
    table = _Table(
        metrics=names,
        scales={name: _scale(cells, variant=name, metric=names[name]) for name in variants},
        newest=max((cell.run_started_at for cell in cells), default=now),
        trends=trends,
        marks=_marks(alerts),
        missing=missing_cases(alerts),
        heat=view.heat,
        own_eager_s=own_eager_times(cells) if metric == "speedup" else {},
    )
    subjects = sorted_rows(
        select_rows(cells, alerts=alerts, only=view.only),
        view,
        name=lambda subject: _case_of(subject).model,
        number=lambda subject: table.number(subject.get(view.column)),
    )
    groups, subjects, sections = _grouped(subjects, varied)
    shown = [] if sections else varied
    levels = table.levels(subjects, metric=metric, groups=groups if sections else None)
    rows = []
    for number, subject in enumerate(subjects[:num_shown]):
        case = _case_of(subject)
        heading = [Cell(text=case.model, style="strong", title=f"{case.model}, {case.family}")]
        heading += [Cell(text=str(getattr(case, name))) for name in shown]
        body = [
            table.cell(subject, name, has_trend=number < _ROWS_WITH_TREND, level=levels(number))
            for name in variants
        ]
        rows.append((*heading, *body))
    columns = _columns(variants, shown, table=table, metric=metric)
    return Matrix(
        columns=tuple(_sortable(*column, view=view, url=sort_url) for column in columns),
        rows=tuple(rows),
        common=common,
        legend=_LEGEND if any(_has_other_mark(row) for row in rows) else "",
        sections=_titles(groups[:num_shown]) if sections else (),
        bounds=table.bounds(subjects, metric=metric) if view.heat == VALUE else None,
        has_stale=any(table.is_stale(cell) for item in subjects for cell in item.values()),
    )


def _titles(groups: Sequence[tuple[str, ...]]) -> tuple[tuple[str, int], ...]:
    return tuple((" ".join(key), len(list(own))) for key, own in groupby(groups))


def _case_of(subject: Mapping[str, LatestCell]) -> Case:
    return next(iter(subject.values())).summary.case


def _grouped(
    subjects: Sequence[dict[str, LatestCell]], varied: Sequence[str]
) -> tuple[list[tuple[str, ...]], list[dict[str, LatestCell]], bool]:
    """Return the group of each row, the rows group by group, and whether groups have titles."""
    groups = [tuple(str(getattr(_case_of(item), name)) for name in varied) for item in subjects]
    sections = sections_of(groups)
    if sections is None:
        return groups, list(subjects), False
    order = {key: number for number, key in enumerate(sections)}
    pairs = sorted(zip(groups, subjects, strict=True), key=lambda pair: order[pair[0]])
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs], True


def _columns(
    variants: Sequence[str], shown: Sequence[str], *, table: _Table, metric: str
) -> list[tuple[str, HtmlColumn]]:
    """Return the columns with the names that sort by them, "" for those that sort nothing."""
    columns = [(MODEL, HtmlColumn(label=MODEL))]
    columns += [("", HtmlColumn(label=name)) for name in shown]
    columns += [
        (
            name,
            _column(
                name,
                metric=table.metrics[name],
                is_chosen=table.metrics[name] == metric,
                scale=table.scales[name],
            ),
        )
        for name in variants
    ]
    return columns


def _sortable(
    name: str, column: HtmlColumn, *, view: MatrixView, url: Callable[[str], str] | None
) -> HtmlColumn:
    if not name:
        return column
    order = ""
    if view.column == name:
        order = "descending" if view.is_descending else "ascending"
    return replace(column, href=url(name) if url else "", order=order)


def select_rows(
    cells: Sequence[LatestCell], *, alerts: Sequence[Alert], only: str = ""
) -> list[dict[str, LatestCell]]:
    """Return the rows that the filter `only` selects, each a result by variant, the worst first."""
    marks = _marks(alerts)
    newest = max((cell.run_started_at for cell in cells), default=None)

    def is_selected(cell: LatestCell) -> bool:
        if only == ALERTS:
            return cell.summary.case.key in marks
        if only == FAILING:
            return not cell.summary.outcome.is_expected
        return only != STALE or (newest is not None and _is_stale(cell, newest=newest))

    return [
        subject
        for subject in _subjects(cells, marks=marks)
        if any(map(is_selected, subject.values()))
    ]


def _is_stale(cell: LatestCell, *, newest: datetime) -> bool:
    return newest - cell.run_started_at > _STALE_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The things that all cells of a matrix share; metrics and scales are by variant."""

    metrics: Mapping[str, str]
    scales: Mapping[str, Scale]
    newest: datetime
    trends: Mapping[tuple[str, str], tuple[float, ...]]
    marks: Mapping[str, Alert]
    missing: Mapping[str, Alert]
    heat: str
    own_eager_s: Mapping[str, float]

    def is_stale(self, cell: LatestCell) -> bool:
        """Return whether a cell was not measured in the newest night."""
        return _is_stale(cell, newest=self.newest)

    def change(self, cell: LatestCell) -> float | None:
        """Return the change of a cell against its last medians."""
        case = cell.summary.case
        return change_of(self.trends.get((case.key, self.metrics[case.variant]), ()))

    def number(self, cell: LatestCell | None) -> float | None:
        """Return the number that a cell shows, None for none."""
        if cell is None:
            return None
        if self.heat == CHANGE:
            return self.change(cell)
        measured = cell.summary.measurements.get(self.metrics[cell.summary.case.variant])
        return None if measured is None else measured.median

    def medians(self, subjects: Iterable[Mapping[str, LatestCell]], *, metric: str) -> list[float]:
        """Return the medians of the chosen metric."""
        return [
            cell.summary.measurements[metric].median
            for subject in subjects
            for variant, cell in subject.items()
            if self.metrics[variant] == metric and metric in cell.summary.measurements
        ]

    def bounds(
        self, subjects: Sequence[Mapping[str, LatestCell]], *, metric: str
    ) -> tuple[str, str] | None:
        """Return the least and the largest value, None without two of them."""
        values = self.medians(subjects, metric=metric)
        if len(set(values)) < 2:
            return None
        scale = scale_for(METRICS[metric].unit, values)
        return scale.text(min(values)), scale.text(max(values))

    def levels(
        self,
        subjects: Sequence[Mapping[str, LatestCell]],
        *,
        metric: str,
        groups: Sequence[tuple[str, ...]] | None,
    ) -> Callable[[int], Callable[[LatestCell], str]]:
        """Return the shades of the cells of a row, by its number: those of its group."""
        if self.heat != VALUE:
            style = (lambda cell: change_level(self.change(cell))) if self.heat else _no_level
            return lambda _: style
        keys = groups or [()] * len(subjects)
        by_group: dict[tuple[str, ...], list[Mapping[str, LatestCell]]] = defaultdict(list)
        for key, subject in zip(keys, subjects, strict=True):
            by_group[key].append(subject)
        levels = {
            key: value_levels(self.medians(own, metric=metric)) for key, own in by_group.items()
        }

        def of_row(number: int) -> Callable[[LatestCell], str]:
            level = levels[keys[number]]

            def of_cell(cell: LatestCell) -> str:
                measured = cell.summary.measurements.get(metric)
                is_shown = self.metrics[cell.summary.case.variant] == metric
                return level(measured.median) if measured and is_shown else ""

            return of_cell

        return of_row

    def cell(
        self,
        subject: Mapping[str, LatestCell],
        variant: str,
        *,
        has_trend: bool,
        level: Callable[[LatestCell], str],
    ) -> Cell:
        """Return the cell of a variant in the row of a subject."""
        cell = subject.get(variant)
        shown = _cell(
            cell,
            latest=max(subject.values(), key=lambda item: item.run_started_at),
            marks=_marks_of(cell, self.marks, self.missing),
            metric=self.metrics[variant],
            scale=self.scales[variant],
            newest=self.newest,
            trends=self.trends if has_trend else _NO_TRENDS,
        )
        if cell is None:
            return shown
        if own_s := self.own_eager_s.get(cell.summary.case.key):
            title = f"{shown.title}\n{own_eager_text(quantity(own_s, 's'))}"
            shown = replace(shown, title=title, notes=(*shown.notes, Note(text=LOAD_DIFFERED)))
        styles = [shown.style, level(cell), "stale" if self.is_stale(cell) else ""]
        shown = replace(shown, style=" ".join(filter(None, styles)))
        is_number = self.metrics[variant] in cell.summary.measurements
        if self.heat != CHANGE or not is_number or not cell.summary.outcome.is_success:
            return shown
        change = self.change(cell)
        value = self.scales[variant].text(cell.summary.measurements[self.metrics[variant]].median)
        return replace(
            shown,
            text="-" if change is None else percent(100 * change),
            notes=(Note(text=value), *shown.notes),
        )


def _no_level(_: LatestCell) -> str:
    return ""


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
    measured = [cell.summary.measurements for cell in cells if cell.summary.case.variant == variant]
    _, latency = column_latencies(
        measured, methods=[item.method for item in taken if item is not None]
    )
    is_measured = any(latency in measurements for measurements in measured)
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
    if _is_stale(cell, newest=newest):
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

"""The texts, tables and chart rows of the page of trends. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from compile_hud.app.components.trend.window import thinned_indices
from compile_hud.app.ui.format import Scale, local_range, moment, scale_for
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, table, time_cell
from compile_hud.app.ui.urls import (
    RELATIVE,
    TrendsState,
    cases_url,
    decide_url,
    end_in,
    moment_in,
    moment_out,
    run_url,
)
from compile_hud.app.views.trends.charts import Panel, PanelColumn, share_domains, shared_domains
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.shared.text import counted, counted_of, one_line, short_revision, shortened
from compile_hud.runner.analysis.trends.answers import (
    change_interval_text,
    change_text,
    cohort_change_text,
)
from compile_hud.runner.analysis.trends.records import (
    PASS_RATE,
    MarkKind,
    ModePoint,
    ModeTrend,
    ModeTrends,
    TrendMark,
)

# A panel is this narrow, and more points hide one another.
MAX_POINTS = 120
_MAX_CHANGES = MAX_POINTS // 4
# More columns of panels are slow to draw; the table has all of them.
MAX_COLUMNS = 24
_TEXT_LENGTH = 90
_LINES = (MarkKind.ANNOTATION, MarkKind.ENVIRONMENT, MarkKind.MODEL_CODE)


def trend_label(metric: str) -> str:
    """Return the label of the metric of a trend."""
    return "pass rate" if metric == PASS_RATE else metric_label(metric)


def range_facts(trends: ModeTrends) -> list[tuple[str, Cell]]:
    """Return the runs of the range: number, ends and revisions."""
    first, last = trends.runs[0], trends.runs[-1]
    return [
        ("runs", Cell(text=f"{len(trends.runs):,}")),
        ("first", time_cell(first.at, href=run_url(first.id))),
        ("newest", time_cell(last.at, href=run_url(last.id))),
        (
            "torch",
            Cell(
                text=short_revision(last.revision),
                title=f"first run: {first.revision}",
            ),
        ),
        # It says whether the numbers were imported.
        ("toolchain", Cell(text=trends.toolchain)),
    ]


def summary_table(trends: ModeTrends, *, state: TrendsState) -> str:
    """Return the newest values and their changes: metrics, or groups, by modes."""
    modes = list(dict.fromkeys(trend.mode for trend in trends.trends))
    names = _row_names(trends.trends)
    cells = {(_row_name(trend), trend.mode): trend for trend in trends.trends}
    scales = {
        name: scale_for(own[0].unit, [trend.points[-1].value for trend in own])
        for name in names
        if (own := [trend for trend in trends.trends if _row_name(trend) == name])
    }
    columns = [
        HtmlColumn(label=state.by or "metric"),
        *(HtmlColumn(label=mode, is_number=True) for mode in modes),
    ]
    rows = [
        [
            Cell(text=_row_label(name, state), href=_row_url(name, state), style="strong"),
            *(_cell(cells.get((name, mode)), scales[name]) for mode in modes),
        ]
        for name in names
    ]
    return table(columns, rows, label="newest values and changes")


def _row_name(trend: ModeTrend) -> tuple[str, str]:
    return (trend.metric, trend.label)


def _row_names(trends: Sequence[ModeTrend]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(map(_row_name, trends)))


def _row_label(name: tuple[str, str], state: TrendsState) -> str:
    metric, label = name
    if state.by and label:
        return label
    return ", ".join(part for part in (trend_label(metric), label) if part)


def _row_url(name: tuple[str, str], state: TrendsState) -> str:
    """Return the address of one metric, "" where it is shown alone already."""
    metric, _ = name
    if state.by or state.metric:
        return ""
    return cases_url(dataclasses.replace(state, metric=metric))


def _cell(trend: ModeTrend | None, scale: Scale) -> Cell:
    if trend is None:
        return Cell(text="-", style="quiet")
    newest = trend.points[-1]
    note = _change_note(trend)
    return Cell(
        text=scale.text(newest.value),
        title=_cohort_text(trend.metric, newest),
        notes=(Note(text=note),) if note else (),
    )


def _change_note(trend: ModeTrend) -> str:
    interval = change_interval_text(trend)
    return f"{change_text(trend)} {interval} %" if interval else change_text(trend)


def panel_columns(
    trends: ModeTrends, *, state: TrendsState, num_columns: int = MAX_COLUMNS
) -> list[PanelColumn]:
    """Return a column of panels for each mode and group, at most `num_columns`."""
    by_column: dict[tuple[str, str], dict[str, ModeTrend]] = {}
    for trend in trends.trends:
        by_column.setdefault((trend.label, trend.mode), {})[trend.metric] = trend
    shown = dict(list(by_column.items())[:num_columns])
    metrics = list(dict.fromkeys(trend.metric for trend in trends.trends))
    panels: dict[tuple[str, str], list[Panel]] = {key: [] for key in shown}
    for metric in metrics:
        own = {key: items[metric] for key, items in shown.items() if metric in items}
        for key, panel in _panels(own, trends.marks, state=state).items():
            panels[key].append(panel)
    lines = _line_rows(trends.marks)
    time = (time_text(trends.runs[0].at), time_text(trends.runs[-1].at))
    return [
        PanelColumn(
            title=" / ".join(part for part in key if part),
            panels=panels[key],
            lines=lines,
            time=time,
        )
        for key in shown
    ]


def _panels(
    trends: Mapping[tuple[str, str], ModeTrend],
    marks: Sequence[TrendMark],
    *,
    state: TrendsState,
) -> dict[tuple[str, str], Panel]:
    """Return the panels of one metric, in one scale and of one ratio."""
    if not trends:
        return {}
    is_relative = state.scale == RELATIVE
    first = next(iter(trends.values()))
    scale = metric_scale(trends.values())
    rows = {
        key: point_rows(trend, scale=scale, is_relative=is_relative)
        for key, trend in trends.items()
    }
    names = ("value",) if is_relative else ("value", "low", "high")
    values = [[row[name] for row in own for name in names] for own in rows.values()]
    if first.metric == PASS_RATE and not is_relative:
        domains, is_log = share_domains(values), False
    else:
        domains, is_log = shared_domains(values, is_linear=is_relative)
    return {
        key: Panel(
            title=_panel_title(trend, scale=scale, is_relative=is_relative),
            points=rows[key],
            alerts=_alert_rows(marks, trend),
            domain=domain,
            is_log=is_log,
        )
        for (key, trend), domain in zip(trends.items(), domains, strict=True)
    }


def _panel_title(trend: ModeTrend, *, scale: Scale, is_relative: bool) -> str:
    label, newest = trend_label(trend.metric), scale.text(trend.points[-1].value)
    change = change_text(trend)
    if is_relative and change:
        return f"{label}, change since the first run: {change}"
    return f"{label} {newest}, {change}" if change else f"{label} {newest}"


def metric_scale(trends: Iterable[ModeTrend]) -> Scale:
    """Return the scale of trends of one metric."""
    own = list(trends)
    if own[0].unit == "share":
        return Scale(0.01, "%")
    return scale_for(own[0].unit, [trend.points[-1].value for trend in own])


def point_rows(
    trend: ModeTrend, *, scale: Scale, is_relative: bool = False
) -> list[dict[str, Any]]:
    """Return the rows of the points that are drawn.

    In a large zoo some model joins or leaves most nights. Such changes of the cohort are drawn with
    the points of their stretches, and the table below the charts lists all.
    """
    points = trend.points
    changed = [index for index, point in enumerate(points) if point.cohort_changed]
    always = changed if len(changed) <= _MAX_CHANGES else ()
    drawn = thinned_indices([point.value for point in points], always=always, limit=MAX_POINTS)
    bases = {point.segment: point.value for point in reversed(points)}
    return [
        _point_row(points[index], trend, scale=scale, bases=bases if is_relative else {})
        for index in drawn
    ]


def _point_row(
    point: ModePoint, trend: ModeTrend, *, scale: Scale, bases: Mapping[int, float]
) -> dict[str, Any]:
    """Return the row of a point; `bases` are the first values of its segments for changes."""

    def shown(value: float) -> float:
        if not bases:
            return value / scale.factor
        base = bases[point.segment]
        return 100 * (value - base) if trend.metric == PASS_RATE else 100 * (value / base - 1)

    return {
        "at": time_text(point.run.at),
        "value": shown(point.value),
        "low": shown(point.low),
        "high": shown(point.high),
        "segment": point.segment,
        "run_id": point.run.id,
        "shown": scale.estimate(point.value, low=point.low, high=point.high),
        "cohort": _cohort_text(trend.metric, point),
        "when": moment(point.run.at),
        "revision": shortened(one_line(point.run.revision), limit=_TEXT_LENGTH),
        "is_change": point.cohort_changed,
        "changed": cohort_change_text(point) or "none",
        "own": scale.text(point.own),
    }


def _cohort_text(metric: str, point: ModePoint) -> str:
    if metric == PASS_RATE:
        return f"{counted_of(point.num_counted, point.num_subjects, 'case')} ok"
    text = f"{point.num_counted} of {counted(point.num_subjects, 'model')}"
    if point.num_measured == point.num_counted:
        return text
    return f"{text}, {point.num_measured} measured in this run"


def _alert_rows(marks: Iterable[TrendMark], trend: ModeTrend) -> list[dict[str, Any]]:
    return [
        {
            "at": time_text(mark.at),
            "when": moment(mark.at),
            "text": shortened(one_line(mark.text), limit=_TEXT_LENGTH),
            "verdict": mark.verdict,
        }
        for mark in marks
        if mark.belongs_to(trend)
    ]


def _line_rows(marks: Iterable[TrendMark]) -> list[dict[str, Any]]:
    return [
        {
            "at": time_text(mark.at),
            "when": moment(mark.at),
            "text": shortened(one_line(mark.text), limit=_TEXT_LENGTH),
        }
        for mark in marks
        if mark.kind in _LINES
    ]


def time_text(at: datetime) -> str:
    """Return a time as charts read it."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def mark_table(trends: ModeTrends) -> tuple[list[HtmlColumn], list[list[Cell]]]:
    """Return the columns and rows of what changed, the newest first."""
    columns = [
        HtmlColumn(label="when"),
        HtmlColumn(label="kind"),
        HtmlColumn(label="what changed"),
    ]
    marks = [mark for mark in trends.marks if mark.kind is not MarkKind.REVISION]
    rows = [(mark.at, mark.run_id, str(mark.kind), mark.text, mark.id) for mark in marks]
    cohorts = {
        (point.run.at, point.run.id, "cohort", cohort_change_text(point), "")
        for trend in trends.trends
        for point in trend.points
        if point.cohort_changed and trend.metric != PASS_RATE
    }
    ordered = sorted([*rows, *cohorts], reverse=True)
    return columns, [_mark_row(*row) for row in ordered]


def _mark_row(at: datetime, run_id: str, kind: str, text: str, mark_id: str) -> list[Cell]:
    href = decide_url(mark_id) if kind == MarkKind.ALERT else ""
    return [
        time_cell(at, href=run_url(run_id) if run_id else ""),
        Cell(text=kind.replace("_", " "), style="quiet"),
        Cell(text=text, href=href, style="wraps"),
    ]


def part_words(state: TrendsState) -> str:
    """Return the brushed part, `2026-01-03 01:00 UTC+1 to 2026-02-01 01:00 UTC+1`."""
    return local_range(moment_in(state.since), end_in(state.until))


def bounds_of(trends: ModeTrends) -> tuple[str, str]:
    """Return the ids of the first and the newest run of the drawn range."""
    return trends.runs[0].id, trends.runs[-1].id


def brush_bounds(part: tuple[datetime, datetime]) -> dict[str, str]:
    """Return the URL parameters of a brushed part."""
    return dict(zip(("since", "until"), map(moment_out, part), strict=True))

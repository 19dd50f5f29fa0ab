"""The chart of a series over time, as a Vega-Lite specification. Pure.

A click on a point picks its run, clicks with shift pick a pair, and a brush picks a part of the
time. `picked`, `pair_of` and `brushed` read these selections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import altair as alt

from compile_hud.app.ui.charts import (
    LOCAL_TIME,
    PICK,
    Row,
    chart_of,
    finished,
    number_axis,
    spans_decades,
    time_axis,
    time_scale,
    verdict_colour,
)
from compile_hud.app.ui.format import is_interval
from compile_hud.app.ui.theme import NEUTRAL, VERDICT_COLOURS
from compile_hud.db.records.results import Verdict
from compile_hud.db.shared.text import counted

# The words of captions for the gesture that selects a part of the time.
DRAG_TEXT = "Dragging along the time shows that part"
# Clicks with shift make the one selection, a brush along the time the other.
PAIR = "pair"
PART = "part"
TREND_SELECTIONS = (PICK, PAIR, PART)
TREND_HEIGHT = 340
_LABEL_ROW_HEIGHT = 14
_LABEL_GAP = 5
# A label that leaves the chart would narrow all of it.
_LABEL_LIMIT = (
    "max(1, (datum.align === 'left' ? width - scale('x', datum.at) : scale('x', datum.at))"
    f" - {_LABEL_GAP})"
)
_TOOLTIP = [
    alt.Tooltip("shown:N", title="value"),
    alt.Tooltip("num_samples:Q", title="samples"),
    alt.Tooltip("revision:N", title="revision"),
    alt.Tooltip("when:N", title="run started"),
    alt.Tooltip("text:N", title="what changed"),
]
_LEVEL_TOOLTIP = alt.Tooltip("level_shown:N", title="normalised")
_MARK_TOOLTIP = [
    alt.Tooltip("text:N", title="what changed"),
    alt.Tooltip("between:N", title="between"),
    alt.Tooltip("cause:N", title="cause"),
    alt.Tooltip("said:N", title="said last"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The data of a trend chart; app/components/trend/rows.py makes the rows.

    They are points, noise bands, marks of changes, runs without a number, and single samples.
    `note` stands below the axis, which has the time of the browser unless `is_utc`.
    """

    title: str
    points: Sequence[Row]
    bands: Sequence[Row] = ()
    marks: Sequence[Row] = ()
    failures: Sequence[Row] = ()
    samples: Sequence[Row] = ()
    note: str = ""
    is_utc: bool = False

    @property
    def is_normalised(self) -> bool:
        """Return whether any point has a normalised level."""
        return any("level" in point for point in self.points)


def trend_spec(trend: Trend) -> dict[str, Any]:
    """Return the trend of a series."""
    scale = time_scale(is_utc=trend.is_utc, padding=12)
    x = alt.X("at:T", scale=scale, axis=time_axis(is_utc=trend.is_utc))
    y_axis = _y_axis(trend)
    layers: list[alt.Chart] = []
    if trend.bands:
        layers += _band_layers(
            _above_zero(trend.bands, trend, "low", "level", "high"), scale, y_axis
        )
    layers += _mark_layers(_above_zero(trend.marks, trend, "from", "to"), scale, y_axis)
    if trend.samples:
        layers.append(_sample_layer(trend.samples, x, y_axis))
    layers += _point_layers(trend, x, y_axis)
    layers.append(_revision_layer(trend.points, x))
    if trend.failures:
        layers.append(_failure_layer(trend.failures, x))
    chart = alt.layer(*layers).properties(
        height=TREND_HEIGHT,
        width="container",
        description=f"{trend.title} over time, {counted(len(trend.points), 'run')}",
    )
    spec = finished(chart)
    time = "UTC" if trend.is_utc else LOCAL_TIME
    # A title that is missing in one layer would take it from all.
    for layer in spec["layer"]:
        layer["encoding"]["x"]["title"] = f"{time}; {trend.note}" if trend.note else time
    return spec


def pair_of(event: Mapping[str, Any]) -> list[str]:
    """Return the runs of the two points that were picked with shift, empty without two."""
    chosen = event.get("selection", {}).get(PAIR) or []
    run_ids = [str(item.get("run_id") or "") for item in chosen]
    return run_ids[:2] if len(run_ids) > 1 and all(run_ids[:2]) else []


def brushed(event: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Return the brushed part of the time, None without one."""
    chosen = event.get("selection", {}).get(PART) or {}
    ends = chosen.get("at") if isinstance(chosen, Mapping) else None
    if not isinstance(ends, Sequence) or len(ends) != 2:
        return None
    try:
        first, last = sorted(datetime.fromtimestamp(end / 1000, timezone.utc) for end in ends)
    except (TypeError, ValueError, OverflowError, OSError):
        # The value comes from the browser and may be anything.
        return None
    return (first, last) if first < last else None


def _y_axis(trend: Trend) -> dict[str, Any]:
    """Return title, scale and axis with room for all layers.

    Vega puts its only tick, with all digits, at a single value. So the axis spans 5 % on either
    side of it, unless it is a whole number, which reads well.
    """
    values = _values(trend)
    if not values or is_interval(min(values), max(values)) or float(values[0]).is_integer():
        return number_axis(values, trend.title, zero=False, padding=14)
    domain = sorted((0.95 * values[0], 1.05 * values[0]))
    return number_axis(values, trend.title, domain=domain, zero=False, nice=False)


def _values(trend: Trend) -> list[float]:
    names = ("low", "high", "level") if trend.is_normalised else ("low", "high")
    values = [point[name] for point in trend.points for name in names]
    return [*values, *(sample["value"] for sample in trend.samples)]


def _above_zero(rows: Sequence[Row], trend: Trend, *names: str) -> list[dict[str, Any]]:
    """Return `rows` with the fields `names` not below the least value, on a logarithmic axis.

    A band may reach below zero, where that axis has no position.
    """
    values = _values(trend)
    if not spans_decades(values):
        return [dict(row) for row in rows]
    return [
        {**row, **{name: max(row[name], min(values)) for name in names if name in row}}
        for row in rows
    ]


def _point_layers(trend: Trend, x: alt.X, y_axis: Mapping[str, Any]) -> list[alt.Chart]:
    base = chart_of(trend.points)
    value = alt.Y("value:Q", **y_axis)
    layers: list[alt.Chart] = []
    if trend.is_normalised:
        layers += _level_layers(base, x, alt.Y("level:Q", **y_axis))
    layers.append(
        base.mark_line(color=NEUTRAL, strokeWidth=1).encode(x=x, y=value, detail="segment:N")
    )
    # Points of one sample each have no interval.
    if any(is_interval(point["low"], point["high"]) for point in trend.points):
        low = alt.Y("low:Q", **y_axis)
        rule = base.mark_rule(color=NEUTRAL, opacity=0.7)
        layers.append(rule.encode(x=x, y=low, y2="high:Q"))
    pick, pair, part = _selections()
    layers.append(
        base.mark_point(filled=True, opacity=1, cursor="pointer", stroke=NEUTRAL)
        .encode(
            x=x,
            y=value,
            color=verdict_colour(),
            shape=_verdict_shape(),
            size=alt.condition("datum.verdict === 'unchanged'", alt.value(46), alt.value(120)),
            strokeWidth=alt.condition(pair, alt.value(8), alt.value(0)),
            tooltip=[_TOOLTIP[0], _LEVEL_TOOLTIP, *_TOOLTIP[1:]]
            if trend.is_normalised
            else _TOOLTIP,
        )
        .add_params(pick, pair, part)
    )
    return layers


def _selections() -> tuple[alt.Parameter, alt.Parameter, alt.Parameter]:
    pick = alt.selection_point(
        name=PICK, fields=["run_id"], on="click[!event.shiftKey]", empty=False, toggle=False
    )
    pair = alt.selection_point(
        name=PAIR, fields=["run_id"], on="click[event.shiftKey]", empty=False, toggle="true"
    )
    return pick, pair, alt.selection_interval(name=PART, encodings=["x"], zoom=False)


def _sample_layer(samples: Sequence[Row], x: alt.X, y_axis: Mapping[str, Any]) -> alt.Chart:
    layer: alt.Chart = (
        chart_of(samples)
        .mark_point(filled=True, size=9, color=NEUTRAL, opacity=0.35)
        .encode(x=x, y=alt.Y("value:Q", **y_axis))
    )
    return layer


def _band_layers(
    bands: Sequence[Row], scale: alt.Scale, y_axis: Mapping[str, Any]
) -> list[alt.Chart]:
    base = chart_of(bands)
    x, x2 = alt.X("start:T", scale=scale), alt.X2("end:T")
    rect = base.mark_rect(color=NEUTRAL, opacity=0.16).encode(
        x=x, x2=x2, y=alt.Y("low:Q", **y_axis), y2="high:Q"
    )
    level = base.mark_rule(color=NEUTRAL, strokeDash=[4, 3]).encode(
        x=x, x2=x2, y=alt.Y("level:Q", **y_axis)
    )
    return [rect, level]


def _level_layers(base: alt.Chart, x: alt.X, level: alt.Y) -> list[alt.Chart]:
    """Return the normalised levels: hollow, so that they differ from medians without a colour."""
    line = base.mark_line(color=NEUTRAL, strokeWidth=1, strokeDash=[2, 2]).encode(
        x=x, y=level, detail="segment:N"
    )
    dots = base.mark_point(filled=False, size=70, color=NEUTRAL, strokeWidth=1.5).encode(
        x=x, y=level
    )
    return [line, dots]


def _mark_layers(
    marks: Sequence[Row], scale: alt.Scale, y_axis: Mapping[str, Any]
) -> list[alt.Chart]:
    """Return a vertical line for each mark, with its label at the top, on the side with more room.

    If the change lies somewhere between two runs, that time is shaded. A drift has a slope from its
    first level to its last, and no line if its run is not shown. All marks share their layers,
    since each layer costs time in the browser. The rows carry the style of each mark.
    """
    rows = [{**mark, **_mark_style(mark)} for mark in marks]
    base, x = chart_of(rows), alt.X("at:T", scale=scale)
    colour, dash = _of_row("colour"), _of_row("dash")
    layers: list[alt.Chart] = []
    if between := [row for row in rows if "after" in row]:
        shade = chart_of(between).mark_rect(color=colour, opacity=0.12)
        layers.append(shade.encode(x=x, x2="after:T"))
    if lines := [row for row in rows if "is_elsewhere" not in row]:
        rule = chart_of(lines).mark_rule(color=colour, strokeDash=dash, strokeWidth=1.5)
        layers.append(rule.encode(x=x, tooltip=_MARK_TOOLTIP))
    if slopes := [row for row in rows if "until" in row]:
        slope = chart_of(slopes).mark_rule(color=colour, strokeWidth=2.5)
        y = alt.Y("from:Q", **y_axis)
        since = alt.X("since:T", scale=scale)
        layers.append(slope.encode(x=since, x2="until:T", y=y, y2="to:Q"))
    if rows:
        layers.append(_mark_words(base, x))
    return layers


def _mark_style(mark: Row) -> dict[str, Any]:
    is_left = mark["side"] == "left"
    is_verdict = mark["verdict"] in (Verdict.REGRESSION, Verdict.IMPROVEMENT)
    return {
        "colour": VERDICT_COLOURS.get(mark["verdict"], NEUTRAL),
        "dash": [] if is_verdict else [6, 3],
        "align": "right" if is_left else "left",
        "dx": -_LABEL_GAP if is_left else _LABEL_GAP,
        "weight": 600 if is_verdict else 400,
    }


def _mark_words(base: alt.Chart, x: alt.X) -> alt.Chart:
    words: alt.Chart = base.mark_text(
        align=_of_row("align"),
        dx=_of_row("dx"),
        baseline="top",
        fontSize=12,
        fontWeight=_of_row("weight"),
        color=_of_row("colour"),
        limit=alt.ExprRef(_LABEL_LIMIT),
    ).encode(
        x=x,
        y=alt.value(alt.expr(f"datum.row * {_LABEL_ROW_HEIGHT}")),
        text="text:N",
        tooltip=_MARK_TOOLTIP,
    )
    return words


def _of_row(name: str) -> alt.ExprRef:
    """Return the property of a mark that each row sets for itself."""
    return alt.ExprRef(f"datum.{name}")


def _revision_layer(points: Sequence[Row], x: alt.X) -> alt.Chart:
    # Only the times go into this layer: whole rows would double the data that the browser reads.
    ticks = chart_of([{"at": row["at"]} for row in points if row["is_new_revision"]])
    layer: alt.Chart = ticks.mark_tick(
        orient="vertical", size=6, thickness=1, color=NEUTRAL, opacity=1
    ).encode(x=x, y=alt.value(alt.expr("height - 3")))
    return layer


def _failure_layer(failures: Sequence[Row], x: alt.X) -> alt.Chart:
    layer: alt.Chart = (
        chart_of(failures)
        .mark_point(shape="cross", angle=45, size=70, filled=True, color=NEUTRAL, opacity=1)
        .encode(
            x=x,
            y=alt.value(alt.expr("height - 14")),
            tooltip=[
                alt.Tooltip("text:N", title="outcome"),
                alt.Tooltip("revision:N", title="revision"),
                alt.Tooltip("when:N", title="run started"),
            ],
        )
    )
    return layer


def _verdict_shape() -> alt.Shape:
    shapes = {
        Verdict.REGRESSION: "triangle-up",
        Verdict.IMPROVEMENT: "triangle-down",
        Verdict.UNCHANGED: "circle",
        Verdict.INCONCLUSIVE: "diamond",
        Verdict.IDENTICAL: "square",
    }
    return alt.Shape(
        "verdict:N",
        scale=alt.Scale(domain=[str(verdict) for verdict in shapes], range=list(shapes.values())),
    )

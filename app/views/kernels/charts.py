"""The charts of the kernels page, as Vega-Lite specifications. Pure.

Colour shows the kind of a kernel; labels, shapes and tooltips show it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from compile_hud.app.ui.charts import (
    LOCAL_TIME,
    LOG_SUFFIX,
    Row,
    chart_of,
    finished,
    log_axis,
    number_axis,
    picks,
    time_axis,
    time_scale,
)
from compile_hud.app.ui.format import moment, quantity, roofline_text, scale_for
from compile_hud.app.ui.legend import LegendItem
from compile_hud.app.ui.theme import (
    KIND_COLOURS,
    KIND_INK,
    KIND_SHAPES,
    MIXED_KINDS,
    NEUTRAL,
    known_kind,
)
from compile_hud.app.views.kernels.icicle import LEVELS, SEVERAL, Rect
from compile_hud.app.views.kernels.roofline import Roof, Spot, roof_labels, span_of
from compile_hud.app.views.kernels.tables import kernel_id, shown
from compile_hud.db.records.kernels import KINDS, KernelPoint

_ICICLE_ROW_HEIGHT = 30
# The height of a chart includes its axis with the title.
_AXIS_HEIGHT = 70
_LANE_HEIGHT = 34
_ROOFLINE_HEIGHT = 340
_TREND_HEIGHT = 200
# A narrower rectangle has no room for a word; its tooltip has it.
_LABELLED_SHARE = 0.02


def icicle_spec(rects: Sequence[Rect]) -> dict[str, Any]:
    """Return the icicle; a click on a kernel selects its id."""
    scale = scale_for("s", [rects[0].end_s])
    rows = [_icicle_row(rect, factor=scale.factor) for rect in rects]
    end = rects[0].end_s / scale.factor
    x = alt.X(
        "start:Q",
        title=f"time of all kernels an iteration ({scale.unit})",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=_time_axis(),
    )
    scale_y = alt.Scale(domain=[len(LEVELS), 0], nice=False)
    y = alt.Y("level:Q", axis=None, scale=scale_y)
    tooltip = [
        alt.Tooltip("name:N", title="name"),
        alt.Tooltip("what:N", title="level"),
        alt.Tooltip("kind_shown:N", title="kind"),
        alt.Tooltip("time:N", title="time"),
        alt.Tooltip("part:N", title="share"),
        alt.Tooltip("kernels:Q", title="kernels in it"),
    ]
    rect = (
        chart_of(rows)
        .mark_rect(stroke="white", strokeWidth=0.5, cursor="pointer")
        .encode(x=x, x2="end:Q", y=y, y2="below:Q", color=_kind_colour(), tooltip=tooltip)
        .add_params(picks("kernel"))
    )
    labelled = [
        {**row, "middle": rect.level + 0.47}
        for row, rect in zip(rows, rects, strict=True)
        if rect.share >= _LABELLED_SHARE
    ]
    words = (
        chart_of(labelled)
        .mark_text(
            align="left",
            baseline="middle",
            dx=4,
            fontSize=12,
            color=KIND_INK,
            limit=alt.expr("max(8, width * datum.share - 8)"),
        )
        .encode(x=x, y=alt.Y("middle:Q", scale=scale_y), text="name:N", tooltip=tooltip)
    )
    height = _ICICLE_ROW_HEIGHT * len(LEVELS) + _AXIS_HEIGHT
    return finished(alt.layer(rect, words).properties(height=height, width="container"))


def _icicle_row(rect: Rect, *, factor: float) -> dict[str, Any]:
    return {
        "start": rect.start_s / factor,
        "end": rect.end_s / factor,
        "level": rect.level,
        "below": rect.level + 0.94,
        "name": shown(rect.name),
        "what": LEVELS[rect.level],
        "kind": rect.kind if rect.kind == SEVERAL else known_kind(rect.kind),
        "kind_shown": shown(rect.kind),
        "time": quantity(rect.end_s - rect.start_s, "s"),
        "part": quantity(rect.share, "share"),
        "kernels": rect.num_kernels,
        "share": rect.share,
        "kernel": rect.kernel_id,
    }


def roofline_spec(spots: Sequence[Spot], *, roofs: Sequence[Roof]) -> dict[str, Any]:
    """Return the kernels under the roofs, both axes logarithmic; a click selects a kernel's id."""
    begin, end = span_of(spots, roofs=roofs)
    rate = scale_for("FLOP/s", [spot.flops_per_s for spot in spots])
    rows = [_spot_row(spot, factor=rate.factor) for spot in spots]
    lines = [
        {"intensity": x, "rate": roof.at(x) / rate.factor, "roof": roof.name}
        for roof in roofs
        for x in sorted({begin, min(max(roof.ridge, begin), end), end})
    ]
    ends = [
        {
            "intensity": label.intensity,
            "rate": label.flops_per_s / rate.factor,
            "roof": label.text,
        }
        for label in roof_labels(spots, roofs=roofs)
    ]
    x, y = _roofline_axes([*rows, *lines], unit=rate.unit)
    roof_lines = (
        chart_of(lines)
        .mark_line(color=NEUTRAL, strokeWidth=1.5)
        .encode(x=x, y=y, detail="roof:N", strokeDash=alt.StrokeDash("roof:N", legend=None))
    )
    names = (
        chart_of(ends)
        .mark_text(align="right", baseline="bottom", dx=-14, dy=3, fontSize=12, color=NEUTRAL)
        .encode(x=x, y=y, text="roof:N")
    )
    dots = (
        chart_of(rows)
        .mark_point(filled=True, opacity=0.95, stroke=KIND_INK, strokeWidth=0.6, cursor="pointer")
        .encode(
            x=x,
            y=y,
            # Colours and shapes have the same domain: Vega warns if the two differ.
            color=_kind_colour(KINDS),
            shape=alt.Shape(
                "kind:N",
                scale=alt.Scale(domain=list(KINDS), range=[KIND_SHAPES[kind] for kind in KINDS]),
                legend=None,
            ),
            size=alt.Size("share:Q", scale=alt.Scale(domain=[0, 1], range=[60, 900])),
            tooltip=[
                alt.Tooltip("name:N", title="kernel"),
                alt.Tooltip("kind_shown:N", title="kind"),
                alt.Tooltip("shapes:N", title="shapes"),
                alt.Tooltip("per_byte:N", title="intensity"),
                alt.Tooltip("achieved:N", title="achieved"),
                alt.Tooltip("part:N", title="share of an iteration"),
                alt.Tooltip("roofline:N", title="of the measured roofline"),
            ],
        )
        .add_params(picks("kernel"))
    )
    chart = alt.layer(roof_lines, names, dots)
    return finished(chart.properties(height=_ROOFLINE_HEIGHT, width="container"))


def roofline_legend(spots: Sequence[Spot]) -> tuple[LegendItem, ...]:
    """Return the signs of the roofline of these kernels."""
    kinds = {known_kind(spot.kernel.kind) for spot in spots}
    return (
        *(LegendItem(sign=f"kind-{kind}", text=kind) for kind in KINDS if kind in kinds),
        LegendItem(sign="point-sizes", text="share of an iteration"),
        LegendItem(sign="roof", text="roof: copies and matrix products measured by this run"),
    )


def strip_spec(rows: Sequence[Row], *, unit: str) -> dict[str, Any]:
    """Return a lane for each thread or stream; a click selects a kernel's id.

    The rows are those of `strip_rows` in app/views/kernels/timeline.py, their times in `unit`.
    """
    lanes = sorted({str(row["lane"]) for row in rows})
    rect = (
        chart_of([{**row, "kind": known_kind(row["kind"])} for row in rows])
        .mark_bar(stroke=KIND_INK, strokeWidth=0.25, height=_LANE_HEIGHT - 8, cursor="pointer")
        .encode(
            x=alt.X("start:Q", title=f"time ({unit})", axis=_time_axis()),
            x2="end:Q",
            y=alt.Y("lane:N", title=None, sort=lanes),
            color=_kind_colour(),
            tooltip=[
                alt.Tooltip("name:N", title="kernel"),
                alt.Tooltip("kind_shown:N", title="kind"),
                alt.Tooltip("began:N", title="began at"),
                alt.Tooltip("took:N", title="took"),
                alt.Tooltip("shapes:N", title="shapes"),
            ],
        )
        .add_params(
            picks("kernel"),
            alt.selection_interval(name="zoom", bind="scales", encodings=["x"]),
        )
    )
    height = _LANE_HEIGHT * len(lanes) + _AXIS_HEIGHT
    return finished(alt.layer(rect).properties(height=height, width="container"))


def kernel_trend_spec(points: Sequence[KernelPoint]) -> dict[str, Any]:
    """Return the time per iteration of one kernel over the runs; a click selects a run's id."""
    scale = scale_for("s", [point.total_s for point in points])
    rows = [
        {
            "at": point.at.isoformat(),
            "value": point.total_s / scale.factor,
            "shown": scale.text(point.total_s),
            "when": moment(point.at),
            "revision": shown(point.revision),
            "calls": point.count,
            "call": quantity(point.mean_s, "s"),
            "part": quantity(point.share, "share"),
            "codes": point.num_sources,
            "segment": point.fingerprint,
            "run_id": point.run_id,
        }
        for point in points
    ]
    x = alt.X(
        "at:T",
        title=LOCAL_TIME,
        scale=time_scale(padding=12),
        axis=time_axis(),
    )
    values = [point.total_s / scale.factor for point in points]
    title = f"time an iteration ({scale.unit})"
    y = alt.Y("value:Q", **number_axis(values, title, zero=False))
    base = chart_of(rows)
    line = base.mark_line(color=NEUTRAL, strokeWidth=1).encode(x=x, y=y, detail="segment:N")
    dots = (
        base.mark_point(filled=True, opacity=1, size=60, color=NEUTRAL, cursor="pointer")
        .encode(
            x=x,
            y=y,
            tooltip=[
                alt.Tooltip("shown:N", title="time an iteration"),
                alt.Tooltip("revision:N", title="revision"),
                alt.Tooltip("when:N", title="run started"),
                alt.Tooltip("calls:Q", title="calls"),
                alt.Tooltip("call:N", title="mean a call"),
                alt.Tooltip("part:N", title="share of the profiled iteration"),
                alt.Tooltip("codes:Q", title="generated codes"),
            ],
        )
        .add_params(picks("run_id"))
    )
    return finished(alt.layer(line, dots).properties(height=_TREND_HEIGHT, width="container"))


def kernel_trend_legend(points: Sequence[KernelPoint]) -> tuple[LegendItem, ...]:
    """Return the signs of the trend of one kernel."""
    is_broken = len({point.fingerprint for point in points}) > 1
    text = "run; the line ends where the environment changes" if is_broken else "run"
    return (LegendItem(sign="point-line", text=text),)


def _spot_row(spot: Spot, *, factor: float) -> Row:
    kernel = spot.kernel
    return {
        "intensity": spot.intensity,
        "rate": spot.flops_per_s / factor,
        "name": shown(kernel.label),
        "kind": known_kind(kernel.kind),
        "kind_shown": shown(kernel.kind),
        "shapes": shown(kernel.shapes),
        "per_byte": f"{spot.intensity:.3g} FLOP/byte",
        "achieved": quantity(spot.flops_per_s, "FLOP/s"),
        "part": quantity(kernel.share, "share"),
        "roofline": roofline_text(kernel.roofline),
        "share": kernel.share,
        "kernel": kernel_id(kernel),
    }


def _kind_colour(kinds: Sequence[str] = (*KIND_COLOURS, SEVERAL)) -> alt.Color:
    colours = {**KIND_COLOURS, SEVERAL: MIXED_KINDS}
    scale = alt.Scale(domain=list(kinds), range=[colours[kind] for kind in kinds])
    return alt.Color("kind:N", scale=scale, legend=None)


def _time_axis() -> alt.Axis:
    # As many as leave room between two numbers, also in a narrow window.
    return alt.Axis(grid=False, tickCount=alt.ExprRef("ceil(width / 100)"))


def _roofline_axes(rows: Sequence[Row], *, unit: str) -> tuple[alt.X, alt.Y]:
    log = alt.Scale(type="log", nice=False, padding=8)
    x_axis, y_axis = (log_axis([row[name] for row in rows]) for name in ("intensity", "rate"))
    return (
        alt.X(
            "intensity:Q",
            title=f"arithmetic intensity (FLOP/byte){LOG_SUFFIX}",
            scale=log,
            axis=x_axis,
        ),
        alt.Y("rate:Q", title=f"achieved ({unit}){LOG_SUFFIX}", scale=log, axis=y_axis),
    )

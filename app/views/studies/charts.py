"""The charts of a study: numbers with their intervals, and latency against parameters. Pure.

Shape distinguishes variants: colour is for verdicts, and nothing here is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from compile_hud.app.ui.charts import Row, chart_of, finished, number_axis, picks
from compile_hud.app.ui.legend import LegendItem
from compile_hud.app.ui.theme import NEUTRAL

INTERVALS_TEXT = "Several models are a geometric mean over those ok in every column (n of m)."
SCATTER_TEXT = (
    "A click on a point opens its case. Where intervals overlap, the order of two candidates is"
    " not settled."
)
INTERVALS_LEGEND = (
    LegendItem(sign="point-line", text="95 % interval of measuring again on this device"),
    LegendItem(sign="dashed", text="eager"),
)
SCATTER_LEGEND = (LegendItem(sign="point-bar", text="latency, 95 % interval"),)
# Pixels of one variant in a row, and of legend, axis and its title together.
_ROW_PX, _AXIS_PX = 17, 110
SCATTER_HEIGHT = 420
_LEGEND = {
    "orient": "top",
    "title": None,
    "symbolFillColor": NEUTRAL,
    "labelLimit": 300,
    # A narrow chart has no room for all variants in one line.
    "columns": {"expr": "width < 420 ? 1 : 0"},
}


def intervals_spec(points: Sequence[Row]) -> dict[str, Any]:
    """Return each number with its interval, row by row; the dashed line is eager."""
    names = list(dict.fromkeys(point["row"] for point in points))
    variants = list(dict.fromkeys(point["variant"] for point in points))
    bounds = [point[name] for point in points for name in ("low", "high")]
    speedup = number_axis([1.0, *bounds], "speedup over eager", zero=False, padding=12)
    x = alt.X("value:Q", **speedup)
    axis = alt.Axis(labelLimit=300, labelOverlap=False, grid=True, tickBand="extent")
    layout: dict[str, Any] = {
        "y": alt.Y("row:N", sort=names, title=None, axis=axis),
        "yOffset": alt.YOffset("variant:N", sort=variants),
    }
    base = chart_of(points)
    eager = chart_of([{"value": 1.0}]).mark_rule(color=NEUTRAL, strokeDash=[4, 3]).encode(x=x)
    ends = base.mark_rule(color=NEUTRAL, opacity=0.8).encode(
        x=alt.X("low:Q", **speedup), x2="high:Q", **layout
    )
    dots = base.mark_point(filled=True, size=70, color=NEUTRAL, opacity=1).encode(
        x=x,
        shape=alt.Shape("variant:N", sort=variants),
        tooltip=[
            alt.Tooltip("row:N", title="row"),
            alt.Tooltip("variant:N", title="variant"),
            alt.Tooltip("shown:N", title="speedup"),
            alt.Tooltip("cohort:N", title="models"),
        ],
        **layout,
    )
    height = _ROW_PX * max(2, len(variants)) * len(names) + _AXIS_PX
    chart = alt.layer(eager, ends, dots).properties(height=height, width="container")
    return _with_legend(finished(chart))


def scatter_spec(points: Sequence[Row], *, title: str) -> dict[str, Any]:
    """Return latency against parameters, a point a candidate and variant; a click picks a case.

    `title` names the clock.
    """
    variants = list(dict.fromkeys(point["variant"] for point in points))
    sizes = [point["parameters"] for point in points]
    across = number_axis(sizes, "parameters (millions)", zero=False, nice=False, padding=60)
    x = alt.X("parameters:Q", **across)
    times = [point[name] for point in points for name in ("value", "low", "high")]
    up = number_axis(times, title, zero=False, padding=16)
    base = chart_of(points)
    ends = base.mark_rule(color=NEUTRAL, opacity=0.7).encode(
        x=x, y=alt.Y("low:Q", **up), y2="high:Q"
    )
    y = alt.Y("value:Q", **up)
    dots = (
        base.mark_point(filled=True, size=90, color=NEUTRAL, opacity=1, cursor="pointer")
        .encode(
            x=x,
            y=y,
            shape=alt.Shape("variant:N", sort=variants),
            tooltip=[
                alt.Tooltip("model:N", title="candidate"),
                alt.Tooltip("variant:N", title="variant"),
                alt.Tooltip("shown:N", title="latency"),
                alt.Tooltip("parameters:Q", title="parameters (millions)", format=".2f"),
            ],
        )
        .add_params(picks("case"))
    )
    labels = chart_of([point for point in points if point["variant"] == variants[0]])
    names = labels.mark_text(align="left", dx=9, dy=-6, fontSize=11, color=NEUTRAL).encode(
        x=x, y=y, text="model:N"
    )
    chart = alt.layer(ends, dots, names).properties(height=SCATTER_HEIGHT, width="container")
    return _with_legend(finished(chart))


def _with_legend(spec: dict[str, Any]) -> dict[str, Any]:
    spec["config"] = {**spec["config"], "legend": _LEGEND}
    return spec

"""The chart of the modes: speedup against compile time, with the Pareto front. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import altair as alt

from compile_hud.app.ui.charts import LOG_SUFFIX, Row, chart_of, finished, number_axis
from compile_hud.app.ui.legend import LegendItem
from compile_hud.app.ui.theme import NEUTRAL

_HEIGHT = 300
# A factor by which the axis extends beyond the first and the last compile time.
_MARGIN = 1.15
# The label of the last mode gets this share of the span of all modes, to its right.
_LABEL_ROOM = 0.45
_LABEL_GAP = 9
# A label stands on the left where the right has no room for one of this many pixels. It never
# leaves the chart, all of which would become narrower.
_LABEL_PX = 190
_X = "scale('x', datum.compile_s)"
_IS_RIGHT = f"width - {_X} > min({_LABEL_PX}, {_X})"
_LABEL_LIMIT = f"max(1, ({_IS_RIGHT} ? width - {_X} : {_X}) - {_LABEL_GAP})"
# Pixels from a point down to its label, and up.
_BELOW, _ABOVE = 13, -8
# The height of a label.
_LINE_PX = 14


def modes_spec(rows: Sequence[Row], *, cache: str) -> dict[str, Any]:
    """Return speedup against compile time; filled modes are on the front, which a line joins.

    The rows are those of `chart_rows` in app/views/modes/tables.py, by compile time.
    """
    domain = _domain(rows)
    x = alt.X(
        "compile_s:Q",
        title=f"{cache} compile time (s){LOG_SUFFIX}",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(grid=False, format="~s", tickCount=6),
    )
    bounds = [row[name] for row in rows for name in ("low", "high")]
    axis = number_axis([1.0, *bounds], "speedup over eager", zero=False, padding=24)
    y = alt.Y("speedup:Q", **axis)
    base = chart_of(rows)
    front = chart_of([row for row in rows if row["is_front"]])
    others = chart_of([row for row in rows if not row["is_front"]])
    tooltip = [
        alt.Tooltip("mode:N", title="mode"),
        alt.Tooltip("shown:N", title="speedup"),
        alt.Tooltip("compile:N", title=f"{cache} compile time"),
        alt.Tooltip("memory:N", title="peak memory"),
        alt.Tooltip("front:N", title="Pareto front"),
    ]
    eager = chart_of([{"one": 1.0}]).mark_rule(color=NEUTRAL, strokeDash=[4, 3])
    layers = [
        eager.encode(y=alt.Y("one:Q", **axis)),
        chart_of([{"one": 1.0, "label": "eager"}])
        .mark_text(align="left", dx=4, dy=-8, fontSize=12, color=NEUTRAL)
        .encode(x=alt.value(0), y=alt.Y("one:Q", **axis), text="label:N"),
        chart_of([row for row in rows if row["is_on_line"]])
        .mark_line(color=NEUTRAL, strokeWidth=1.5)
        .encode(x=x, y=y),
        base.mark_rule(color=NEUTRAL, opacity=0.7).encode(
            x=x, y=alt.Y("low:Q", **axis), y2="high:Q"
        ),
        front.mark_point(filled=True, size=110, color=NEUTRAL, opacity=1).encode(
            x=x, y=y, tooltip=tooltip
        ),
        others.mark_point(filled=False, size=110, color=NEUTRAL, strokeWidth=2).encode(
            x=x, y=y, tooltip=tooltip
        ),
        chart_of(_labelled(rows))
        .mark_text(
            align=alt.ExprRef(f"{_IS_RIGHT} ? 'left' : 'right'"),
            dx=alt.ExprRef(f"{_IS_RIGHT} ? {_LABEL_GAP} : -{_LABEL_GAP}"),
            dy=alt.ExprRef(f"{_IS_RIGHT} ? datum.dy_right : datum.dy_left"),
            fontSize=12,
            color=NEUTRAL,
            limit=alt.ExprRef(_LABEL_LIMIT),
        )
        .encode(x=x, y=y, text="label:N", tooltip=tooltip),
    ]
    return finished(alt.layer(*layers).properties(height=_HEIGHT, width="container"))


def modes_legend(rows: Sequence[Row]) -> tuple[LegendItem, ...]:
    """Return the signs of the chart of these modes."""
    items = [LegendItem(sign="point-bar", text="on the Pareto front, 95 % interval of the speedup")]
    if any(not row["is_front"] for row in rows):
        items.append(LegendItem(sign="hollow", text="not on the front"))
    if sum(row["is_on_line"] for row in rows) > 1:
        items.append(LegendItem(sign="line", text="front of speedup and compile time"))
    return (*items, LegendItem(sign="level", text="eager"))


def _labelled(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return `rows` with the height of each label on the right and on the left of its point.

    A label lies away from the line on its side, or else from the nearest point above or below.
    """
    speedups = [row["speedup"] for row in rows]
    line = [row for row in rows if row["is_on_line"]]
    labelled: list[dict[str, Any]] = []
    for row in rows:
        own = row["speedup"]
        up = min((item - own for item in speedups if item > own), default=inf)
        down = min((own - item for item in speedups if item < own), default=inf)
        free = _ABOVE if down < up else _BELOW
        sides = {"dy_right": free, "dy_left": free}
        if row["is_on_line"]:
            index = line.index(row)
            if index + 1 < len(line):
                sides["dy_right"] = _BELOW if line[index + 1]["speedup"] >= own else _ABOVE
            if index:
                sides["dy_left"] = _ABOVE if line[index - 1]["speedup"] <= own else _BELOW
        # In a narrow chart a label on the left meets those on the right of quicker modes.
        heights = [_y(other, rows) + other["dy_right"] for other in labelled]
        step = _LINE_PX if sides["dy_left"] > 0 else -_LINE_PX
        while any(abs(_y(row, rows) + sides["dy_left"] - at) < _LINE_PX for at in heights):
            sides["dy_left"] += step
        labelled.append({**row, **sides})
    return labelled


def _y(row: Row, rows: Sequence[Row]) -> float:
    """Return about how many pixels the speedup of `row` lies below the top of the chart."""
    bounds = [1.0, *(other[name] for other in rows for name in ("low", "high"))]
    span = max(bounds) - min(bounds)
    return _HEIGHT * (max(bounds) - row["speedup"]) / span if span else 0.0


def _domain(rows: Sequence[Row]) -> tuple[float, float]:
    times = [row["compile_s"] for row in rows]
    # A single mode stands in the middle of some room.
    if max(times) <= _MARGIN * min(times):
        return min(times) / 2.0, max(times) * 2.0
    room = (max(times) / min(times)) ** _LABEL_ROOM
    return min(times) / _MARGIN, max(times) * _MARGIN * room

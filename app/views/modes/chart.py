"""The chart of the modes: speedup against compile time, with the Pareto front. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from compile_hud.app.ui.charts import Row, chart_of, finished
from compile_hud.app.ui.theme import NEUTRAL

_HEIGHT = 300
# A factor by which the axis extends beyond the first and the last compile time.
_MARGIN = 1.15
# The label of the last mode gets this share of the span of all modes, to its right.
_LABEL_ROOM = 0.45


def modes_spec(rows: Sequence[Row], *, cache: str) -> dict[str, Any]:
    """Return speedup against compile time; filled modes are on the front, which a line joins.

    The rows are those of `chart_rows` in app/views/modes/tables.py, by compile time.
    """
    domain = _domain(rows)
    x = alt.X(
        "compile_s:Q",
        title=f"{cache} compile time (s)",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(grid=False, format="~s", tickCount=6),
    )
    y_scale = alt.Scale(zero=False, padding=24)
    title = "speedup over eager"
    y = alt.Y("speedup:Q", title=title, scale=y_scale)
    base = chart_of(rows)
    front = chart_of([row for row in rows if row["is_front"]])
    others = chart_of([row for row in rows if not row["is_front"]])
    tooltip = [
        alt.Tooltip("mode:N", title="mode"),
        alt.Tooltip("shown:N", title="speedup"),
        alt.Tooltip("compile:N", title=f"{cache} compile time"),
        alt.Tooltip("memory:N", title="peak memory"),
    ]
    eager = chart_of([{"one": 1.0}]).mark_rule(color=NEUTRAL, strokeDash=[4, 3])
    layers = [
        eager.encode(y=alt.Y("one:Q", title=title, scale=y_scale)),
        chart_of([{"one": 1.0, "label": "eager"}])
        .mark_text(align="left", dx=4, dy=-8, fontSize=12, color=NEUTRAL)
        .encode(x=alt.value(0), y=alt.Y("one:Q", title=title, scale=y_scale), text="label:N"),
        chart_of([row for row in rows if row["is_front"] and row["is_on_line"]])
        .mark_line(color=NEUTRAL, strokeWidth=1.5)
        .encode(x=x, y=y),
        base.mark_rule(color=NEUTRAL, opacity=0.7).encode(
            x=x, y=alt.Y("low:Q", title=title, scale=y_scale), y2="high:Q"
        ),
        front.mark_point(filled=True, size=110, color=NEUTRAL, opacity=1).encode(
            x=x, y=y, tooltip=tooltip
        ),
        others.mark_point(filled=False, size=110, color=NEUTRAL, strokeWidth=2).encode(
            x=x, y=y, tooltip=tooltip
        ),
        base.mark_text(align="left", dx=9, dy=13, fontSize=12, color=NEUTRAL).encode(
            x=x, y=y, text="label:N", tooltip=tooltip
        ),
    ]
    return finished(alt.layer(*layers).properties(height=_HEIGHT, width="container"))


def _domain(rows: Sequence[Row]) -> tuple[float, float]:
    times = [row["compile_s"] for row in rows]
    # A single mode stands in the middle of some room.
    if max(times) <= _MARGIN * min(times):
        return min(times) / 2.0, max(times) * 2.0
    room = (max(times) / min(times)) ** _LABEL_ROOM
    return min(times) / _MARGIN, max(times) * _MARGIN * room

"""The chart of the modes: speedup against compile time, with the Pareto front. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from app.charts import Row, chart_of, finished
from app.theme import NEUTRAL

_HEIGHT = 300
# Room for the name of the mode that compiles longest.
_RIGHT = 3.0
# As high as a line of text, of what the chart shows: a third of its height is room at the ends.
_LINE = 24 / _HEIGHT
# Modes whose compile times differ less have labels one below the other.
_LABEL_WIDTH = 1.6


def modes_spec(rows: Sequence[Row], *, cache: str) -> dict[str, Any]:
    """Return speedup against compile time; filled modes are on the front, which a line joins.

    The rows are those of `app.modesrows.chart_rows`, by compile time.
    """
    times = [row["compile_s"] for row in rows]
    domain = [min(times) / 1.4, max(times) * _RIGHT]
    x = alt.X(
        "compile_s:Q",
        title=f"{cache} compile time (s)",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(grid=False, format="~s"),
    )
    y_scale = alt.Scale(zero=False, padding=24)
    title = "speedup over eager"
    y = alt.Y("speedup:Q", title=title, scale=y_scale)
    base = chart_of(rows)
    places = label_places(rows)
    labels = [{**row, "place": place} for row, place in zip(rows, places, strict=True)]
    front = chart_of([row for row in rows if row["is_front"]])
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
        chart_of([row for row in rows if not row["is_front"]])
        .mark_point(filled=False, size=110, color=NEUTRAL, strokeWidth=2)
        .encode(x=x, y=y, tooltip=tooltip),
        chart_of(labels)
        .mark_text(align="left", dx=9, dy=13, fontSize=12, color=NEUTRAL)
        .encode(x=x, y=alt.Y("place:Q", title=title, scale=y_scale), text="label:N"),
    ]
    return finished(alt.layer(*layers).properties(height=_HEIGHT, width="container"))


def label_places(rows: Sequence[Row]) -> list[float]:
    """Return at which speedup the label of each row stands: its own, or a line below another's."""
    ends = [row[name] for row in rows for name in ("low", "high")] + [1.0]
    line = _LINE * (max(ends) - min(ends))
    places: dict[int, float] = {}
    for number in sorted(range(len(rows)), key=lambda number: -rows[number]["speedup"]):
        time = rows[number]["compile_s"]
        above = [
            place
            for other, place in places.items()
            if max(time, rows[other]["compile_s"])
            < _LABEL_WIDTH * min(time, rows[other]["compile_s"])
        ]
        places[number] = min([rows[number]["speedup"], *(place - line for place in above)])
    return [places[number] for number in range(len(rows))]

"""The chart of the modes: speedup against compile time, with the Pareto front. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import altair as alt

from app.charts import Row, chart_of, finished
from app.theme import NEUTRAL

_HEIGHT = 300
# How far beyond the first and the last compile time the axis reaches.
_MARGIN = 1.15
# As high as a line of text, of what the chart shows: a third of its height is room at the ends.
_LINE = 24 / _HEIGHT
# How far below the place of a label its middle is, in lines, and how far it reaches up and down.
_BELOW = 0.55
_HALF = 0.45
# As wide as a label may be, of the axis: in a window of 800 px.
_LABEL_SHARE = 0.3
# By half lines; where all speedups are 1.00x, no line has a height to move by.
_MAX_MOVES = 40


def modes_spec(rows: Sequence[Row], *, cache: str) -> dict[str, Any]:
    """Return speedup against compile time; filled modes are on the front, which a line joins.

    The rows are those of `app.modesrows.chart_rows`, by compile time.
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
    labels = [{**row, "place": at} for row, at in zip(rows, label_places(rows), strict=True)]
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
    ]
    for is_left in (False, True):
        if those := [row for row in labels if is_left_of_point(row, domain) is is_left]:
            side: Literal["left", "right"] = "right" if is_left else "left"
            layers.append(
                chart_of(those)
                .mark_text(align=side, dx=-9 if is_left else 9, dy=13, fontSize=12, color=NEUTRAL)
                .encode(x=x, y=alt.Y("place:Q", title=title, scale=y_scale), text="label:N")
            )
    return finished(alt.layer(*layers).properties(height=_HEIGHT, width="container"))


class _Box(NamedTuple):
    """What is taken of the chart: compile times and speedups."""

    start: float
    end: float
    low: float
    high: float

    def meets(self, other: _Box) -> bool:
        return (
            self.start <= other.end
            and other.start <= self.end
            and self.low <= other.high
            and other.low <= self.high
        )


def _domain(rows: Sequence[Row]) -> tuple[float, float]:
    times = [row["compile_s"] for row in rows]
    # A single mode stands in the middle of some room.
    margin = _MARGIN if max(times) > _MARGIN * min(times) else 2.0
    return min(times) / margin, max(times) * margin


def is_left_of_point(row: Row, domain: tuple[float, float]) -> bool:
    """Return whether the label of a mode, right of its point, would leave the chart."""
    return bool(row["compile_s"] * _label_width(domain) > domain[1])


def _label_width(domain: tuple[float, float]) -> float:
    """Return by which factor of compile time a label is as wide as it may be."""
    return float((domain[1] / domain[0]) ** _LABEL_SHARE)


def _reach(row: Row, domain: tuple[float, float]) -> tuple[float, float]:
    """Return from which compile time to which the label of a mode may reach."""
    time, width = row["compile_s"], _label_width(domain)
    return (time / width, time) if is_left_of_point(row, domain) else (time, time * width)


def label_places(rows: Sequence[Row]) -> list[float]:
    """Return at which speedup the label of each row hangs: its own, or as much lower as is free.

    What is in the way are labels, and the points and intervals of other modes.
    """
    domain = _domain(rows)
    ends = [row[name] for row in rows for name in ("low", "high")] + [1.0]
    line = _LINE * (max(ends) - min(ends))
    boxes = [_Box(row["compile_s"], row["compile_s"], row["low"], row["high"]) for row in rows]
    places: dict[int, float] = {}
    for number in sorted(range(len(rows)), key=lambda number: -rows[number]["speedup"]):
        others = [box for other, box in enumerate(boxes) if other != number]
        reach = _reach(rows[number], domain)
        place = rows[number]["speedup"]
        for _ in range(_MAX_MOVES):
            middle = place - _BELOW * line
            label = _Box(*reach, middle - _HALF * line, middle + _HALF * line)
            if not any(label.meets(box) for box in others):
                break
            place -= line / 2
        boxes.append(label)
        places[number] = place
    return [places[number] for number in range(len(rows))]

"""The trend of one mode as an SVG drawing in the colours of its page.

A band is the interval and a diamond a change of the cohort. A dashed line is an annotation or a new
environment, and a triangle an alert.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from html import escape

from compile_hud.db.records.results import Verdict
from compile_hud.runner.analysis.trends.answers import change_text, cohort_change_text
from compile_hud.runner.analysis.trends.records import (
    MarkKind,
    ModePoint,
    ModeTrend,
    TrendMark,
)
from compile_hud.runner.format import quantity

# Pixels: the drawing, and the plot in it.
_WIDTH, _HEIGHT = 320, 130
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 308, 12, 104
# A smaller change must not fill the plot.
_LEAST_RATIO = 1.04
_LINES = (MarkKind.ANNOTATION, MarkKind.ENVIRONMENT, MarkKind.MODEL_CODE)
_TimeScale = Callable[[datetime], float]
_ValueScale = Callable[[float], float]


def trend_svg(trend: ModeTrend, *, marks: Sequence[TrendMark]) -> str:
    """Return the drawing of `trend` with the `marks` that concern it."""
    points = trend.points
    low, high = _range(trend)
    y_of = _value_scale(low, high)
    x_of = _time_scale(points[0].run.at, points[-1].run.at)
    words = f"{trend.label} {trend.mode}".strip()
    label = f"{words}: {quantity(points[-1].value, unit=trend.unit)}, {change_text(trend)}"
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img"'
        f' aria-label="{escape(label)}">',
        *_axes(trend, (low, high), y_of),
        *_lines(marks, x_of, (points[0].run.at, points[-1].run.at)),
        *_curves(points, x_of, y_of),
        *(_dot(point, trend, x_of, y_of) for point in points),
        *_alerts(marks, trend, x_of),
        "</svg>",
    ]
    return "".join(parts)


def _range(trend: ModeTrend) -> tuple[float, float]:
    """Return the values at the bottom and the top; a share ends at 100 %."""
    lows, highs = ([getattr(point, name) for point in trend.points] for name in ("low", "high"))
    low, high = min(lows), max(highs)
    if trend.unit == "share":
        return min(low, 0.8), 1.0
    middle = math.sqrt(low * high)
    half = math.sqrt(max(high / low, _LEAST_RATIO))
    return middle / half, middle * half


def _value_scale(low: float, high: float) -> _ValueScale:
    span = (high - low) or 1.0
    return lambda value: _BOTTOM - (value - low) / span * (_BOTTOM - _TOP)


def _time_scale(first: datetime, last: datetime) -> _TimeScale:
    span = (last - first).total_seconds() or 1.0
    return lambda at: _LEFT + (at - first).total_seconds() / span * (_RIGHT - _LEFT)


def _axes(trend: ModeTrend, bounds: tuple[float, float], y_of: _ValueScale) -> Iterator[str]:
    for value in bounds:
        y = y_of(value)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
        text = escape(quantity(value, unit=trend.unit))
        yield f'<text class="axis" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    first, last = trend.points[0].run.at, trend.points[-1].run.at
    for at, x, anchor in ((first, _LEFT, "start"), (last, _RIGHT, "end")):
        yield (
            f'<text class="axis" x="{x}" y="{_BOTTOM + 18}" text-anchor="{anchor}">'
            f"{at:%Y-%m-%d}</text>"
        )


def _lines(
    marks: Sequence[TrendMark], x_of: _TimeScale, ends: tuple[datetime, datetime]
) -> Iterator[str]:
    for mark in marks:
        if mark.kind in _LINES and ends[0] <= mark.at <= ends[1]:
            text = escape(f"{mark.at:%Y-%m-%d}: {mark.text}")
            yield (
                f'<path class="event" d="M{x_of(mark.at):.1f} {_TOP}V{_BOTTOM}">'
                f"<title>{text}</title></path>"
            )


def _curves(points: Sequence[ModePoint], x_of: _TimeScale, y_of: _ValueScale) -> Iterator[str]:
    """Yield the band and the line of each segment."""
    for segment in sorted({point.segment for point in points}):
        own = [point for point in points if point.segment == segment]
        xs = [x_of(point.run.at) for point in own]
        highs = [f"{x:.1f} {y_of(point.high):.1f}" for x, point in zip(xs, own, strict=True)]
        lows = [f"{x:.1f} {y_of(point.low):.1f}" for x, point in zip(xs, own, strict=True)]
        line = [f"{x:.1f} {y_of(point.value):.1f}" for x, point in zip(xs, own, strict=True)]
        yield f'<path class="band" d="M{"L".join([*highs, *reversed(lows)])}Z"/>'
        yield f'<path class="line" d="M{"L".join(line)}"/>'


def _dot(point: ModePoint, trend: ModeTrend, x_of: _TimeScale, y_of: _ValueScale) -> str:
    x, y = x_of(point.run.at), y_of(point.value)
    texts = [
        f"{point.run.at:%Y-%m-%d %H:%M} UTC: {quantity(point.value, unit=trend.unit)}",
        f"{point.num_counted} of {point.num_subjects}",
        cohort_change_text(point),
        point.run.revision,
    ]
    title = escape("\n".join(text for text in texts if text))
    if point.cohort_changed:
        shape = f'<path class="dot" d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5Z">'
        return f"{shape}<title>{title}</title></path>"
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="1.8"><title>{title}</title></circle>'


def _alerts(marks: Sequence[TrendMark], trend: ModeTrend, x_of: _TimeScale) -> Iterator[str]:
    first, last = trend.points[0].run.at, trend.points[-1].run.at
    for mark in marks:
        if not mark.belongs_to(trend) or not first <= mark.at <= last:
            continue
        x = x_of(mark.at)
        is_better = mark.verdict == Verdict.IMPROVEMENT
        shape = (
            f"M{x - 4:.1f} {_BOTTOM - 8}h8l-4 7Z"
            if is_better
            else (f"M{x - 4:.1f} {_BOTTOM - 1}h8l-4 -7Z")
        )
        style = "good" if is_better else "bad"
        yield f'<path class="{style}" d="{shape}"><title>{escape(mark.text)}</title></path>'

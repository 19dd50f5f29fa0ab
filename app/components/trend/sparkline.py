"""A small line of values over time with its first and last date, its least and its largest value.

It is HTML without a script: the line is a picture that masks a box in the colour of the text, so it
fits every theme. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote

from compile_hud.app.ui.html import escaped

# The units of the picture; the page stretches it.
_WIDTH, _HEIGHT = 300, 60
# Room for the width of the line at the top and at the bottom.
_MARGIN = 3
# A smaller change must not fill the height: it is within the noise of most nights.
_LEAST_RATIO = 1.04
_BAND_OPACITY = 0.22
_SAFE = " /:=,.()-"


@dataclass(frozen=True, slots=True)
class SparkPoint:
    """A value with its interval; `at` is a share of the time, only equal segments are linked."""

    at: float
    value: float
    low: float
    high: float
    segment: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """Points, oldest first, and the texts of the ends of both axes; `label` says it in words."""

    points: tuple[SparkPoint, ...]
    first: str
    last: str
    least: str
    most: str
    label: str


def sparkline_html(line: Sparkline) -> str:
    """Return the line with its axes."""
    low, high = _domain([point.value for point in line.points])
    points = [_placed(point, low=low, high=high) for point in line.points]
    shapes = "".join(
        _shape(list(own)) for _, own in groupby(points, key=lambda point: point.segment)
    )
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' preserveAspectRatio="none">{shapes}</svg>'
    )
    mask = f"url('data:image/svg+xml,{quote(picture, safe=_SAFE)}')"
    last = points[-1]
    dot = f"left:{100 * last.at / _WIDTH:.1f}%;top:{100 * last.value / _HEIGHT:.1f}%"
    texts = (("most", line.most), ("least", line.least), ("first", line.first), ("last", line.last))
    ends = "".join(f'<div class="{name}">{escaped(text)}</div>' for name, text in texts)
    return (
        f'<div class="hud-spark" role="img" aria-label="{escaped(line.label)}">'
        f'<div class="plot"><div class="line" style="mask-image:{mask};-webkit-mask-image:{mask}">'
        f'</div><i style="{dot}"></i></div>{ends}</div>'
    )


def _domain(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    middle = (low + high) / 2
    half = max((high - low) / 2, abs(middle) * (_LEAST_RATIO - 1) / 2) or 1.0
    return middle - half, middle + half


def _placed(point: SparkPoint, *, low: float, high: float) -> SparkPoint:
    """Return the point in units of the picture, in which y grows downwards."""

    def height(value: float) -> float:
        share = (value - low) / (high - low) if math.isfinite(value) else 0.0
        return _MARGIN + (_HEIGHT - 2 * _MARGIN) * (1 - min(max(share, -0.1), 1.1))

    return SparkPoint(
        at=_MARGIN + (_WIDTH - 2 * _MARGIN) * point.at,
        value=height(point.value),
        low=height(point.low),
        high=height(point.high),
        segment=point.segment,
    )


def _shape(points: Sequence[SparkPoint]) -> str:
    """Return the band and the line of one segment; of a single point a short dash."""
    line = _path((point.at, point.value) for point in points)
    if len(points) == 1:
        return f'<path d="{line}h4" {_STROKE}/>'
    band = ""
    if any(point.low != point.high for point in points):
        upper = [(point.at, point.high) for point in points]
        lower = [(point.at, point.low) for point in reversed(points)]
        band = f'<path d="{_path([*upper, *lower])}z" fill-opacity="{_BAND_OPACITY}"/>'
    return f'{band}<path d="{line}" {_STROKE}/>'


# A stretched picture would stretch its strokes too.
_STROKE = (
    'fill="none" stroke="#000" stroke-width="1.6" stroke-linejoin="round"'
    ' vector-effect="non-scaling-stroke"'
)


def _path(places: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)

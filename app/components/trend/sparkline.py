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

from markupsafe import Markup

from compile_hud.app.ui.templates.environment import render

# The units of the picture; the page stretches it.
_WIDTH, _HEIGHT = 300, 60
# Room for the width of the line at the top and at the bottom.
_MARGIN = 3
# A smaller change must not fill the height: it is within the noise of most nights.
_LEAST_RATIO = 1.04
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


def sparkline_html(line: Sparkline) -> Markup:
    """Return the line with its axes."""
    low, high = _domain([point.value for point in line.points])
    points = [_placed(point, low=low, high=high) for point in line.points]
    segments = [_paths(list(own)) for _, own in groupby(points, key=lambda point: point.segment)]
    picture = render("bars.html", "spark_picture", width=_WIDTH, height=_HEIGHT, segments=segments)
    last = points[-1]
    return render(
        "bars.html",
        "sparkline",
        line=line,
        picture=quote(picture, safe=_SAFE),
        left=f"{100 * last.at / _WIDTH:.1f}%",
        top=f"{100 * last.value / _HEIGHT:.1f}%",
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


def _paths(points: Sequence[SparkPoint]) -> tuple[str, str]:
    """Return the band and the line of one segment; of a single point no band and a short dash."""
    line = _path((point.at, point.value) for point in points)
    if len(points) == 1:
        return "", f"{line}h4"
    if all(point.low == point.high for point in points):
        return "", line
    upper = [(point.at, point.high) for point in points]
    lower = [(point.at, point.low) for point in reversed(points)]
    return f"{_path([*upper, *lower])}z", line


def _path(places: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)

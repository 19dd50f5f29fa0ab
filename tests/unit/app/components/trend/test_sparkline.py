"""The small line of a card."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest

from compile_hud.app.components.trend.sparkline import Sparkline, SparkPoint, sparkline_html


def line_of(*values: float, segments: tuple[int, ...] = (), label: str = "speedup") -> Sparkline:
    """Return a line of values at equal distances, with intervals of 1 %."""
    numbers = segments or (0,) * len(values)
    last = max(len(values) - 1, 1)
    return Sparkline(
        points=tuple(
            SparkPoint(index / last, value, 0.99 * value, 1.01 * value, segment)
            for index, (value, segment) in enumerate(zip(values, numbers, strict=True))
        ),
        first="Sep 3",
        last="Nov 7",
        least="1.20x",
        most="1.70x",
        label=label,
    )


def paths_of(line: Sparkline) -> list[str]:
    """Return the outlines in the picture."""
    (picture,) = set(re.findall(r"url\('data:image/svg\+xml,([^']*)'\)", sparkline_html(line)))
    return re.findall(r'<path d="([^"]*)"', unquote(picture))


def test_a_line_has_a_band_and_both_ends_of_both_axes() -> None:
    band, path = paths_of(line_of(1.2, 1.4, 1.7))
    assert (band[-1], path.count("L")) == ("z", 2)
    html = sparkline_html(line_of(1.2, 1.7))
    assert all(f">{text}<" in html for text in ("Sep 3", "Nov 7", "1.20x", "1.70x"))
    assert 'role="img" aria-label="speedup"' in html


def test_larger_is_higher_and_later_is_to_the_right() -> None:
    path = paths_of(line_of(1.0, 2.0))[-1]
    (x0, y0), (x1, y1) = (map(float, part.split()) for part in path[1:].split("L"))
    assert x0 < x1
    assert y0 > y1


def test_values_of_two_segments_are_not_linked() -> None:
    paths = paths_of(line_of(1.0, 1.1, 3.0, 3.1, segments=(1, 1, 0, 0)))
    assert [path.count("M") for path in paths] == [1, 1, 1, 1]


def test_a_segment_of_one_point_is_a_dash() -> None:
    assert paths_of(line_of(1.5))[-1].endswith("h4")


@pytest.mark.parametrize("values", [(2.0, 2.0), (2.0, 2.001)])
def test_a_small_change_stays_small(values: tuple[float, float]) -> None:
    path = paths_of(line_of(*values))[-1]
    heights = [float(part.split()[1]) for part in path[1:].split("L")]
    assert abs(heights[0] - heights[1]) < 3


def test_a_label_is_text() -> None:
    assert "<b>" not in sparkline_html(line_of(1.0, 2.0, label='"><b>'))

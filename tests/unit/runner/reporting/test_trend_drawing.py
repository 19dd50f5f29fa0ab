"""The drawing of one trend."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.runner.analysis.trends.records import PASS_RATE, MarkKind, TrendMark
from compile_hud.runner.reporting.trend_drawing import trend_svg
from tests.support.builders import make_case
from tests.support.records.mode_trends import history_run, point, trend

ALERT = TrendMark(
    kind=MarkKind.ALERT,
    at=history_run(1).at,
    text="slower",
    case=make_case("vit", mode="default"),
    metric="speedup",
    verdict="regression",
)


def dots_of(svg: str) -> list[tuple[float, float]]:
    """Return the positions of the circles."""
    matches = re.findall(r'cx="([-\d.]+)" cy="([-\d.]+)"', svg)
    return [(float(x), float(y)) for x, y in matches]


@given(st.lists(st.floats(0.01, 1e12), min_size=1, max_size=30))
def test_every_point_lies_in_the_plot(values: list[float]) -> None:
    dots = dots_of(trend_svg(trend("default", values), marks=()))
    assert len(dots) == len(values)
    assert all(62 <= x <= 308 and 12 <= y <= 104 for x, y in dots)


def test_larger_values_are_higher() -> None:
    (_, first), (_, second) = dots_of(trend_svg(trend("default", [1.0, 2.0]), marks=()))
    assert second < first


def test_small_changes_stay_in_the_middle() -> None:
    own = trend("default", [2.0, 2.002])
    exact = replace(own, points=(point(0, 2.0, width=0.0), point(1, 2.002, width=0.0)))
    assert all(50 < y < 66 for _, y in dots_of(trend_svg(exact, marks=())))


def test_share_ends_at_100_percent() -> None:
    svg = trend_svg(trend("default", [1.0, 1.0], metric=PASS_RATE), marks=())
    assert re.findall(r'text-anchor="end">([^<]+ %)<', svg) == ["80.0 %", "100 %"]


def test_zero_share_has_a_drawing() -> None:
    svg = trend_svg(trend("default", [0.0, 0.5], metric=PASS_RATE), marks=())
    assert dots_of(svg)[0][1] == pytest.approx(104)


def test_change_of_the_cohort_is_a_diamond_that_names_it() -> None:
    own = trend("default", [2.0, 2.0])
    changed = replace(own, points=(own.points[0], point(1, 2.0, left=("<vit>",))))
    svg = trend_svg(changed, marks=())
    assert svg.count('<path class="dot"') == 1
    assert "&lt;vit&gt; left" in svg


def test_segments_are_not_joined() -> None:
    own = trend("default", [2.0, 2.0, 3.0, 3.0])
    points = tuple(replace(item, segment=int(index < 2)) for index, item in enumerate(own.points))
    assert trend_svg(replace(own, points=points), marks=()).count('class="line"') == 2


@pytest.mark.parametrize(
    ("changes", "num"),
    [
        ({}, 1),
        ({"metric": "compile_cold_s"}, 0),
        ({"case": make_case("vit", mode="max-autotune")}, 0),
        ({"at": history_run(9).at}, 0),
    ],
)
def test_alert_of_this_mode_metric_and_time_is_a_triangle(
    changes: dict[str, object], num: int
) -> None:
    mark = replace(ALERT, **changes)  # type: ignore[arg-type]
    assert trend_svg(trend("default", [2.0, 2.0]), marks=[mark]).count('class="bad"') == num


def test_improvements_point_down() -> None:
    mark = replace(ALERT, verdict="improvement")
    assert 'class="good"' in trend_svg(trend("default", [2.0, 2.0]), marks=[mark])


def test_annotations_and_environments_are_lines() -> None:
    kinds = (MarkKind.ANNOTATION, MarkKind.ENVIRONMENT, MarkKind.MODEL_CODE, MarkKind.REVISION)
    marks = [TrendMark(kind=kind, at=history_run(1).at, text="a & b") for kind in kinds]
    svg = trend_svg(trend("default", [2.0, 2.0]), marks=marks)
    assert svg.count('class="event"') == 3
    assert "a &amp; b" in svg

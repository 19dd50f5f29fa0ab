"""The drawn legend of a trend."""

from __future__ import annotations

import dataclasses

import pytest

from compile_hud.app.components.trend.chart import Trend
from compile_hud.app.components.trend.legend import samples_legend, trend_legend
from compile_hud.app.ui.theme import SIGNS
from compile_hud.db.records.summaries import Sample

POINT = {
    "low": 7.1,
    "high": 7.4,
    "num_samples": 12,
    "verdict": "unchanged",
    "is_new_revision": False,
}
TREND = Trend(title="latency (ms)", points=[POINT])
MARKS = {
    "shaded": {"verdict": "regression", "after": "2026-02-03T02:00:00Z"},
    "upright": {"verdict": "improvement"},
    "drift": {"verdict": "regression", "until": "2026-02-09T02:00:00Z"},
    "drift of another part": {
        "verdict": "regression",
        "until": "2026-02-09T02:00:00Z",
        "is_elsewhere": True,
    },
    "annotation": {"verdict": ""},
}


def signs_of(trend: Trend) -> list[str]:
    """Return the signs of the legend of `trend`."""
    return [item.sign for item in trend_legend(trend)]


def test_a_plain_trend_has_its_points_and_no_other_sign() -> None:
    assert signs_of(TREND) == ["point-bar"]


def test_a_trend_without_a_point_has_no_sign_of_points() -> None:
    assert signs_of(dataclasses.replace(TREND, points=[])) == []


@pytest.mark.parametrize(("num_samples", "text"), [(1, "no interval"), (30, "equal samples")])
def test_points_without_an_interval_have_no_bar(num_samples: int, text: str) -> None:
    point = {**POINT, "low": 3.0, "high": 3.0, "num_samples": num_samples}
    (item,) = trend_legend(dataclasses.replace(TREND, points=[point]))
    assert item.sign == "point"
    assert text in item.text


def test_every_kind_of_row_adds_its_sign() -> None:
    points = [
        {**POINT, "level": 7.0, "is_new_revision": True},
        {**POINT, "verdict": "regression"},
        {**POINT, "verdict": "improvement"},
        {**POINT, "verdict": "inconclusive"},
    ]
    trend = Trend(title="t", points=points, bands=[{}], failures=[{}], samples=[{}])
    assert signs_of(trend) == [
        *("point-bar", "hollow", "samples", "noise"),
        *("up", "down", "diamond"),
        *("cross", "tick"),
    ]


@pytest.mark.parametrize(
    ("mark", "signs"),
    [
        ("shaded", ["span-bad"]),
        ("upright", ["line-good"]),
        ("drift", ["line-bad", "slope-bad"]),
        ("drift of another part", ["slope-bad"]),
        ("annotation", ["dashed"]),
    ],
)
def test_a_mark_adds_the_signs_that_are_drawn(mark: str, signs: list[str]) -> None:
    assert signs_of(dataclasses.replace(TREND, marks=[MARKS[mark]]))[1:] == signs


def test_equal_marks_share_a_sign() -> None:
    marks = [MARKS["annotation"], MARKS["annotation"], MARKS["shaded"], MARKS["shaded"]]
    assert signs_of(dataclasses.replace(TREND, marks=marks))[1:] == ["span-bad", "dashed"]


@pytest.mark.parametrize(
    ("is_warmup", "high", "signs"),
    [
        (False, 2.5, ["point", "band"]),
        (True, 2.5, ["point", "cross-open", "band"]),
        (False, 2.0, ["point", "line"]),
    ],
)
def test_a_chart_of_samples_has_the_signs_of_its_samples(
    is_warmup: bool, high: float, signs: list[str]
) -> None:
    samples = [Sample(launch=0, value=2.0, is_warmup=is_warmup)]
    items = samples_legend(samples, low=2.0, high=high)
    assert [item.sign for item in items] == signs
    assert set(signs) <= set(SIGNS)

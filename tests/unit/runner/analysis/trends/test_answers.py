"""The trends in words."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.analysis.trends.answers import (
    change_interval_text,
    change_text,
    cohort_change_text,
    headline,
    range_text,
)
from compile_hud.runner.analysis.trends.records import PASS_RATE
from tests.support.records.mode_trends import point, trend, trends_of


def test_headline_is_the_fastest_mode_with_its_change(words: SnapshotAssertion) -> None:
    trends = trends_of(trend("default", [1.5, 1.8]), trend("max-autotune", [2.0, 1.9]))
    assert headline(trends) == words


@pytest.mark.parametrize("of", [{"metric": "peak_bytes"}, {"by": "model", "group": "bert"}])
def test_headline_without_a_speedup_of_all_models_is_the_range(of: dict[str, str]) -> None:
    assert headline(trends_of(trend("default", [1.0, 1.0], **of))) == "Trends over 24 hours"


def test_range_of_many_days_is_in_days() -> None:
    assert range_text(trends_of(trend("default", [1.0] * 90))) == "89 days"


def test_change_is_in_percent_with_its_interval() -> None:
    changed = trend("default", [2.0, 1.5])
    assert change_text(changed) == "-25.0 %"
    assert change_interval_text(changed) == "[-26.1, -23.9]"


def test_change_of_a_pass_rate_is_in_points() -> None:
    changed = trend("default", [1.0, 0.875], metric=PASS_RATE)
    assert (change_text(changed), change_interval_text(changed)) == ("-12.5 points", "")


def test_single_point_has_no_change() -> None:
    single = trend("default", [2.0])
    assert (change_text(single), change_interval_text(single)) == ("", "")


def test_exact_values_have_no_interval() -> None:
    exact = (point(0, 2.0, width=0.0), point(1, 3.0, width=0.0))
    single = trend("default", [2.0])
    changed = type(single)(metric="speedup", mode="default", points=exact)
    assert (change_text(changed), change_interval_text(changed)) == ("+50.0 %", "")


def test_long_changes_of_the_cohort_are_counted(words: SnapshotAssertion) -> None:
    changed = point(1, 2.0, joined=("t5",), left=("a", "b", "c", "d", "e"))
    assert cohort_change_text(changed) == words

"""The trends in words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
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
from compile_hud.runner.analysis.trends.trends import change_of
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


@pytest.mark.parametrize(("noise", "num_nights"), [(0.01, 12), (0.004, 40), (0.03, 90)])
def test_change_has_the_noise_of_nights_in_its_interval(noise: float, num_nights: int) -> None:
    rng = np.random.default_rng(num_nights)
    num_covered, widths = 0, []
    for _ in range(400):
        values = 1.7 * np.exp(rng.normal(0, noise, num_nights))
        # The launches of a run agree ten times as well as nights do.
        points = [point(at, value, width=noise / 10) for at, value in enumerate(values)]
        change = change_of(replace(trend("default", values), points=tuple(points)))
        assert change is not None
        num_covered += change.low <= 1 <= change.high
        widths.append(math.log(change.high / change.low))
    assert 0.93 <= num_covered / 400 <= 0.99
    # Two nights differ by 1.96 times the root of 2 on either side.
    assert 0.85 <= np.median(widths) / (2 * 1.96 * math.sqrt(2) * noise) <= 1.6


def test_a_step_does_not_widen_the_interval_of_its_own_change() -> None:
    rng = np.random.default_rng(7)
    values = 2.4 * np.exp(rng.normal(0, 0.003, 60))
    values[35:] *= 0.8
    change = change_of(trend("default", values))
    assert change is not None
    assert change.low < change.value < change.high < 0.83


def test_few_nights_and_repeated_states_do_not_show_the_noise() -> None:
    few = trend("default", [1.0, 1.3, 0.8, 1.2, 1.1, 0.9, 1.0, 1.2])
    change = change_of(few)
    assert change is not None
    assert change.high / change.low < 1.05
    # A run of another model repeats the state of this one.
    repeated = [point(number, 1.5, num_measured=0) for number in range(30)]
    measured = [point(30 + number, value) for number, value in enumerate((1.5, 1.6, 1.4))]
    change = change_of(replace(few, points=(*repeated, *measured)))
    assert change is not None
    assert change.high / change.low < 1.05

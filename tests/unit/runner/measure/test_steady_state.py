"""The steady state of a level, a later drop of it, and its precision."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from compile_hud.runner.analysis.stats.estimates import order_statistic_interval
from compile_hud.runner.measure.latency.steady_state import (
    begins_to_drop,
    is_steady,
    last_level_drop,
    relative_half_width,
)


@pytest.mark.parametrize(
    ("times", "settled"),
    [
        ([1.0] * 5, False),
        ([1.0] * 6, True),
        ([9.0, 9.0, 1.0, 1.0, 1.0, 1.04, 1.04, 1.04], True),
        ([1.0, 1.0, 1.0, 1.06, 1.06, 1.06], False),
        ([1.06, 1.06, 1.06, 1.0, 1.0, 1.0], False),
    ],
)
def test_settled_means_two_blocks_of_three_within_five_percent(
    times: Sequence[float], settled: bool
) -> None:
    assert is_steady(times) is settled


def test_one_slow_round_does_not_unsettle() -> None:
    assert is_steady([1.0, 7.0, 1.0, 1.0, 1.0, 9.0])


def noise(seed: int, *, n: int = 40, sd: float = 0.05) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(0.0, sd, n))


@pytest.mark.parametrize("at", [5, 24, 35])
@pytest.mark.parametrize("seed", range(5))
def test_a_cliff_is_detected_where_it_is(at: int, seed: int) -> None:
    times = noise(seed)
    times[:at] *= 1.5
    assert last_level_drop(times.tolist()) == at


def test_the_last_of_several_falls_counts() -> None:
    times = noise(0)
    times[:20] *= 2
    times[:10] *= 2
    assert last_level_drop(times.tolist()) == 20


def test_a_rise_is_no_warm_up() -> None:
    times = noise(0)
    times[20:] *= 2
    assert last_level_drop(times.tolist()) == 0


def test_a_fall_of_four_percent_is_left_alone() -> None:
    times = noise(0, sd=0.001)
    times[:20] *= 1.04
    assert last_level_drop(times.tolist()) == 0


def test_a_level_that_comes_and_goes_is_no_fall() -> None:
    times = noise(0) * np.tile([1.5] * 5 + [1.0] * 5, 4)
    assert last_level_drop(times.tolist()) == 0


def test_four_rounds_are_too_few_to_tell() -> None:
    assert last_level_drop([2.0] * 4 + [1.0] * 30) == 0
    assert last_level_drop([2.0] * 30 + [1.0] * 4) == 0


@pytest.mark.parametrize(
    ("times", "begins"),
    [
        ([1.0] * 5 + [0.9], True),
        ([1.0] * 20 + [0.9] * 4, True),
        ([1.0] * 20 + [0.9] * 5, False),
        ([1.0] * 4 + [0.9], False),
        ([1.0] * 20 + [0.96], False),
        ([1.0] * 10 + [0.9] + [1.0] * 10 + [0.9], False),
    ],
)
def test_a_fall_begins_with_times_below_all_before_them(
    times: Sequence[float], begins: bool
) -> None:
    assert begins_to_drop(times) is begins


@pytest.mark.parametrize("sd", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("n", [10, 40])
def test_plain_noise_hardly_ever_falls(sd: float, n: int) -> None:
    num_drops = sum(last_level_drop(noise(seed, n=n, sd=sd).tolist()) > 0 for seed in range(300))
    assert num_drops <= 3


@pytest.mark.parametrize("n", [6, 7, 12, 40, 41])
def test_the_interval_is_the_one_of_the_analysis(n: int) -> None:
    values = noise(n, n=n).tolist()
    low, high = order_statistic_interval(values)
    assert relative_half_width(values) == pytest.approx((high - low) / 2 / np.median(values))


def test_five_values_reach_no_interval() -> None:
    assert relative_half_width([1.0] * 5) == math.inf
    assert relative_half_width([]) == math.inf
    assert relative_half_width([0.0] * 10) == math.inf


def test_any_number_of_rounds_has_an_interval() -> None:
    assert relative_half_width([1.0] * 5000) == 0.0
    low, high = order_statistic_interval(range(1, 2001))
    assert relative_half_width(range(1, 2001)) == pytest.approx((high - low) / 2 / 1000.5)

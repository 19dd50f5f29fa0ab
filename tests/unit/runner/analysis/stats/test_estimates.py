from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.analysis.stats.estimates import (
    Estimate,
    Spread,
    estimate,
    launch_medians,
    order_statistic_interval,
    robust_sd,
    sliding_medians,
    student_quantile,
)
from tests.support.errors import value_error_of

POSITIVE = st.floats(min_value=1e-3, max_value=1e3)


def test_one_sample_is_its_own_estimate() -> None:
    assert estimate([2.5]) == Estimate(2.5, 2.5, 2.5)


def test_few_samples_span_from_smallest_to_largest() -> None:
    assert estimate([3.0, 1.0, 2.0]) == Estimate(2.0, 1.0, 3.0)


def test_order_statistic_ranks_are_those_of_the_binomial_table() -> None:
    # n = 20: ranks 6 and 15 cover the median with probability 0.959.
    assert order_statistic_interval(range(1, 21)) == (6.0, 15.0)
    assert order_statistic_interval(range(1, 41)) == (14.0, 27.0)


def test_order_statistic_interval_covers_the_median() -> None:
    generator = np.random.default_rng(0)
    draws = generator.exponential(size=(2000, 40))
    intervals = [order_statistic_interval(row) for row in draws]
    covered = np.mean([low <= np.log(2) <= high for low, high in intervals])
    assert 0.94 <= covered <= 0.98


def test_value_over_launches_is_the_median_of_launch_medians() -> None:
    samples = [1.0, 1.0, 9.0, 5.0, 5.0, 2.0, 2.0]
    assert launch_medians(samples, launches=(3, 2, 2)) == [1.0, 5.0, 2.0]
    assert estimate(samples, launches=(3, 2, 2)).value == 2.0


def test_interval_over_launches_covers_what_differs_between_them() -> None:
    samples = [1.0] * 40 + [1.1] * 40 + [0.9] * 40
    alone = estimate(samples)
    together = estimate(samples, launches=(40, 40, 40))
    assert together.low < 0.9
    assert together.high > 1.1
    assert together.high - together.low > alone.high - alone.low


def test_interval_over_launches_covers_the_true_level() -> None:
    generator = np.random.default_rng(1)
    levels = np.exp(0.05 * generator.standard_normal((1000, 3)))
    estimates = [estimate(np.repeat(row, 5), launches=(5, 5, 5)) for row in levels]
    assert 0.93 <= np.mean([item.low <= 1.0 <= item.high for item in estimates]) <= 0.97


def test_equal_launches_have_an_empty_interval() -> None:
    interval = estimate([3.0] * 6, launches=(2, 2, 2))
    assert (interval.low, interval.value, interval.high) == pytest.approx((3.0, 3.0, 3.0))


def test_launches_without_positive_samples_use_plain_differences() -> None:
    interval = estimate([0.0, 1.0], launches=(1, 1))
    assert interval.value == 0.5
    assert interval.low == pytest.approx(0.5 - student_quantile(0.975, degrees=1) * 0.5)


def test_interval_always_holds_the_value() -> None:
    medians = [1.0] * 11 + [30.0] * 10
    interval = estimate(medians, launches=(1,) * 21)
    assert interval.low <= interval.value <= interval.high
    assert interval.value == 1.0


def test_a_launch_without_samples_is_left_out() -> None:
    assert launch_medians([4.0, 6.0], launches=(0, 2)) == [5.0]


@pytest.mark.parametrize(
    ("samples", "launches"),
    [
        ([], ()),
        ([1.0, float("nan")], ()),
        ([1.0, 2.0], (1,)),
        ([1.0, 2.0], (3, -1)),
    ],
)
def test_bad_samples_are_refused(
    samples: list[float], launches: tuple[int, ...], words: SnapshotAssertion
) -> None:
    assert str(value_error_of(estimate, samples, launches=launches)) == words


def test_robust_sd_ignores_one_wild_value() -> None:
    values = np.random.default_rng(2).standard_normal(1001)
    values[0] = 1e9
    assert robust_sd(values) == pytest.approx(1.0, abs=0.1)


def test_robust_sd_sees_a_second_mode() -> None:
    assert robust_sd([1.0] * 16 + [2.0] * 4) > 0.4


def test_robust_sd_of_few_values_is_their_median_deviation() -> None:
    assert robust_sd([1.0, 2.0, 3.0]) == pytest.approx(1.4826)


@given(st.lists(POSITIVE, min_size=1, max_size=30), st.floats(min_value=1e-3, max_value=1e3))
def test_estimates_scale_with_their_samples(samples: list[float], factor: float) -> None:
    plain, scaled = estimate(samples), estimate([factor * item for item in samples])
    assert scaled.value == pytest.approx(factor * plain.value)
    assert scaled.low == pytest.approx(factor * plain.low)
    assert scaled.high == pytest.approx(factor * plain.high)


@given(st.lists(POSITIVE, min_size=2, max_size=12), st.floats(min_value=1e-3, max_value=1e3))
def test_estimates_over_launches_scale_too(samples: list[float], factor: float) -> None:
    launches = (1,) * len(samples)
    plain = estimate(samples, launches=launches)
    scaled = estimate([factor * item for item in samples], launches=launches)
    assert scaled.value == pytest.approx(factor * plain.value)
    assert scaled.low == pytest.approx(factor * plain.low, rel=1e-6)
    assert scaled.high == pytest.approx(factor * plain.high, rel=1e-6)


@given(st.permutations([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]))
def test_order_of_samples_does_not_matter(samples: list[float]) -> None:
    assert estimate(samples) == estimate(sorted(samples))


def test_two_launches_are_judged_by_what_is_known_of_others() -> None:
    samples, launches = (1.0, 1.1), (1, 1)
    alone = estimate(samples, launches=launches)
    assert alone.high / alone.low > 2
    pooled = estimate(samples, launches=launches, prior=Spread(sd=0.05, degrees=8.0))
    assert 1.1 < pooled.high / pooled.low < 1.3
    assert pooled.low < 1.0
    assert pooled.high > 1.1
    assert pooled.value == alone.value


def test_a_prior_counts_as_so_many_launches_more() -> None:
    # Degrees 8 + 1, squares 8 * 0.05^2 + 2 * (ln(1.1) / 2)^2; Student's 97.5 % at 9: 2.262157.
    pooled = estimate((1.0, 1.1), launches=(1, 1), prior=Spread(sd=0.05, degrees=8.0))
    squares = 8 * 0.05**2 + math.log(1.1) ** 2 / 2
    margin = 2.262157 * math.sqrt(squares / 9 / 2)
    assert pooled.high == pytest.approx(math.sqrt(1.1) * math.exp(margin), rel=1e-6)


def test_what_repeats_exactly_has_no_spread_whatever_others_have() -> None:
    interval = estimate((2.0, 2.0), launches=(1, 1), prior=Spread(sd=0.05, degrees=8.0))
    assert (interval.low, interval.high) == (2.0, 2.0)


def test_a_prior_is_for_numbers_above_zero() -> None:
    samples, launches = (0.0, 1.0), (1, 1)
    prior = Spread(sd=0.05, degrees=8.0)
    assert estimate(samples, launches=launches, prior=prior) == estimate(samples, launches=launches)


@pytest.mark.parametrize("size", [1, 2, 4, 15, 16])
def test_sliding_medians_are_those_of_each_window(size: int) -> None:
    values = np.random.default_rng(1).standard_normal(40)
    expected = [np.median(values[start : start + size]) for start in range(41 - size)]
    assert sliding_medians(values, size).tolist() == expected

"""A change on the log scale: interval, p-value and test of equivalence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from compile_hud.runner.analysis.comparison.log_change import (
    LogChange,
    bounded_ratio,
    satterthwaite,
)

CHANGES = st.builds(
    LogChange, log=st.floats(-0.5, 0.5), error=st.floats(1e-4, 0.5), degrees=st.floats(1, 100)
)


@given(CHANGES, st.floats(0.001, 0.5))
def test_the_interval_leaves_out_1_where_the_p_value_is_below_its_error(
    change: LogChange, error_rate: float
) -> None:
    low, high = change.interval(error_rate)
    if not math.isclose(change.p_value, error_rate, rel_tol=1e-6):
        assert (low <= 1 <= high) == (change.p_value > error_rate)


@given(CHANGES, st.floats(0.01, 0.5))
def test_equivalence_is_the_90_percent_interval_within_the_floor(
    change: LogChange, floor: float
) -> None:
    p_value = change.equivalence_p_value(floor)
    low, high = change.interval(0.1)
    if not math.isclose(p_value, 0.05, rel_tol=1e-6):
        assert (p_value < 0.05) == (1 / (1 + floor) < low and high < 1 + floor)


@given(CHANGES)
def test_swapped_sides_have_the_same_p_values_and_the_inverse_interval(change: LogChange) -> None:
    swapped = LogChange(log=-change.log, error=change.error, degrees=change.degrees)
    assert swapped.p_value == change.p_value
    assert swapped.equivalence_p_value(0.05) == change.equivalence_p_value(0.05)
    low, high = change.interval()
    assert swapped.interval() == pytest.approx((1 / high, 1 / low))


@given(CHANGES, st.floats(0.1, 10))
def test_an_interval_covers_a_second_estimate(change: LogChange, ratio: float) -> None:
    wider = change.covering(ratio)
    low, high = wider.interval()
    assert low <= ratio * (1 + 1e-9)
    assert ratio <= high * (1 + 1e-9)
    assert low <= change.ratio * (1 + 1e-9)
    assert change.ratio <= high * (1 + 1e-9)
    assert wider.error >= change.error
    first, last = change.interval()
    if first < ratio < last:
        assert wider == change
    elif not math.isclose(ratio, first) and not math.isclose(ratio, last):
        assert wider.ratio == pytest.approx(ratio)


@pytest.mark.parametrize("ratio", [0.0, math.inf])
def test_a_ratio_beyond_all_numbers_has_an_interval(ratio: float) -> None:
    change = LogChange(log=0.0, error=0.01, degrees=3).covering(bounded_ratio(ratio))
    low, high = change.interval()
    assert 0 < low <= 1 + 1e-9
    assert 1 - 1e-9 <= high < math.inf


def test_a_change_of_the_resolution_ends_its_interval_at_1() -> None:
    change = LogChange(log=0.0, error=0.02, degrees=10)
    moved = LogChange(log=math.log1p(change.resolution()), error=0.02, degrees=10)
    assert moved.interval()[0] == pytest.approx(1.0)


def test_known_errors_have_the_normal_distribution() -> None:
    low, high = LogChange(log=0.0, error=0.01, degrees=math.inf).interval()
    assert math.log(high / low) == pytest.approx(2 * 1.959964 * 0.01)


@pytest.mark.parametrize(("log", "p_value", "unchanged"), [(0.0, 1.0, 0.0), (0.2, 0.0, 1.0)])
def test_without_an_error_a_change_is_certain(log: float, p_value: float, unchanged: float) -> None:
    change = LogChange(log=log, error=0.0, degrees=5)
    assert (change.p_value, change.equivalence_p_value(0.05)) == (p_value, unchanged)


def test_degrees_of_a_sum_of_variances_are_those_of_its_scatter() -> None:
    generator = np.random.default_rng(0)
    parts = ((2.0, 5.0), (1.0, 20.0))
    sums = sum(
        variance * generator.chisquare(degrees, 100_000) / degrees for variance, degrees in parts
    )
    assert satterthwaite(parts) == pytest.approx(2 * np.mean(sums) ** 2 / np.var(sums), rel=0.05)
    assert satterthwaite([(1.0, math.inf), (0.0, 1.0)]) == math.inf


def test_p_values_are_students() -> None:
    change = LogChange(log=0.05, error=0.02, degrees=7)
    assert change.p_value == pytest.approx(2 * student.sf(2.5, 7))

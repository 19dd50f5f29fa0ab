from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_hud.runner.analysis.detection.absolute_steps import (
    find_absolute_steps,
    has_absolute_levels,
)
from tests.support.examples import examples

FLOOR = 0.05


def levels(*parts: tuple[int, float], noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """Return a history of `(number of points, level)` pairs with Gaussian noise."""
    flat = np.concatenate([np.full(num_points, level) for num_points, level in parts])
    return np.asarray(flat + noise * np.random.default_rng(seed).standard_normal(flat.size))


def bounds(values: np.ndarray) -> list[tuple[int, int, int]]:
    return [(step.start, step.index, step.end) for step in find_absolute_steps(values, floor=FLOOR)]


@pytest.mark.parametrize(
    ("before", "after", "noise"),
    [(0.0, 3.0, 0.0), (3.0, 0.0, 0.0), (0.0, 4096.0, 0.0), (-5.0, -2.0, 0.1), (-2.0, -5.0, 0.1)],
)
def test_step_is_reported_on_its_third_night_with_both_levels(
    before: float, after: float, noise: float
) -> None:
    values = levels((20, before), (3, after), noise=noise)
    assert bounds(values[:-1]) == []
    (step,) = find_absolute_steps(values, floor=FLOOR)
    assert (step.start, step.index, step.end) == (0, 20, 23)
    assert step.before == pytest.approx(before, abs=2 * noise)
    assert step.after == pytest.approx(after, abs=2 * noise)
    assert step.low <= step.after - step.before <= step.high


def test_step_in_noise_around_zero_is_reported() -> None:
    (step,) = find_absolute_steps(levels((40, 0.0), (20, 5.0), noise=1.0), floor=FLOOR)
    assert step.index == 40
    assert step.noise == pytest.approx(1.0, rel=0.4)
    assert step.low < 5.0 < step.high


@pytest.mark.parametrize("value", [1.0, 1e6, -1e6])
def test_bad_nights_are_no_step_and_hide_none(value: float) -> None:
    blip = levels((10, 0.0), (2, value), (12, 0.0))
    assert bounds(blip) == []
    assert bounds(np.concatenate([blip, np.full(10, 3.0)])) == [(0, 24, 34)]


@pytest.mark.parametrize("gap", [3, 4, 5, 6, 8, 12])
def test_next_step_may_follow_soon(gap: int) -> None:
    values = levels((20, 0.0), (gap, 3.0), (20, 6.0))
    assert bounds(values) == [(0, 20, 20 + gap), (20, 20 + gap, values.size)]


@pytest.mark.parametrize("gap", [3, 5, 8, 12])
def test_way_back_within_two_weeks_is_a_return(gap: int) -> None:
    steps = find_absolute_steps(levels((20, 3.0), (gap, 0.0), (20, 3.0)), floor=FLOOR)
    assert [(step.index, step.is_return) for step in steps] == [(20, False), (20 + gap, True)]


def test_way_back_after_a_month_is_a_step() -> None:
    steps = find_absolute_steps(levels((20, 3.0), (30, 0.0), (20, 3.0)), floor=FLOOR)
    assert [(step.index, step.is_return) for step in steps] == [(20, False), (50, False)]


def test_each_level_has_its_own_noise() -> None:
    noisy = 1000 + 50 * np.random.default_rng(1).standard_normal(60)
    (step,) = find_absolute_steps(np.concatenate([np.zeros(20), noisy]), floor=FLOOR)
    assert step.index == 20


@settings(max_examples=examples(30), deadline=None)
@given(
    unit=st.floats(min_value=1e-6, max_value=1e6),
    seed=st.integers(min_value=0, max_value=1000),
)
def test_steps_depend_on_no_unit(unit: float, seed: int) -> None:
    values = levels((20, -4.0), (20, 3.0), noise=0.5, seed=seed)
    assert bounds(unit * values) == bounds(values)


def test_few_series_without_a_change_have_a_step() -> None:
    num_false = 0
    for seed in range(60):
        generator = np.random.default_rng([3, seed])
        for values in (
            generator.standard_normal(90),
            -5 + 0.1 * generator.standard_normal(90),
            generator.poisson(0.3, 90).astype(float),
        ):
            num_false += len(bounds(values))
    # 180 series of 90 nights are 44 years: 0.2 a year at most.
    assert num_false <= 8


@pytest.mark.parametrize(
    ("values", "has_levels"),
    [
        ([1.0, 0.0, 0.0, 1.0, 0.0, 1.0], False),
        ([1.0, 0.0, 0.0, 0.0, 1.0, 1.0], True),
        ([1.0] * 19 + [-1.0], False),
        ([1.0, -1.0] * 5, True),
        ([], False),
    ],
)
def test_single_zeros_are_no_level(values: list[float], has_levels: bool) -> None:
    assert has_absolute_levels(np.array(values)) is has_levels

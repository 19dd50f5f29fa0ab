from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.analysis.modes import explanations

NOTHING = np.empty(0)
NIGHTS = st.lists(st.floats(min_value=-4, max_value=5), min_size=3, max_size=12)


def lead(ratios: list[float], *, earlier: list[float] | None = None) -> float:
    """Return by how much a step is likelier than a mode."""
    found = explanations(np.array(ratios), earlier=np.array(earlier or []), min_nights=3)
    return found.step - found.mode


def test_three_slow_nights_and_nothing_else_are_ten_times_likelier_a_step() -> None:
    assert lead([9.0] * 3) == pytest.approx(math.log(10), abs=0.01)


def test_each_further_slow_night_speaks_for_a_step() -> None:
    leads = [lead([5.0] * num_nights) for num_nights in range(3, 10)]
    assert leads == sorted(set(leads))


@pytest.mark.parametrize("night", range(1, 4))
def test_a_night_back_at_the_old_level_speaks_for_a_mode(night: int) -> None:
    ratios = [5.0] * 5
    ratios[night] = -4.0
    assert lead(ratios) < 2 < lead([5.0] * 4)


def test_slow_nights_of_last_week_speak_for_a_mode_that_is_here_again() -> None:
    week = [-4.0, -4.0, 5.0, -4.0, -4.0, 5.0, -4.0]
    assert lead([5.0] * 3, earlier=week) < 0 < lead([5.0] * 3, earlier=[-4.0] * 7)


def test_ordinary_nights_before_speak_for_neither() -> None:
    assert lead([5.0] * 3, earlier=[-4.0] * 20) == pytest.approx(lead([5.0] * 3))


def test_a_step_that_an_outlier_interrupted_is_a_step() -> None:
    """What lies far from both levels speaks for neither."""
    assert lead([5.0] * 8, earlier=[-4.0] * 20 + [5.0, 5.0, 0.0]) > 2


def test_a_mode_may_come_after_what_opened_the_excursion() -> None:
    slow_and_fast = [5.0, -4.0, 5.0, 5.0, 5.0]
    outlier = [5.0, *[-4.0] * 9]
    assert lead(slow_and_fast) < 1.9
    assert lead(outlier + slow_and_fast) == pytest.approx(lead(slow_and_fast))


@given(NIGHTS)
def test_a_mode_is_the_mean_of_all_shares_from_its_likeliest_night_on(ratios: list[float]) -> None:
    shares = np.linspace(0, 1, 2001)[:, None]
    means = []
    for first in range(len(ratios) - 2):
        products = (1 - shares + shares * np.exp(ratios[first:])).prod(axis=1)
        means.append(np.trapezoid(products * 2 * (1 - shares[:, 0]), shares[:, 0]))
    found = explanations(np.array(ratios), earlier=NOTHING, min_nights=3)
    assert found.mode == pytest.approx(math.log(max(means)), abs=0.02)


@given(NIGHTS)
def test_a_step_is_the_largest_sum_of_its_last_nights(ratios: list[float]) -> None:
    found = explanations(np.array(ratios), earlier=NOTHING, min_nights=3)
    sums = [sum(ratios[first:]) for first in range(len(ratios) - 2)]
    assert found.step == pytest.approx(max(sums))

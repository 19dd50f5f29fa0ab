from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.runner.analysis.detection.evidence import new_mode_log_ratio

NIGHTS = st.lists(st.floats(min_value=-4, max_value=5), min_size=3, max_size=12)
ORDINARY = [-4.0] * 40


def lead(ratios: list[float], *, earlier: list[float] | None = None) -> float:
    """Return by how much a step on all nights is likelier than a mode."""
    before = np.array([earlier or []])
    return sum(ratios) - new_mode_log_ratio(np.array([ratios]), earlier=before, min_nights=3)


def test_three_slow_nights_after_ordinary_ones_are_ten_times_likelier_a_step() -> None:
    """A mode has come on any of the nights before, and was not slow yet."""
    assert lead([9.0] * 3, earlier=ORDINARY) == pytest.approx(math.log(10), abs=0.05)


def test_each_further_slow_night_speaks_for_a_step() -> None:
    leads = [lead([5.0] * num_nights, earlier=ORDINARY) for num_nights in range(3, 10)]
    assert leads == sorted(set(leads))


@pytest.mark.parametrize("night", range(1, 4))
def test_a_night_back_at_the_old_level_speaks_for_a_mode(night: int) -> None:
    ratios = [5.0] * 5
    ratios[night] = -4.0
    assert lead(ratios) < 1 < lead([5.0] * 4) - 1


def test_slow_nights_of_last_week_speak_for_a_mode_that_is_here_again() -> None:
    week = [-4.0, -4.0, 5.0, -4.0, -4.0, 5.0, -4.0]
    assert lead([5.0] * 3, earlier=week) < 0 < lead([5.0] * 3, earlier=[-4.0] * 7)


def test_sizes_are_as_likely_as_one_another() -> None:
    ratios, earlier = np.array([[5.0] * 3, [-4.0] * 3]), np.zeros((2, 0))
    both = new_mode_log_ratio(ratios, earlier=earlier, min_nights=3)
    each = [new_mode_log_ratio(ratios[[i]], earlier=earlier[[i]], min_nights=3) for i in range(2)]
    assert both == pytest.approx(np.logaddexp(*each) - math.log(2))


@given(NIGHTS)
def test_a_mode_is_the_mean_of_all_shares_and_the_sum_over_its_first_nights(
    ratios: list[float],
) -> None:
    shares = np.linspace(0, 1, 2001)[:, None]
    total = 0.0
    for first in range(len(ratios) - 2):
        products = (1 - shares + shares * np.exp(ratios[first:])).prod(axis=1)
        total += np.trapezoid(products * 3 * (1 - shares[:, 0]) ** 2, shares[:, 0])
    log_density = new_mode_log_ratio(np.array([ratios]), earlier=np.zeros((1, 0)), min_nights=3)
    assert log_density == pytest.approx(math.log(total), abs=0.05)

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_hud.runner.analysis.detection.sequential_test import best_median_split, is_line_better
from tests.support.examples import examples

POINTS = st.lists(st.integers(min_value=-9, max_value=9), min_size=12, max_size=30)


def misfit(points: list[float]) -> float:
    return float(np.abs(np.array(points) - np.median(points)).sum())


@settings(max_examples=examples(50))
@given(POINTS)
def test_best_split_is_the_last_one_at_which_two_medians_fit_best(numbers: list[int]) -> None:
    points = [number / 10 for number in numbers]
    places = range(6, len(points) - 2)
    misfits = [round(misfit(points[:index]) + misfit(points[index:]), 9) for index in places]
    last_of_best = max(index for index in places if misfits[index - 6] == min(misfits))
    assert best_median_split(points, low=6, high=len(points) - 3) == last_of_best


def test_best_split_of_a_clear_step_is_its_first_point() -> None:
    assert best_median_split([1.0] * 10 + [2.0] * 4, low=6, high=11) == 10


def test_a_line_fits_a_ramp_better_than_two_medians_and_a_step_worse() -> None:
    assert is_line_better(np.arange(20) / 10, split=10)
    assert not is_line_better(np.repeat([0.0, 1.0], 10), split=10)

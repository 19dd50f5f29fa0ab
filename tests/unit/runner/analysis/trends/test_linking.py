"""Linked geometric means of cohorts that change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.runner.analysis.stats.model_means import OWN
from compile_hud.runner.analysis.trends.linking import LinkedMeans, linked_means

NONE = np.nan


def linked(
    *modes: list[list[float]],
    width: float = 0.0,
    models: list[int] | None = None,
    copies: dict[int, int] | None = None,
) -> LinkedMeans:
    """Return the means of modes, each a row of subjects for each run.

    `models` are those of the subjects, each its own without. `copies` are modes and their sources.
    """
    medians = np.array(modes, dtype=float)
    sources = np.full(medians.shape, OWN)
    for mode, source in (copies or {}).items():
        sources[mode] = source
    return linked_means(
        np.stack([medians, medians * (1 - width), medians * (1 + width)]),
        sources=sources,
        models=np.array(models or range(medians.shape[2])),
    )


def values_of(means: LinkedMeans, mode: int = 0) -> list[float]:
    return [float(value) for value in means.values[mode]]


def test_trend_of_a_constant_cohort_is_the_mean_of_each_run() -> None:
    means = linked([[1.0, 4.0], [2.0, 2.0], [3.0, 12.0]])
    assert values_of(means) == pytest.approx([2.0, 2.0, 6.0])
    assert means.own[0] == pytest.approx(means.values[0])


def test_model_that_joins_or_leaves_moves_no_trend() -> None:
    joins = linked([[2.0, NONE], [2.0, 50.0], [2.0, 50.0]])
    assert values_of(joins) == pytest.approx([10.0, 10.0, 10.0])
    leaves = linked([[2.0, 50.0], [2.0, 50.0], [2.0, NONE]])
    assert values_of(leaves) == pytest.approx([2.0, 2.0, 2.0])
    assert leaves.own[0] == pytest.approx([10.0, 10.0, 2.0])


def test_change_of_a_model_during_its_failure_shows_when_it_is_back() -> None:
    means = linked([[1.0, 9.0], [1.0, NONE], [1.0, 4.0]])
    assert values_of(means) == pytest.approx([3.0, 3.0, 2.0])


def test_step_is_that_of_the_models_on_both_sides() -> None:
    # One model gains a tenth while another one with a ten times larger number joins.
    means = linked([[2.0, 8.0, NONE], [2.2, 8.8, 40.0]])
    assert values_of(means)[1] / values_of(means)[0] == pytest.approx(1.1)


def test_cohort_is_common_to_all_modes() -> None:
    has_failure = linked([[2.0, 8.0], [2.0, 8.0]], [[3.0, 3.0], [3.0, NONE]])
    assert values_of(has_failure) == pytest.approx([2.0, 2.0])
    assert has_failure.cohort[0].tolist() == [[True, True], [True, False]]
    assert has_failure.own[0] == pytest.approx([4.0, 2.0])


def test_mode_of_few_models_does_not_shrink_the_cohort_of_the_others() -> None:
    few = linked([[2.0] * 5], [[3.0, *[NONE] * 4]])
    assert few.cohort.sum(axis=2).tolist() == [[5], [1]]
    half = linked([[2.0] * 4], [[3.0, 3.0, NONE, NONE]])
    assert half.cohort.sum(axis=2).tolist() == [[2], [2]]


def test_shapes_of_a_model_weigh_as_much_as_the_one_of_another() -> None:
    # The first model has two shapes: its number is 4, then 8.
    means = linked([[2.0, 8.0, 9.0], [4.0, 16.0, 9.0]], models=[0, 0, 1])
    assert values_of(means) == pytest.approx([6.0, 72.0**0.5])


def test_shape_that_joins_a_model_moves_no_trend() -> None:
    means = linked([[2.0, NONE, 9.0], [2.0, 8.0, 9.0]], models=[0, 0, 1])
    assert values_of(means) == pytest.approx([6.0, 6.0])
    assert means.own[0] == pytest.approx([18.0**0.5, 6.0])


def test_copy_of_a_mode_does_not_shrink_the_cohort_of_the_others() -> None:
    default, copy = [[2.0, 8.0], [2.0, 8.0]], [[2.0, 8.0], [2.0, NONE]]
    assert linked(default, copy).own[0] == pytest.approx([4.0, 2.0])
    means = linked(default, copy, copies={1: 0})
    assert means.own[0] == pytest.approx([4.0, 4.0])
    assert means.own[1] == pytest.approx([4.0, 2.0])


def test_runs_without_a_common_model_are_another_segment() -> None:
    means = linked([[5.0, NONE], [NONE, 7.0]])
    assert values_of(means) == pytest.approx([5.0, 7.0])
    assert means.segments[0].tolist() == [1, 0]


def test_mode_without_any_number_has_no_value() -> None:
    means = linked([[NONE, NONE]], [[2.0, 3.0]])
    assert np.isnan(means.values[0]).all()
    assert values_of(means, 1) == pytest.approx([6.0**0.5])


def test_numbers_of_zero_and_below_are_no_numbers() -> None:
    assert values_of(linked([[0.0, 3.0], [-2.0, 3.0]])) == pytest.approx([3.0, 3.0])


def test_interval_narrows_with_the_root_of_the_number_of_models() -> None:
    one = linked([[2.0]], width=0.1)
    four = linked([[2.0, 2.0, 2.0, 2.0]], width=0.1)
    ratio = np.log(one.highs / one.values) / np.log(four.highs / four.values)
    assert float(ratio[0, 0]) == pytest.approx(2.0)


NUMBERS = st.lists(
    st.lists(st.one_of(st.just(NONE), st.floats(0.1, 10.0)), min_size=3, max_size=3),
    min_size=2,
    max_size=6,
)


@given(NUMBERS, st.floats(0.1, 10.0))
def test_trend_does_not_depend_on_the_unit(rows: list[list[float]], factor: float) -> None:
    means = linked(rows)
    scaled = linked([[value * factor for value in row] for row in rows])
    np.testing.assert_allclose(scaled.values, means.values * factor, rtol=1e-9)


@given(NUMBERS)
def test_newest_value_is_the_mean_of_the_newest_cohort(rows: list[list[float]]) -> None:
    means = linked(rows)
    filled = np.flatnonzero(~np.isnan(means.own[0]))
    for row in filled[-1:]:
        assert means.values[0, row] == pytest.approx(means.own[0, row])


@given(NUMBERS)
def test_order_of_the_models_does_not_matter(rows: list[list[float]]) -> None:
    means, mirrored = linked(rows), linked([row[::-1] for row in rows])
    np.testing.assert_allclose(means.values, mirrored.values, rtol=1e-9)

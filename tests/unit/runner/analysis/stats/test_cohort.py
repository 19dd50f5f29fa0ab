from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from compile_hud.runner.analysis.stats.cohort import (
    CohortMeans,
    cohort_means,
    common_cohort,
    geometric_mean,
    pass_rate,
    sparse_columns,
)
from tests.support.errors import value_error_of

POSITIVE = st.floats(min_value=1e-3, max_value=1e3)


def test_geometric_mean_of_a_gain_and_the_same_loss_is_one() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [-1.0]])
def test_geometric_mean_of_what_has_none_is_refused(
    values: list[float], words: SnapshotAssertion
) -> None:
    assert str(value_error_of(geometric_mean, values)) == words


@given(st.lists(POSITIVE, min_size=1, max_size=9))
def test_geometric_mean_does_not_depend_on_the_reference(values: list[float]) -> None:
    inverse = geometric_mean(1 / value for value in values)
    assert geometric_mean(values) * inverse == pytest.approx(1.0)


def test_cohort_is_what_all_columns_have() -> None:
    columns = {"default": {"bert": 1.1, "vit": 2.0}, "max-autotune": {"vit": 3.0, "t5": 4.0}}
    assert common_cohort(columns) == ("vit",)


def test_value_of_zero_is_not_in_the_cohort() -> None:
    assert common_cohort({"default": {"bert": 0.0, "vit": 2.0}}) == ("vit",)


def test_no_columns_have_no_cohort() -> None:
    assert common_cohort({}) == ()


def test_column_of_few_subjects_does_not_shrink_the_cohort_of_the_others() -> None:
    columns = {
        "default": dict.fromkeys(("bert", "vit", "unet", "t5", "moe"), 2.0),
        "max-autotune": {"vit": 3.0, "unet": 12.0},
    }
    assert sparse_columns(columns) == {"max-autotune": 2}
    means = cohort_means(columns)
    assert means.means == pytest.approx({"default": 2.0, "max-autotune": 6.0})
    assert (means.num_common, means.num_subjects) == (5, 5)


def test_column_of_half_of_the_subjects_counts_and_an_empty_one_does_not() -> None:
    columns = {"default": {"bert": 2.0, "vit": 8.0}, "max-autotune": {"vit": 3.0}, "eager": {}}
    assert sparse_columns(columns) == {}


def test_means_are_over_the_common_cohort_with_n_of_m() -> None:
    columns = {
        "default": {"bert": 2.0, "vit": 8.0, "unet": 1.0},
        "max-autotune": {"bert": 3.0, "vit": 3.0},
    }
    means = cohort_means(columns)
    assert means.means == pytest.approx({"default": 4.0, "max-autotune": 3.0})
    assert (means.num_common, means.num_subjects) == (2, 3)


def test_nothing_in_common_has_no_means() -> None:
    means = cohort_means({"default": {"bert": 2.0}, "max-autotune": {"vit": 3.0}})
    assert means == CohortMeans(means={}, num_common=0, num_subjects=2)


def test_pass_rate_excludes_skipped_cases_and_those_of_lost_nodes() -> None:
    rate = pass_rate(
        [
            Outcome.OK,
            Outcome.SKIPPED,
            Outcome.NODE_LOST,
            Outcome.FAILED,
            Outcome.OK,
            Outcome.TIMEOUT,
        ]
    )
    assert (rate.num_ok, rate.num_attempted, rate.share) == (2, 4, 0.5)


def test_pass_rate_of_nothing_has_no_share() -> None:
    assert pass_rate([Outcome.SKIPPED]).share is None

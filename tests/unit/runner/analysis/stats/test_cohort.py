from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from compile_hud.runner.analysis.stats.cohort import (
    common_cohort,
    geometric_mean,
    pass_rate,
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

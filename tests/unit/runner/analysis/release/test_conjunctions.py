"""The evidence of conjunctions of factors."""

from __future__ import annotations

import random
from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import comb
from scipy.stats import hypergeom

from compile_hud.db.records.results import Case
from compile_hud.runner.analysis.release.clusters import JudgedCase
from compile_hud.runner.analysis.release.conjunctions import (
    MAX_NAMES,
    MIN_PURITY,
    RATE,
    Conjunction,
    chances_of_as_many,
    discover,
    factor_table,
)
from compile_hud.runner.analysis.release.factors import Factor
from tests.support.builders import make_case
from tests.unit.runner.analysis.release.plans import every, judged, none, release


def discovered(cases: list[JudgedCase], *, measured: Collection[str] = ()) -> list[Conjunction]:
    return discover(
        factor_table(
            [item.factors for item in cases],
            is_regression=[item.is_regression for item in cases],
            measured=measured,
        )
    )


def in_one_model(case: Case) -> bool:
    return case.model == "model-3"


@given(st.integers(1, 60), st.data())
def test_chances_are_those_of_the_hypergeometric_distribution(
    num_cases: int, data: st.DataObject
) -> None:
    num_fitting, num_regressions = (data.draw(st.integers(0, num_cases)) for _ in range(2))
    chances = chances_of_as_many(num_cases, num_fitting, num_regressions=num_regressions)
    inside = np.arange(min(num_fitting, num_regressions) + 1)
    assert chances == pytest.approx(
        hypergeom.sf(inside - 1, num_cases, num_regressions, num_fitting), abs=1e-12
    )


def test_the_q_value_of_a_single_test_is_its_p_value() -> None:
    factors = [[Factor("model", "a" if row < 5 else f"other-{row}")] for row in range(20)]
    table = factor_table(factors, is_regression=[row < 5 for row in range(20)])
    (only,) = discover(table)
    assert only.q_value == pytest.approx(1 / comb(20, 5))


def test_tests_count_with_their_chance_of_such_a_p_value() -> None:
    # The two cases of model c cannot have the p-value of the five of model a; those of b can.
    models = ["a"] * 5 + ["b"] * 5 + ["c"] * 2 + [f"other-{row}" for row in range(8)]
    table = factor_table(
        [[Factor("model", model)] for model in models],
        is_regression=[row < 5 for row in range(20)],
    )
    (only,) = discover(table)
    assert only.conditions == (Factor("model", "a"),)
    assert only.q_value == pytest.approx(2 / comb(20, 5))


def test_random_regressions_are_seldom_a_discovery() -> None:
    draw = random.Random(3)
    keys = [item.case.key for item in release(none)]
    num_wrong = 0
    for _ in range(60):
        regressed = set(draw.sample(keys, 10))
        num_wrong += bool(discovered(release(lambda case: case.key in regressed)))  # noqa: B023
    assert num_wrong <= 60 * RATE


def test_conditions_are_few_and_pure_and_of_different_names() -> None:
    cases = release(lambda case: in_one_model(case) and case.mode != "eager")
    conjunctions = discovered(cases)
    assert conjunctions
    for item in conjunctions:
        assert 1 <= len({factor.name for factor in item.conditions}) <= MAX_NAMES
        assert MIN_PURITY * item.fits.sum() <= sum(case.is_regression for case in cases)


def test_equal_cases_have_the_simplest_conditions() -> None:
    cases = release(in_one_model)
    rows = [item.is_regression for item in cases]
    same = [item for item in discovered(cases) if item.fits.tolist() == rows]
    assert [item.conditions for item in same] == [(Factor("model", "model-3"),)]


def test_all_modes_but_eager_are_one_condition() -> None:
    cases = release(lambda case: in_one_model(case) and case.mode != "eager")
    best = min(discovered(cases), key=lambda item: (item.q_value, item.complexity))
    assert best.conditions == (
        Factor("model", "model-3"),
        Factor("mode", "default"),
        Factor("mode", "max-autotune"),
    )


@pytest.mark.parametrize(
    "group",
    [("max-autotune", "max-autotune-no-cudagraphs"), ("max-autotune", "reduce-overhead")],
)
def test_modes_that_have_something_in_common_are_one_condition(group: tuple[str, str]) -> None:
    modes = ("eager", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
    cases = [
        judged(
            make_case(f"model{number}", mode=mode, phase=phase),
            is_regression=phase == "training" and mode in group,
        )
        for number in range(4)
        for mode in modes
        for phase in ("inference", "training")
    ]
    best = min(discovered(cases), key=lambda item: (item.q_value, item.complexity))
    modes_of_group = {Factor("mode", mode) for mode in group}
    assert set(best.conditions) == {Factor("phase", "training"), *modes_of_group}


def test_a_symptom_of_regressions_alone_is_no_evidence() -> None:
    def scattered(case: Case) -> bool:
        return case.model in {"model-0", "model-5", "model-10"} and case.key.endswith(
            "training/tiny/bf16/default/cpu"
        )

    def has_symptom(item: Conjunction) -> bool:
        return item.has_symptom

    cases = release(scattered, kinds=lambda case: ["gemm"] if scattered(case) else [])
    assert not any(map(has_symptom, discovered(cases)))
    # A search in all cases that found it in these alone is evidence.
    assert any(map(has_symptom, discovered(cases, measured=["kernel kind"])))


def test_cases_without_a_symptom_are_left_out_of_its_tests() -> None:
    cases = release(
        in_one_model,
        kinds=lambda case: (
            ["gemm"]
            if in_one_model(case) or case.model == "model-4"
            else ["copy"]
            if case.model == "model-8"
            else []
        ),
    )
    table = factor_table(
        [item.factors for item in cases], is_regression=[item.is_regression for item in cases]
    )
    assert table.known["kernel kind"].sum() == 3 * 12
    assert table.known["phase"].all()


def test_nothing_is_discovered_without_a_difference() -> None:
    assert discovered([]) == []
    assert discovered(release(none)) == []
    assert discovered(release(every)) == []

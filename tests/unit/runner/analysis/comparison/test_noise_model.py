"""The sources of the noise model, and the calibration of comparisons by it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from compile_hud.db.records.results import CaseResult, RunDocument, Verdict
from compile_hud.db.records.summaries import Series
from compile_hud.runner.analysis.comparison.noise_model import NoiseSource
from compile_hud.runner.analysis.comparison.runs import OUTCOME, CaseComparison, compare_results
from tests.support.builders import (
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)
from tests.support.nightly import daily_first
from tests.support.records.histories import make_series

NUM_CASES = 24
CHANGED = (Verdict.REGRESSION, Verdict.IMPROVEMENT)


class Spreads(NamedTuple):
    """The relative sd of runs and of launches of one build, and how many launches a run has."""

    run: float
    launch: float
    num_launches: int = 3
    metric: str = "speedup"


def level(generator: np.random.Generator, spreads: Spreads) -> np.ndarray:
    run = spreads.run * generator.standard_normal()
    return np.exp(run + spreads.launch * generator.standard_normal(spreads.num_launches))


def document(
    generator: np.random.Generator,
    spreads: Spreads,
    *,
    name: str,
    factors: Sequence[float] = (1.0,) * NUM_CASES,
) -> RunDocument:
    """Return a run of so many models as `factors`, each with its level times its factor."""
    run = make_run(name)
    results = [
        _result(generator, spreads, run_id=name, index=index, factor=factor)
        for index, factor in enumerate(factors)
    ]
    return make_document(run, results=results)


def _result(
    generator: np.random.Generator, spreads: Spreads, *, run_id: str, index: int, factor: float
) -> CaseResult:
    levels = factor * level(generator, spreads)
    measurement = make_measurement(
        spreads.metric, samples=levels.tolist(), launches=(1,) * spreads.num_launches
    )
    case = make_case(f"m{index}", device="cuda")
    return make_result(f"{run_id}-{index}", run_id=run_id, case=case, measurements=[measurement])


def histories(
    generator: np.random.Generator, spreads: Spreads, *, num_nights: int, num_cases: int = NUM_CASES
) -> list[Series]:
    run = make_run("x")
    return [
        make_series(
            [float(np.median(level(generator, spreads))) for _ in range(num_nights)],
            case=make_case(f"m{index}", device="cuda"),
            metric=spreads.metric,
            machine=run.machine,
            toolchain=run.toolchain,
            fingerprint=run.fingerprint,
        )
        for index in range(num_cases)
    ]


def compare(
    generator: np.random.Generator,
    spreads: Spreads,
    *,
    num_nights: int = 0,
    factors: Sequence[float] = (1.0,) * NUM_CASES,
) -> list[CaseComparison]:
    rows = compare_results(
        document(generator, spreads, name="a", factors=(1.0,) * len(factors)),
        document(generator, spreads, name="b", factors=factors),
        histories=histories(generator, spreads, num_nights=num_nights) if num_nights else (),
    )
    return [row for row in rows if row.metric != OUTCOME]


SPREADS = {
    "runs": Spreads(0.01, 0.002),
    "launches": Spreads(0.0, 0.02, 6),
    "both": Spreads(0.01, 0.01),
    "single launches": Spreads(0.01, 0.02, 1, "compile_cold_s"),
}


@pytest.mark.parametrize("num_nights", daily_first([5, 0, 30], num_daily=1))
@pytest.mark.parametrize("name", SPREADS)
def test_intervals_of_equal_code_hold_1_as_often_as_they_say(name: str, num_nights: int) -> None:
    generator = np.random.default_rng(11)
    rows = [
        row for _ in range(25) for row in compare(generator, SPREADS[name], num_nights=num_nights)
    ]
    holds = [row.comparison.low <= 1 <= row.comparison.high for row in rows]  # type: ignore[operator]
    assert 0.91 < np.mean(holds) < 0.99
    changed = [row.comparison.verdict in CHANGED for row in rows]
    assert np.mean(changed) < 0.005


@pytest.mark.parametrize("num_nights", [0, 30])
def test_a_planted_step_is_detected_among_equal_cases(num_nights: int) -> None:
    generator = np.random.default_rng(3)
    factors = [0.92, *[1.0] * (NUM_CASES - 1)]
    num_detected = num_false = 0
    for _ in range(25):
        first, *others = compare(
            generator, Spreads(0.006, 0.004), num_nights=num_nights, factors=factors
        )
        num_detected += first.comparison.is_failure
        num_false += sum(row.comparison.verdict in CHANGED for row in others)
    assert num_detected >= 24
    assert num_false <= 3


def test_a_step_that_all_cases_share_is_detected() -> None:
    generator = np.random.default_rng(4)
    rows = compare(generator, Spreads(0.006, 0.004), factors=[0.9] * NUM_CASES)
    assert np.mean([row.comparison.is_failure for row in rows]) > 0.9


def test_a_small_move_that_all_cases_share_is_noise() -> None:
    generator = np.random.default_rng(4)
    rows = compare(generator, Spreads(0.001, 0.001), factors=[1.02] * NUM_CASES)
    assert not any(row.comparison.is_significant for row in rows)


@pytest.mark.parametrize(
    ("num_nights", "num_cases", "source"),
    [
        (30, NUM_CASES, NoiseSource.HISTORY),
        (0, NUM_CASES, NoiseSource.CASES),
        (0, 2, NoiseSource.TABLE),
        (4, 2, NoiseSource.TABLE),
        (5, 2, NoiseSource.HISTORY),
    ],
)
def test_the_source_is_the_best_that_there_is(
    num_nights: int, num_cases: int, source: NoiseSource
) -> None:
    generator = np.random.default_rng(5)
    rows = compare(generator, Spreads(0.01, 0.01), num_nights=num_nights, factors=[1.0] * num_cases)
    assert {row.comparison.noise for row in rows} == {source}


def test_a_case_without_a_history_has_that_of_the_others() -> None:
    generator = np.random.default_rng(6)
    spreads = Spreads(0.01, 0.01)
    sides = [document(generator, spreads, name=name) for name in ("a", "b")]
    series = histories(generator, spreads, num_nights=20, num_cases=NUM_CASES - 1)
    rows = compare_results(*sides, histories=series)
    *others, last = [row.comparison for row in rows if row.metric != OUTCOME]
    assert {item.noise for item in others} == {NoiseSource.HISTORY}
    assert last.noise is NoiseSource.CASES
    assert last.change is not None
    errors = [item.change.error for item in others if item.change]
    assert min(errors) * 0.8 < last.change.error < max(errors) * 1.2


def test_a_series_that_is_noisy_by_itself_keeps_its_noise() -> None:
    generator = np.random.default_rng(7)
    calm, wild = Spreads(0.005, 0.003), Spreads(0.06, 0.003)
    series = [
        *histories(generator, calm, num_nights=40),
        *histories(generator, wild, num_nights=40, num_cases=1),
    ][1:]
    sides = [document(generator, calm, name=name) for name in ("a", "b")]
    rows = [row for row in compare_results(*sides, histories=series) if row.metric != OUTCOME]
    errors = [row.comparison.change.error for row in rows if row.comparison.change]
    assert errors[0] > 4 * max(errors[1:])


def test_the_runs_that_are_compared_are_no_part_of_the_history() -> None:
    generator = np.random.default_rng(8)
    calm = Spreads(0.001, 0.0005)
    sides = [
        document(generator, calm, name=name, factors=[factor] * NUM_CASES)
        for name, factor in (("run-10", 1.0), ("run-11", 0.8))
    ]
    series = histories(generator, calm, num_nights=10)
    with_them = [
        make_series(
            [*[point.median for point in item.points], 1.0, 0.8],
            case=item.header.case,
            machine=item.header.machine,
            toolchain=sides[0].run.toolchain,
            fingerprint=item.header.fingerprint,
        )
        for item in series
    ]
    assert compare_results(*sides, histories=series) == compare_results(*sides, histories=with_them)


def test_another_toolchains_history_has_no_effect() -> None:
    generator = np.random.default_rng(9)
    sides = [
        document(generator, Spreads(0.01, 0.01), name=name, factors=[1.0]) for name in ("a", "b")
    ]
    series = make_series([1.0] * 20, case=make_case("m0", device="cuda"), toolchain="other")
    rows = compare_results(*sides, histories=[series])
    assert {row.comparison.noise for row in rows if row.metric != OUTCOME} == {NoiseSource.TABLE}


def test_swapping_the_sides_inverts_each_ratio_and_keeps_each_p_value() -> None:
    generator = np.random.default_rng(10)
    sides = [document(generator, SPREADS["both"], name=name) for name in ("a", "b")]
    series = histories(generator, SPREADS["both"], num_nights=20)
    forth = compare_results(*sides, histories=series)
    back = compare_results(*sides[::-1], histories=series)
    for one, other in zip(forth, back, strict=True):
        if one.comparison.change is not None:
            assert other.comparison.change is not None
            assert one.comparison.change.log == pytest.approx(-other.comparison.change.log)
            assert one.comparison.change.error == pytest.approx(other.comparison.change.error)
            assert one.comparison.q_value == pytest.approx(other.comparison.q_value)


def test_a_unit_changes_no_comparison() -> None:
    spreads = Spreads(0.01, 0.01)
    compared = []
    for factor in (1.0, 1000.0):
        generator = np.random.default_rng(12)
        sides = [
            document(generator, spreads, name=name, factors=[factor] * NUM_CASES)
            for name in ("a", "b")
        ]
        compared.append(compare_results(*sides))
    for one, other in zip(*compared, strict=True):
        if one.comparison.change is not None:
            assert other.comparison.change is not None
            assert one.comparison.change.error == pytest.approx(other.comparison.change.error)


def test_more_launches_than_runs_have_narrow_the_interval() -> None:
    errors = []
    for num_launches in (3, 12):
        generator = np.random.default_rng(13)
        spreads = Spreads(0.002, 0.02)
        series = histories(generator, spreads, num_nights=40)
        more = spreads._replace(num_launches=num_launches)
        sides = [document(generator, spreads, name="a"), document(generator, more, name="b")]
        rows = compare_results(*sides, histories=series)
        changes = [row.comparison.change for row in rows if row.comparison.change]
        errors.append(np.median([change.error for change in changes]))
    # Of the sum of both sides' variances one becomes a quarter.
    assert errors[1] == pytest.approx(math.sqrt(1.25 / 2) * errors[0], rel=0.1)


def test_a_run_against_itself_is_identical() -> None:
    same = document(np.random.default_rng(14), Spreads(0.01, 0.01), name="a")
    rows = compare_results(same, same)
    assert {row.comparison.verdict for row in rows} == {Verdict.IDENTICAL}
    assert all(math.isnan(row.comparison.q_value or math.nan) for row in rows)


def test_a_level_beyond_all_floats_teaches_no_noise() -> None:
    spreads = Spreads(run=0.0, launch=0.01)
    generator = np.random.default_rng(8)
    sides = [document(generator, spreads, name=name) for name in ("before", "after")]
    usual = compare_results(*sides)
    extreme = make_measurement("speedup", samples=(1.7e308,) * 9, launches=(4, 5))
    case = make_case("extreme", device="cuda")
    with_extreme = [
        make_document(
            side.run,
            results=[
                *side.results,
                make_result(
                    f"{side.run.id}-extreme", run_id=side.run.id, case=case, measurements=[extreme]
                ),
            ],
        )
        for side in sides
    ]
    intervals = {
        row.case.key: (row.comparison.low, row.comparison.high)
        for row in compare_results(*with_extreme)
        if row.metric == "speedup"
    }
    assert len(intervals) == NUM_CASES + 1
    for row in usual:
        if row.metric == "speedup":
            assert intervals[row.case.key] == (row.comparison.low, row.comparison.high)

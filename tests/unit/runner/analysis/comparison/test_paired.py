"""The paired estimate, and how often the whole rule errs on simulated launches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.results import CaseResult, Measurement, Outcome, Verdict
from compile_hud.runner.analysis.comparison.measurements import decide
from compile_hud.runner.analysis.comparison.paired import (
    PairStandard,
    calm_pairs,
    compare_pair,
    is_decided,
    looks,
)
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.errors import value_error_of
from tests.support.texts import without_numbers

STANDARD = PairStandard()


def _result(*measurements: Measurement, device: str = "cpu") -> CaseResult:
    return make_result(case=make_case(device=device), measurements=measurements)


def _launches(levels: np.ndarray | list[float], metric: str = "latency_cpu_s") -> Measurement:
    return make_measurement(metric, samples=list(levels), launches=(1,) * len(levels))


def _times(levels: np.ndarray | list[float], *, wall: float = 1.02) -> CaseResult:
    return _result(
        _launches(levels), _launches([wall * level for level in levels], metric="latency_s")
    )


def _rows(
    baseline: CaseResult, candidate: CaseResult, standard: PairStandard = STANDARD
) -> dict[str, CaseComparison]:
    rows = compare_pair(baseline, candidate=candidate, standard=standard)
    return {row.metric: row for row in rows}


def test_looks_are_few_and_end_at_the_limit() -> None:
    assert looks(8, 40) == (8, 12, 18, 27, 40)
    assert looks(5, 5) == (5,)


@pytest.mark.parametrize(("least", "most"), [(1, 10), (6, 5)])
def test_impossible_limits_are_refused(least: int, most: int, words: SnapshotAssertion) -> None:
    assert str(value_error_of(looks, least, most)) == words


def test_a_drift_that_both_sides_share_cancels() -> None:
    drift = np.exp(np.linspace(0, 0.5, 12))
    comparison = _rows(_times(drift), _times(1.06 * drift))["latency_cpu_s"].comparison
    assert comparison.verdict is Verdict.REGRESSION
    assert comparison.ratio == pytest.approx(1.06)


def test_a_disturbed_pair_is_left_out() -> None:
    levels = 1 + 0.001 * np.arange(12)
    disturbed = levels.copy()
    disturbed[3] = 1.6
    comparison = _rows(_times(levels), _times(disturbed))["latency_cpu_s"].comparison
    assert comparison.ratio == pytest.approx(1.0)
    assert comparison.verdict is Verdict.UNCHANGED


def test_calm_pairs_favour_no_side() -> None:
    before, after = np.array([1.0, 1.5, 1.01, 1.0, 1.02, 1.0]), np.array([1.0, 1, 1.5, 1, 1, 1.01])
    assert sorted(calm_pairs(before, after)) == sorted(calm_pairs(after, before)) == [0, 3, 4, 5]


def test_at_least_a_third_of_the_pairs_counts_and_never_fewer_than_four() -> None:
    two_modes = np.concatenate([np.ones(12), np.exp(np.arange(1.0, 29.0))])
    assert len(calm_pairs(two_modes, two_modes)) == 14
    assert len(calm_pairs(np.array([1.0, 1.0, 2.0, 3.0, 4.0]), np.ones(5))) == 4
    assert len(calm_pairs(np.array([1.0, 2.0]), np.ones(2))) == 2


def test_wall_clock_needs_the_cpu_time_as_a_witness(words: SnapshotAssertion) -> None:
    steady = [1.0] * 20
    comparison = _rows(_times(steady), _times(steady, wall=1.3))["latency_s"].comparison
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert without_numbers(comparison.reason) == words


def test_wall_clock_decides_where_there_is_no_other() -> None:
    baseline = _result(_launches([1.0] * 20, metric="latency_s"), device="cuda")
    candidate = _result(_launches([1.1] * 20, metric="latency_s"), device="cuda")
    rows = _rows(baseline, candidate)
    assert rows["latency_s"].comparison.verdict is Verdict.REGRESSION
    assert is_decided(list(rows.values()), standard=STANDARD)


def test_speedup_is_compared_pair_by_pair_and_by_the_calm_of_its_times() -> None:
    eager = [2.0] * 12
    variant = [1.0] * 12
    noisy = [1.0] * 11 + [3.0]

    def side(levels: list[float]) -> CaseResult:
        return _result(
            _launches(levels),
            _launches(eager, metric="eager_latency_cpu_s"),
            _launches([2.0 / level for level in levels], metric="speedup"),
        )

    comparison = _rows(side(variant), side(noisy))["speedup"].comparison
    assert comparison.ratio == pytest.approx(1.0)


@pytest.mark.parametrize("seed", [3, 17, 58])
def test_values_of_a_pair_have_the_ratio_of_its_change(seed: int) -> None:
    generator = np.random.default_rng(seed)
    before = generator.lognormal(-6, 0.02, size=11)
    after = 1.09 * generator.lognormal(-6, 0.02, size=11)
    # A neighbour slows some launches, and the fixed work of a launch with it.
    speed = 1 + 0.3 * (generator.random(11) < 0.3)
    sides = [
        _result(_launches(levels * speed), _launches(0.01 * speed, metric="pace_s"))
        for levels in (before, after)
    ]

    rows = _rows(*sides)

    row = rows["latency_cpu_s"]
    assert row.baseline is not None
    assert row.candidate is not None
    assert row.candidate / row.baseline == pytest.approx(row.comparison.ratio, rel=1e-12)
    assert row.machine_ratio is None


def test_sides_with_other_numbers_of_launches_are_compared_as_two_runs() -> None:
    comparison = _rows(_times([1.0] * 12), _times([1.2] * 9))["latency_cpu_s"].comparison
    assert comparison.verdict is Verdict.REGRESSION


def test_counts_are_compared_exactly() -> None:
    rows = _rows(
        _result(_launches([0.0], "graph_breaks")), _result(_launches([1.0], "graph_breaks"))
    )
    assert rows["graph_breaks"].comparison.verdict is Verdict.REGRESSION


def test_what_is_not_ok_is_a_row_and_decided() -> None:
    failed = make_result(case=make_case(device="cpu"), outcome=Outcome.FAILED)
    rows = compare_pair(_times([1.0] * 8), candidate=failed, standard=STANDARD)
    assert [(row.metric, row.comparison.verdict) for row in rows] == [
        ("outcome", Verdict.REGRESSION)
    ]
    assert is_decided(rows, standard=STANDARD)


def test_more_looks_and_more_cases_need_more_evidence() -> None:
    def widths(standard: PairStandard, *more: Measurement) -> tuple[float, float]:
        sides = [_result(_launches(levels * 6), *more) for levels in ([1.0, 1.02], [1.02, 1.0])]
        comparison = _rows(*sides, standard)["latency_cpu_s"].comparison
        assert comparison.low is not None
        assert comparison.high is not None
        assert comparison.decisive is not None
        return comparison.high / comparison.low, comparison.decisive[1] / comparison.decisive[0]

    shown, once = widths(STANDARD)
    assert widths(PairStandard(num_looks=5))[1] > once
    assert widths(PairStandard(num_cases=5))[1] == widths(PairStandard(num_looks=5))[1]
    # The 95 % interval is that of the comparison, whatever else is decided.
    assert widths(PairStandard(num_looks=5))[0] == shown
    # Half of the error is the time's own, however many other rows there are.
    others = [_launches([1.0] * 12, name) for name in ("compile_warm_s", "latency_s")]
    assert widths(STANDARD, *others)[1] == once


def test_change_above_a_strict_limit_names_what_shares_the_error(
    words: SnapshotAssertion,
) -> None:
    wobble = [1.0, 1.05, 0.97, 1.01] * 3
    sides = [
        _result(
            _launches([1.0] * 12),
            _launches([level * factor for level in wobble[shift:] + wobble[:shift]], "speedup"),
        )
        for factor, shift in ((1.0, 0), (0.85, 1))
    ]
    few = _rows(*sides, PairStandard(num_looks=1))["speedup"].comparison
    many = _rows(*sides, PairStandard(num_looks=9**9, num_cases=3))["speedup"].comparison
    assert (few.verdict, many.verdict) == (Verdict.REGRESSION, Verdict.INCONCLUSIVE)
    assert (few.low, few.high) == (many.low, many.high)
    assert without_numbers(many.reason) == words


@pytest.mark.parametrize(
    ("ratio", "low", "high", "decided"),
    [
        (1.06, 1.04, 1.09, True),  # all of it beyond the trigger
        (1 / 1.06, 0.91, 0.96, True),
        (1.0, 0.97, 1.03, True),  # all of it short of the trigger
        (1.045, 1.03, 1.06, True),  # narrow enough
        (1.034, 1.015, 1.053, False),  # narrow enough, and yet inconclusive
        (1.04, 1.01, 1.07, False),
        (0.98, 0.94, 1.02, False),
    ],
)
def test_measuring_ends_when_more_launches_would_not_change_it(
    ratio: float, low: float, high: float, decided: bool
) -> None:
    row = _rows(_times([1.0] * 8), _times([1.0] * 8))["latency_cpu_s"]
    comparison = decide(ratio, low=low, high=high, direction=Direction.LOWER_IS_BETTER, floor=0.05)
    edited = replace(row, comparison=comparison)
    assert is_decided([edited], standard=STANDARD) is decided


# What was measured between launches: a calm machine, a noisier one, neighbours in a sixth and in
# a quarter of all launches, a machine that changes its speed meanwhile.
Noise = Callable[[np.random.Generator, int], np.ndarray]


def _neighbours(sd: float, *, share: float, size: float) -> Noise:
    def noise(generator: np.random.Generator, num: int) -> np.ndarray:
        hits = generator.random((2, num)) < share
        sizes = size + 0.2 * size * generator.standard_normal((2, num))
        return sd * generator.standard_normal((2, num)) + hits * sizes

    return noise


def _drifting(generator: np.random.Generator, num: int) -> np.ndarray:
    drift = np.cumsum(0.03 * generator.standard_normal(num))
    return drift + 0.015 * generator.standard_normal((2, num))


NOISES: dict[str, Noise] = {
    "calm": _neighbours(0.015, share=0.0, size=0.0),
    "noisy": _neighbours(0.025, share=0.0, size=0.0),
    "a neighbour": _neighbours(0.013, share=0.15, size=0.10),
    "neighbours": _neighbours(0.015, share=0.25, size=0.20),
    "drifting": _drifting,
}


def _verdicts(noise: Noise, *, change: float, num_trials: int) -> list[Verdict]:
    generator = np.random.default_rng(7)
    schedule = looks(8, 40)
    standard = PairStandard(num_looks=len(schedule))
    verdicts = []
    for _ in range(num_trials):
        logs = noise(generator, schedule[-1])
        before, after = np.exp(logs[0]), math.exp(math.log1p(change)) * np.exp(logs[1])
        for num in schedule:
            sides = [_result(_launches(side[:num])) for side in (before, after)]
            rows = compare_pair(sides[0], candidate=sides[1], standard=standard)
            if is_decided(rows, standard=standard):
                break
        verdicts.append(rows[-1].comparison.verdict)
    return verdicts


@pytest.mark.parametrize("name", NOISES)
def test_equal_code_gets_a_verdict_in_at_most_two_of_a_hundred(name: str) -> None:
    verdicts = _verdicts(NOISES[name], change=0.0, num_trials=50)
    assert sum(verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT) for verdict in verdicts) <= 1


@pytest.mark.parametrize("name", NOISES)
def test_a_slowdown_of_just_the_floor_is_detected_in_95_of_a_hundred(name: str) -> None:
    verdicts = _verdicts(NOISES[name], change=0.05, num_trials=50)
    assert verdicts.count(Verdict.REGRESSION) >= 48
    assert Verdict.IMPROVEMENT not in verdicts

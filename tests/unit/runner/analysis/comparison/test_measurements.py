from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.metrics import METRICS, Direction, Metric
from compile_hud.db.records.results import Measurement, Verdict
from compile_hud.runner.analysis.comparison.measurements import (
    FAMILY_ERROR,
    Comparison,
    Judgement,
    compare_logs,
    compare_measurements,
    decide,
)
from compile_hud.runner.analysis.comparison.noise_model import ComparisonNoise
from compile_hud.runner.analysis.stats.estimates import Spread
from compile_hud.runner.analysis.stats.launch_noise import PRIOR_DEGREES, calm_sd, prior_sd, run_sd
from tests.support.builders import make_measurement
from tests.support.texts import without_numbers


def judgement(
    launch_sd: float,
    *,
    run_sd: float = 0.0,
    floor: float = 0.05,
    num_comparisons: int = 1,
) -> Judgement:
    """Return the judgement by a prior of eight launches and a known spread of runs."""
    return Judgement(
        floor=floor,
        noise=ComparisonNoise(
            launch=Spread(sd=launch_sd, degrees=PRIOR_DEGREES),
            run=Spread(sd=run_sd, degrees=math.inf),
        ),
        max_p=FAMILY_ERROR / num_comparisons,
    )


STRICT = judgement(0.02)


def three_launches(levels: list[float], *, metric: str = "latency_cpu_s") -> Measurement:
    return make_measurement(
        metric,
        samples=[level for level in levels for _ in range(5)],
        launches=(5,) * len(levels),
    )


def compare(
    baseline: list[float],
    candidate: list[float],
    *,
    metric: str = "latency_cpu_s",
    by: Judgement = STRICT,
) -> Comparison:
    return compare_measurements(
        three_launches(baseline, metric=metric),
        candidate=three_launches(candidate, metric=metric),
        judgement=by,
    )


def test_planted_slowdown_is_a_regression() -> None:
    comparison = compare([1.0, 1.01, 0.99], [1.15, 1.16, 1.14])
    assert comparison.verdict is Verdict.REGRESSION
    assert comparison.is_failure
    assert comparison.ratio == pytest.approx(1.15, rel=1e-3)
    assert comparison.low is not None
    assert 1 < comparison.low < 1.15


@pytest.mark.parametrize("candidate", [1.15, 1 / 1.15])
def test_an_interval_beyond_the_floor_gives_the_limit_as_reason(
    candidate: float, words: SnapshotAssertion
) -> None:
    one = compare([1.0, 1.01, 0.99], [candidate * level for level in (1.0, 1.01, 0.99)])
    assert one.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)
    many = judgement(0.02, num_comparisons=10**7)
    comparison = compare([1.0, 1.01, 0.99], [candidate * n for n in (1.0, 1.01, 0.99)], by=many)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert without_numbers(comparison.reason) == words


def test_planted_speedup_is_an_improvement() -> None:
    comparison = compare([1.15, 1.16, 1.14], [1.0, 1.01, 0.99])
    assert comparison.verdict is Verdict.IMPROVEMENT
    assert not comparison.is_failure


def test_lower_speedup_is_a_regression() -> None:
    comparison = compare([2.0, 2.01, 1.99], [1.6, 1.61, 1.59], metric="speedup")
    assert comparison.verdict is Verdict.REGRESSION


def test_equal_samples_are_identical_whatever_the_noise() -> None:
    comparison = compare([1.0, 1.1, 0.9], [1.0, 1.1, 0.9], by=judgement(0.5))
    assert comparison.verdict is Verdict.IDENTICAL
    assert (comparison.low, comparison.ratio, comparison.high) == (1.0, 1.0, 1.0)
    assert not comparison.is_significant


def test_equal_levels_of_other_samples_are_not_identical() -> None:
    assert compare([1.0] * 3, [1.0] * 4, by=judgement(0.001)).verdict is Verdict.UNCHANGED


def test_significant_change_below_the_floor_is_unchanged_and_says_so(
    words: SnapshotAssertion,
) -> None:
    calm = judgement(0.001)
    comparison = compare([1.0, 1.0, 1.0], [1.03, 1.03, 1.03], by=calm)
    assert comparison.verdict is Verdict.UNCHANGED
    assert comparison.is_significant
    assert not comparison.is_relevant
    assert comparison.reason == words


def test_relevant_change_within_noise_is_inconclusive_and_says_what_fits(
    words: SnapshotAssertion,
) -> None:
    comparison = compare([1.0, 0.8, 1.2], [1.1, 0.9, 1.3])
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.is_relevant
    assert not comparison.is_significant
    assert without_numbers(comparison.reason) == words


def test_tight_interval_that_includes_no_change_is_unchanged(words: SnapshotAssertion) -> None:
    calm = judgement(0.001)
    comparison = compare([1.0, 1.0, 1.0], [1.0, 1.0, 1.001], by=calm)
    assert comparison.verdict is Verdict.UNCHANGED
    assert comparison.reason == words


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.93, 1.03, Verdict.INCONCLUSIVE),
        (0.97, 1.07, Verdict.INCONCLUSIVE),
        (0.97, 1.03, Verdict.UNCHANGED),
    ],
)
def test_interval_that_reaches_the_floor_on_either_side_is_inconclusive(
    low: float, high: float, verdict: Verdict
) -> None:
    decision = decide(1.0, low=low, high=high, direction=Direction.LOWER_IS_BETTER, floor=0.05)
    assert decision.verdict is verdict


def test_floor_is_a_factor_and_so_the_same_in_both_directions() -> None:
    up = decide(1.051, low=1.05, high=1.052, direction=Direction.LOWER_IS_BETTER, floor=0.05)
    down = decide(1 / 1.051, low=0.95, high=0.952, direction=Direction.LOWER_IS_BETTER, floor=0.05)
    assert up.verdict is Verdict.REGRESSION
    assert down.verdict is Verdict.IMPROVEMENT


@pytest.mark.parametrize(
    ("ratio", "low", "high", "verdict", "is_relevant", "reason"),
    [
        # Near the floor, and the floor fits.
        (1.04, 1.02, 1.06, Verdict.REGRESSION, True, "+4.0 % may exceed the threshold of 5 %"),
        (1 / 1.04, 1 / 1.06, 1 / 1.02, Verdict.IMPROVEMENT, True, "-3.8 % may exceed"),
        (1.06, 1.02, 1.10, Verdict.REGRESSION, True, "+6.0 % exceeds the threshold of 5 %"),
        # Below the trigger the floor may fit as well: more launches are needed.
        (1.03, 1.005, 1.055, Verdict.INCONCLUSIVE, False, "anything from +0.5 % to +5.5 % fits"),
        # Near the floor, but the floor is ruled out.
        (1.045, 1.042, 1.048, Verdict.UNCHANGED, False, "+4.5 % is outside noise, but not beyond"),
        (1 / 1.045, 1 / 1.048, 1 / 1.042, Verdict.UNCHANGED, False, "-4.3 % is outside noise"),
        # Not outside noise: the other end of the interval says nothing about the floor.
        (1.04, 0.99, 1.093, Verdict.INCONCLUSIVE, True, "anything from -1.0 % to +9.3 % fits"),
        (1.01, 0.94, 1.085, Verdict.INCONCLUSIVE, False, "anything from -6.0 % to +8.5 % fits"),
    ],
)
def test_the_interval_decides_what_is_as_large_as_the_floor(
    ratio: float, low: float, high: float, verdict: Verdict, is_relevant: bool, reason: str
) -> None:
    decision = decide(ratio, low=low, high=high, direction=Direction.LOWER_IS_BETTER, floor=0.05)
    assert (decision.verdict, decision.is_relevant) == (verdict, is_relevant)
    assert decision.reason.startswith(reason)


def test_more_comparisons_made_together_need_more_evidence() -> None:
    alone = compare([1.0, 1.0, 1.0], [1.1, 1.1, 1.1])
    many = compare(
        [1.0, 1.0, 1.0],
        [1.1, 1.1, 1.1],
        by=judgement(0.02, num_comparisons=100_000),
    )
    assert alone.verdict is Verdict.REGRESSION
    assert many.verdict is Verdict.INCONCLUSIVE


def test_launches_that_differ_widen_the_interval() -> None:
    calm, wild = compare([1.0] * 3, [1.1] * 3), compare([0.9, 1.0, 1.1], [1.0, 1.1, 1.2])
    assert calm.high is not None
    assert wild.high is not None
    assert wild.high > calm.high


@pytest.mark.parametrize("factor", [0.75, 0.9, 1.3])
def test_levels_that_contradict_the_values_decide_nothing(factor: float) -> None:
    before, after = three_launches([1.0] * 3), three_launches([1.08, 1.081, 1.082])
    value = after.median / before.median / 1.06
    comparison = compare_measurements(
        before,
        candidate=after,
        judgement=STRICT,
        levels=(np.array([1.0, 1.001, 1.002]), np.array([1.0, 1.001, 1.002]) * factor),
        machine_ratio=1.06,
    )
    assert comparison.ratio == pytest.approx(value)
    assert comparison.low is not None
    assert comparison.high is not None
    assert comparison.low <= value * (1 + 1e-9)
    assert value <= comparison.high * (1 + 1e-9)
    assert comparison.verdict is Verdict.INCONCLUSIVE


def test_two_launches_that_happen_to_agree_do_not_prove_a_change() -> None:
    comparison = compare([1.0, 1.0], [1.06, 1.06], by=judgement(0.04))
    assert comparison.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("launches", [(), (5,)])
def test_scatter_within_a_single_launch_counts(launches: tuple[int, ...]) -> None:
    calm = make_measurement("latency_cpu_s", samples=[1.0] * 5, launches=launches)
    wild = make_measurement("latency_cpu_s", samples=[0.2, 0.5, 1.0, 2.0, 5.0], launches=launches)
    other = make_measurement("latency_cpu_s", samples=[1.3] * 5)
    assert compare_measurements(calm, candidate=other, judgement=STRICT).is_significant
    assert not compare_measurements(wild, candidate=other, judgement=STRICT).is_significant
    assert not compare_measurements(other, candidate=wild, judgement=STRICT).is_significant


@pytest.mark.parametrize(
    ("before", "after", "verdict", "ratio"),
    [
        (1.0, 1.0, Verdict.IDENTICAL, 1.0),
        (0.0, 0.0, Verdict.IDENTICAL, 1.0),
        (1.0, 2.0, Verdict.REGRESSION, 2.0),
        (0.0, 2.0, Verdict.REGRESSION, None),
        (2.0, 0.0, Verdict.IMPROVEMENT, 0.0),
    ],
)
def test_counts_are_compared_exactly(
    before: float, after: float, verdict: Verdict, ratio: float | None
) -> None:
    comparison = compare([before], [after], metric="graph_breaks")
    assert (comparison.verdict, comparison.ratio) == (verdict, ratio)
    assert comparison.is_significant is (before != after)


def test_reason_of_a_count_names_both_sides(words: SnapshotAssertion) -> None:
    reasons = [compare([1.0, 1.0], [after], metric="graphs").reason for after in (1.0, 2.0)]
    assert reasons == words


@pytest.mark.parametrize("metric", ["num_kernels", "peak_bytes", "max_abs_error"])
def test_what_no_clock_measured_and_is_the_same_is_unchanged(
    metric: str, words: SnapshotAssertion
) -> None:
    lax = judgement(0.5)
    same = compare([35.0], [35.0, 35.0], metric=metric, by=lax)
    assert (same.verdict, same.ratio, same.low, same.high) == (Verdict.UNCHANGED, 1.0, 1.0, 1.0)
    assert same.reason == words
    for after in ([36.0], [35.0, 36.0]):
        comparison = compare([35.0], after, metric=metric, by=lax)
        assert comparison.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([5.0], [8.0], Verdict.REGRESSION),
        ([8.0], [5.0], Verdict.IMPROVEMENT),
        ([5.0, 5.0], [7.0, 8.0], Verdict.REGRESSION),
        # One compilation of the same code may have a kernel more than the next.
        ([5.0], [6.0], Verdict.INCONCLUSIVE),
        ([34.0], [35.0], Verdict.INCONCLUSIVE),
        ([5.0], [6.0, 8.0], Verdict.INCONCLUSIVE),
        ([200.0], [203.0], Verdict.INCONCLUSIVE),
    ],
)
def test_more_kernels_than_compilations_differ_by_are_a_change(
    before: list[float], after: list[float], verdict: Verdict
) -> None:
    comparison = compare(before, after, metric="num_kernels", by=judgement(0.5))
    assert comparison.verdict is verdict
    if verdict is not Verdict.INCONCLUSIVE:
        assert comparison.is_significant
        assert comparison.ratio == max(after) / max(before)


def test_reason_of_a_changed_number_of_kernels_has_both(words: SnapshotAssertion) -> None:
    comparison = compare([5.0], [8.0], metric="num_kernels", by=judgement(0.5))
    assert (comparison.reason, (comparison.low, comparison.high)) == (words, (1.6, 1.6))


def test_counts_that_are_the_same_in_other_launches_are_unchanged(
    words: SnapshotAssertion,
) -> None:
    comparison = compare([0.0, 3.0], [3.0, 0.0], metric="recompiles")
    assert (comparison.verdict, comparison.ratio) == (Verdict.UNCHANGED, 1.0)
    assert comparison.reason == words


def test_count_of_the_worst_launch_counts() -> None:
    assert compare([0.0, 0.0, 0.0], [0.0, 3.0, 0.0], metric="recompiles").is_failure


def test_unknown_metric_is_inconclusive(words: SnapshotAssertion) -> None:
    sample = make_measurement("flux", samples=[1.0])
    comparison = compare_measurements(sample, candidate=sample, judgement=STRICT)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.reason == words


def test_metric_without_a_better_direction_is_inconclusive(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    row = Metric(name="flux", unit="1", direction=Direction.NEITHER, description="")
    monkeypatch.setitem(METRICS, "flux", row)
    sample = make_measurement("flux", samples=[1.0])
    comparison = compare_measurements(sample, candidate=sample, judgement=STRICT)
    assert comparison.reason == words


def test_other_unit_is_inconclusive(words: SnapshotAssertion) -> None:
    comparison = compare_measurements(
        make_measurement(samples=[1.0]),
        candidate=make_measurement(samples=[1000.0], unit="ms"),
        judgement=STRICT,
    )
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.reason == words


@pytest.mark.parametrize(("before", "after"), [(0.0, 1.0), (1.0, -1.0)])
def test_numbers_without_a_ratio_are_inconclusive(before: float, after: float) -> None:
    comparison = compare([before], [after])
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.ratio is None


def test_error_rate_over_a_family_is_what_it_says() -> None:
    generator = np.random.default_rng(0)
    lax = judgement(0.05, floor=0.0)
    sides = 0.05 * generator.standard_normal((4000, 2, 3))
    verdicts = [
        compare_logs(
            before, after, direction=Direction.LOWER_IS_BETTER, judgement=lax
        ).is_significant
        for before, after in sides
    ]
    assert 0.005 < np.mean(verdicts) < 0.03


def test_what_a_whole_run_is_off_by_widens_the_interval_however_many_launches() -> None:
    shared = judgement(0.001, run_sd=0.03)
    levels = [1.0] * 50
    comparison = compare(levels, [1.06 * level for level in levels], by=shared)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    alone = judgement(0.001)
    assert compare(levels, [1.06] * 50, by=alone).verdict is Verdict.REGRESSION


@pytest.mark.parametrize(
    ("metric", "device", "sd"),
    [
        ("speedup", "cpu", 0.012),
        ("speedup", "cuda", 0.0),
        ("compile_cold_s", "cpu", 0.0),
        ("throughput_samples_per_s", "cpu", 0.015),
        ("eager_latency_s", "cpu", 0.015),
    ],
)
def test_spread_between_runs_depends_on_metric_and_device(
    metric: str, device: str, sd: float
) -> None:
    assert run_sd(metric, device=device) == sd


@pytest.mark.parametrize(
    ("metric", "device", "is_quiet", "sd"),
    [
        ("latency_s", "cpu", True, 0.08),
        ("latency_s", "cuda", True, 0.04),
        ("compile_cold_s", "cuda", True, 0.10),
        ("compile_cold_s", "cpu", True, 0.15),
        ("compile_cold_s", "cpu", False, 0.5),
        ("compile_cold_cpu_s", "cpu", False, 0.05),
        ("peak_bytes", "cpu", False, 1e-4),
        ("peak_bytes", "cuda", True, 0.01),
        ("throughput_samples_per_s", "cpu", True, 0.08),
        ("throughput_tokens_per_s", "cuda", True, 0.04),
        ("eager_latency_cpu_s", "cpu", True, 0.03),
        ("flux", "cpu", True, 0.05),
    ],
)
def test_prior_spread_depends_on_metric_device_and_neighbours(
    metric: str, device: str, is_quiet: bool, sd: float
) -> None:
    assert prior_sd(metric, device=device, is_quiet=is_quiet) == sd


@pytest.mark.parametrize(
    ("metric", "device", "sd"),
    [
        ("latency_cpu_s", "cpu", 0.02),
        ("speedup", "cpu", 0.02),
        ("latency_s", "cuda", 0.04),
        ("throughput_tokens_per_s", "cpu", 0.04),
        ("eager_latency_cpu_s", "cpu", 0.02),
    ],
)
def test_prior_spread_of_undisturbed_launches(metric: str, device: str, sd: float) -> None:
    assert calm_sd(metric, device=device) == sd


@given(
    st.lists(st.floats(min_value=0.5, max_value=2.0), min_size=1, max_size=5),
    st.lists(st.floats(min_value=0.5, max_value=2.0), min_size=1, max_size=5),
    st.floats(min_value=1e-3, max_value=1e3),
)
def test_comparison_does_not_depend_on_the_unit_or_the_order_of_launches(
    baseline: list[float], candidate: list[float], factor: float
) -> None:
    assume(sorted(baseline) != sorted(candidate))
    plain = compare(baseline, candidate)
    scaled = compare(
        [factor * level for level in reversed(baseline)],
        [factor * level for level in sorted(candidate)],
    )
    assert plain.ratio is not None
    assert scaled.ratio == pytest.approx(plain.ratio)
    assert scaled.low == pytest.approx(plain.low)


@given(st.lists(st.floats(min_value=0.5, max_value=2.0), min_size=1, max_size=5))
def test_swapping_the_sides_inverts_the_ratio(levels: list[float]) -> None:
    one, other = compare([1.0, 1.1], levels), compare(levels, [1.0, 1.1])
    assert one.ratio is not None
    assert one.high is not None
    assert other.ratio is not None
    assert other.low is not None
    assert math.isclose(one.ratio * other.ratio, 1.0)
    assert math.isclose(one.high * other.low, 1.0)


@pytest.mark.parametrize("times", [1e-320, 1e304])
def test_levels_as_far_apart_as_numbers_go_have_a_ratio(times: float) -> None:
    baseline, candidate = np.log([1e-3] * 3), np.log([times * 1e3] * 3)
    comparison = compare_logs(
        baseline,
        candidate,
        direction=Direction.LOWER_IS_BETTER,
        judgement=STRICT,
    )
    assert comparison.ratio is not None
    assert comparison.ratio > 0
    assert math.isfinite(comparison.ratio * 100)
    assert math.isfinite(100 / comparison.ratio)


@pytest.mark.parametrize("odd", [4e-311, 6e200, -1e305])
@pytest.mark.parametrize("metric", ["latency_s", "speedup", "graph_breaks"])
def test_a_sample_out_of_range_is_inconclusive_and_says_so(odd: float, metric: str) -> None:
    plain, wild = (make_measurement(metric, samples=[2.0, 3.0, value]) for value in (2.5, odd))
    for sides in ((plain, wild), (wild, plain)):
        comparison = compare_measurements(sides[0], candidate=sides[1], judgement=judgement(0.01))
        assert comparison.verdict is Verdict.INCONCLUSIVE
        assert "out of range" in comparison.reason

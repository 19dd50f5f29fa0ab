"""The verdict of a suspect's re-measurement."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import CaseResult, Outcome, Verdict
from compile_hud.runner.analysis.comparison.measurements import Comparison
from compile_hud.runner.analysis.comparison.paired import PairStandard, compare_pair
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.confirmation.verdict import (
    BaselineHistory,
    Conclusion,
    ConfirmationResult,
    Method,
    bad_in_both,
    confirm_by_history,
    confirm_interleaved,
    confirm_outcome,
    not_measured,
)
from compile_hud.runner.analysis.judging.machine_state import MachineChange, level_change
from tests.support.builders import make_alert, make_case, make_measurement, make_result

CONFIRMED, REFUTED, INCONCLUSIVE = (
    Conclusion.CONFIRMED,
    Conclusion.REFUTED,
    Conclusion.INCONCLUSIVE,
)
SPREAD = (0.999, 1.0, 1.001)
EAGER, COMPILED = make_case(mode="eager"), make_case()


def nights(num: int, level: float, *, cv: float = 0.004, seed: int = 0) -> list[float]:
    return [float(v) for v in level * (1 + cv * np.random.default_rng(seed).standard_normal(num))]


def suspect(**values: Any) -> Alert:
    """Return an alert about 12 % more CPU time."""
    return make_alert(**{"case": EAGER, "metric": "latency_cpu_s", "candidate": 0.0112, **values})


def measured(metrics: Mapping[str, float], **values: Any) -> CaseResult:
    """Return a result of three samples at these levels; counts are whole numbers."""
    return make_result(
        **{"case": EAGER, **values},
        measurements=[
            make_measurement(
                name, samples=[level if name == "graph_breaks" else level * f for f in SPREAD]
            )
            for name, level in metrics.items()
        ],
    )


def reference(now: float, *, cv: float = 0.004) -> MachineChange:
    """Return how a reference case moved from 5 ms to `now`."""
    before = nights(10, 0.005, cv=cv, seed=1)
    return level_change("ref_gemm", before, [now], metric="latency_cpu_s", device="cpu")


def by_history(
    level: float,
    *,
    alert: Alert | None = None,
    references: Sequence[MachineChange] = (),
    past: Sequence[float] | None = None,
    **metrics: float,
) -> ConfirmationResult:
    alert = alert or suspect()
    return confirm_by_history(
        alert,
        measured({alert.metric: level, **metrics}, case=alert.case),
        history=BaselineHistory(
            medians=nights(10, 0.010) if past is None else past,
            eager={"eager_latency_cpu_s": nights(10, 0.020, seed=2)},
            references=references,
        ),
    )


def test_a_bad_level_on_a_steady_machine_is_confirmed() -> None:
    finding = by_history(0.0112, references=[reference(0.005)])
    assert (finding.conclusion, finding.method) == (CONFIRMED, Method.HISTORY)
    assert finding.cause.kind == "eager"
    assert finding.comparison is not None
    assert finding.comparison.ratio == pytest.approx(1.12, abs=0.01)
    assert finding.baseline == pytest.approx(0.010, rel=0.005)
    assert finding.candidate == pytest.approx(0.0112)


def test_a_level_that_is_back_is_refuted() -> None:
    finding = by_history(0.0100, references=[reference(0.005)])
    assert (finding.conclusion, finding.cause.kind) == (REFUTED, "unknown")


def test_a_level_halfway_is_not_decided() -> None:
    past = nights(10, 0.010, cv=0.02)
    assert by_history(0.0107, past=past).conclusion is INCONCLUSIVE


def test_an_interval_that_leaves_out_the_suspicion_refutes_it_though_not_the_floor() -> None:
    past = nights(10, 0.010, cv=0.02)
    assert by_history(0.0100, past=past, alert=suspect(candidate=0.012)).conclusion is REFUTED
    assert by_history(0.0100, past=past, alert=suspect(candidate=0.0106)).conclusion is INCONCLUSIVE


def test_a_machine_that_explains_it_all_refutes_it(words: SnapshotAssertion) -> None:
    finding = by_history(0.0112, references=[reference(0.005), reference(0.0056)])
    assert (finding.conclusion, finding.cause.kind) == (REFUTED, "machine")
    assert finding.cause.text == words
    assert finding.comparison is not None
    assert finding.comparison.ratio == pytest.approx(1.0, abs=0.02)


def test_a_machine_that_explains_a_part_leaves_the_rest() -> None:
    finding = by_history(0.0140, references=[reference(0.0054)])
    assert finding.conclusion is CONFIRMED
    assert finding.comparison is not None
    assert finding.comparison.ratio == pytest.approx(1.40 / 1.08, abs=0.02)
    assert "corrected by ref_gemm" in finding.reason


def test_a_machine_that_may_have_moved_leaves_it_undecided() -> None:
    # Six percent, with an interval that does not leave out no change.
    unsteady = reference(0.0053, cv=0.05)
    assert unsteady.verdict == "unknown"
    finding = by_history(0.0107, references=[unsteady])
    assert (finding.conclusion, finding.cause.kind) == (INCONCLUSIVE, "unknown")


def test_a_machine_that_got_faster_excuses_nothing() -> None:
    finding = by_history(0.0112, references=[reference(0.0045)])
    assert finding.conclusion is CONFIRMED
    assert finding.comparison is not None
    assert finding.comparison.ratio == pytest.approx(1.12, abs=0.01)


def test_without_reference_cases_a_time_is_not_decided(words: SnapshotAssertion) -> None:
    finding = by_history(0.0112)
    assert finding.conclusion is INCONCLUSIVE
    assert finding.reason == words


def test_a_graph_of_eager_kernels_has_eager_iterations_for_witnesses() -> None:
    graph = dataclasses.replace(EAGER, variant="cuda-graph", backend="cuda_graph")
    finding = by_history(0.0112, alert=suspect(case=graph), eager_latency_cpu_s=0.020)
    assert (finding.conclusion, finding.cause.kind) == (CONFIRMED, "compiler")


def test_steady_eager_iterations_need_no_reference_case() -> None:
    finding = by_history(0.0112, alert=suspect(case=COMPILED), eager_latency_cpu_s=0.020)
    assert (finding.conclusion, finding.cause.kind) == (CONFIRMED, "compiler")


def test_a_ratio_needs_no_reference_case() -> None:
    alert = suspect(case=COMPILED, metric="speedup", baseline=2.0, candidate=1.7)
    finding = by_history(1.7, alert=alert, past=nights(10, 2.0))
    assert finding.conclusion is CONFIRMED
    assert by_history(2.0, alert=alert, past=nights(10, 2.0)).conclusion is REFUTED


def test_counts_are_compared_with_the_worst_of_before(words: SnapshotAssertion) -> None:
    alert = suspect(metric="graph_breaks", unit="1", baseline=1.0, candidate=3.0)
    assert by_history(3, alert=alert, past=[1, 2, 1]).conclusion is CONFIRMED
    finding = by_history(2, alert=alert, past=[1, 2, 1])
    assert finding.conclusion is REFUTED
    assert finding.reason == words
    assert by_history(2, alert=alert, past=[]).conclusion is INCONCLUSIVE


def test_accuracy_is_compared_with_its_distance_from_the_ideal() -> None:
    alert = suspect(metric="cosine_similarity", unit="1", baseline=0.9999, candidate=0.99)
    past = BaselineHistory(medians=[0.9999, 0.9998, 0.9999])

    def again(cosine: float) -> Conclusion:
        measurement = make_measurement("cosine_similarity", samples=[1.0, cosine])
        result = make_result(case=EAGER, measurements=[measurement])
        return confirm_by_history(alert, result, history=past).conclusion

    assert again(0.99) is CONFIRMED
    assert again(0.9998) is REFUTED


def test_too_short_a_past_says_so(words: SnapshotAssertion) -> None:
    finding = by_history(0.0112, past=[0.010, 0.010])
    assert finding.conclusion is INCONCLUSIVE
    assert finding.reason == words


def test_what_was_not_measured_says_so(words: SnapshotAssertion) -> None:
    past = BaselineHistory(medians=nights(10, 0.010))
    failed = make_result(case=EAGER, outcome=Outcome.FAILED, reason="it broke")
    finding = confirm_by_history(suspect(), failed, history=past)
    assert finding.conclusion is INCONCLUSIVE
    assert finding.reason == words
    other = confirm_by_history(suspect(), measured({"latency_s": 0.01}), history=past)
    assert other.reason == words
    zero = make_result(case=EAGER, measurements=[make_measurement("latency_cpu_s", samples=[0.0])])
    assert confirm_by_history(suspect(), zero, history=past).conclusion is INCONCLUSIVE


@given(seed=st.integers(0, 10**6), factor=st.sampled_from([1e-6, 1.0, 1e3]))
def test_the_unit_does_not_matter(seed: int, factor: float) -> None:
    past = nights(10, 0.010, cv=0.02, seed=seed)
    one = by_history(0.0110, past=past, references=[reference(0.005)])
    alert = suspect(baseline=0.010 * factor, candidate=0.0112 * factor)
    other = by_history(
        0.0110 * factor,
        past=[value * factor for value in past],
        alert=alert,
        references=[reference(0.005)],
    )
    assert one.conclusion is other.conclusion


@given(seed=st.integers(0, 10**6))
def test_a_worse_measurement_is_never_less_confirmed(seed: int) -> None:
    past = nights(10, 0.010, cv=0.01, seed=seed)
    ranks = [REFUTED, INCONCLUSIVE, CONFIRMED]
    levels = [0.0098, 0.0102, 0.0106, 0.0110, 0.0120]
    conclusions = [
        ranks.index(by_history(level, past=past, references=[reference(0.005)]).conclusion)
        for level in levels
    ]
    assert conclusions == sorted(conclusions)


@pytest.mark.parametrize(
    ("ratio", "high", "conclusion"),
    [(1.028, 1.058, REFUTED), (1.034, 1.058, INCONCLUSIVE), (1.028, 1.062, INCONCLUSIVE)],
)
def test_only_what_is_nearer_to_before_than_to_the_suspicion_is_refuted(
    ratio: float, high: float, conclusion: Conclusion, words: SnapshotAssertion
) -> None:
    # Six percent are suspected; the floor of five is in the interval.
    change = Comparison(
        ratio=ratio,
        low=1.001,
        high=high,
        verdict=Verdict.INCONCLUSIVE,
        is_significant=True,
        is_relevant=False,
        reason="more launches are needed",
    )
    row = CaseComparison(
        case=EAGER, metric="latency_cpu_s", unit="s", baseline=1, candidate=ratio, comparison=change
    )
    sides = (side(0.01, seed=1), side(0.01, seed=2))
    finding = confirm_interleaved(suspect(candidate=0.0106), [row], sides=sides)
    assert finding.conclusion is conclusion
    assert finding.reason == words


def trials(change: float, *, spread: float, num: int = 300) -> Counter[Conclusion]:
    """Return what becomes of suspects of code that is slower by `change`, night by night.

    Case and machine differ by `spread` from one night to the next, the machine by half of it; what
    was suspected is what the bad night showed, or, with nothing changed, just beyond the noise.
    """
    conclusions: Counter[Conclusion] = Counter()
    for seed in range(num):
        generator = np.random.default_rng(10_000 + seed)
        past, machine = (
            [float(v) for v in level * np.exp(generator.normal(0, sd, 14))]
            for level, sd in ((0.010, spread), (0.005, spread / 2))
        )
        now = level_change(
            "ref_gemm",
            machine,
            [0.005 * math.exp(generator.normal(0, spread / 2))],
            metric="latency_cpu_s",
            device="cpu",
        )
        suspected = change or 3.5 * spread + 0.035
        again = 0.010 * (1 + change) * math.exp(generator.normal(0, spread))
        alert = suspect(candidate=0.010 * (1 + suspected))
        conclusions[by_history(again, alert=alert, past=past, references=[now]).conclusion] += 1
    return conclusions


def test_equal_code_is_mostly_refuted_and_hardly_ever_confirmed() -> None:
    for spread in (0.01, 0.02):
        conclusions = trials(0.0, spread=spread)
        assert conclusions[CONFIRMED] <= 3
        assert conclusions[REFUTED] >= 225


def test_slower_code_is_mostly_confirmed_and_hardly_ever_refuted() -> None:
    steady, unsteady = trials(0.10, spread=0.01), trials(0.10, spread=0.02)
    assert steady[CONFIRMED] >= 297
    assert unsteady[CONFIRMED] >= 195
    assert max(steady[REFUTED], unsteady[REFUTED]) <= 6


def side(level_s: float, *, seed: int, eager_s: float | None = None, num: int = 12) -> CaseResult:
    """Return a result of `num` launches around these levels."""
    generator = np.random.default_rng(seed)

    def samples(middle: float) -> list[float]:
        return [float(v) for v in middle * np.exp(generator.normal(0, 0.005, num))]

    levels = {"latency_cpu_s": level_s} | ({"eager_latency_cpu_s": eager_s} if eager_s else {})
    return make_result(
        case=EAGER if eager_s is None else COMPILED,
        measurements=[
            make_measurement(name, samples=samples(level), launches=[1] * num)
            for name, level in levels.items()
        ],
    )


def in_turn(old: CaseResult, new: CaseResult, *, alert: Alert | None = None) -> ConfirmationResult:
    rows = compare_pair(old, candidate=new, standard=PairStandard())
    return confirm_interleaved(alert or suspect(case=old.case), rows, sides=(old, new))


def test_two_toolchains_that_differ_confirm_it_and_tell_the_side() -> None:
    finding = in_turn(side(0.010, seed=1), side(0.0112, seed=2))
    assert (finding.conclusion, finding.method, finding.cause.kind) == (
        CONFIRMED,
        Method.IN_TURN,
        "eager",
    )
    compiled = in_turn(side(0.010, seed=1, eager_s=0.02), side(0.0112, seed=2, eager_s=0.02))
    assert (compiled.conclusion, compiled.cause.kind) == (CONFIRMED, "compiler")
    both = in_turn(side(0.010, seed=1, eager_s=0.02), side(0.0112, seed=2, eager_s=0.0224))
    assert (both.conclusion, both.cause.kind) == (CONFIRMED, "eager")


def test_two_toolchains_that_are_alike_refute_it() -> None:
    finding = in_turn(side(0.010, seed=1), side(0.010, seed=2))
    assert (finding.conclusion, finding.cause.text) == (REFUTED, "")


def test_an_improvement_refutes_it() -> None:
    assert in_turn(side(0.010, seed=1), side(0.008, seed=2)).conclusion is REFUTED


def test_a_metric_of_one_side_alone_is_not_decided(words: SnapshotAssertion) -> None:
    alert = suspect(metric="speedup", baseline=2.0, candidate=1.7)
    finding = in_turn(side(0.010, seed=1), side(0.0112, seed=2), alert=alert)
    assert finding.conclusion is INCONCLUSIVE
    assert finding.reason == words


def test_a_size_has_no_cause_by_clocks() -> None:
    change = Comparison(
        ratio=1.2,
        low=1.2,
        high=1.2,
        verdict=Verdict.REGRESSION,
        is_significant=True,
        is_relevant=True,
        reason="more",
    )
    row = CaseComparison(
        case=EAGER, metric="peak_bytes", unit="B", baseline=10, candidate=12, comparison=change
    )
    alert = suspect(metric="peak_bytes", baseline=10.0, candidate=12.0)
    sides = (side(0.01, seed=1), side(0.01, seed=2))
    finding = confirm_interleaved(alert, [row], sides=sides)
    assert (finding.conclusion, finding.cause.kind) == (CONFIRMED, "unknown")


def test_what_is_bad_under_both_toolchains_is_confirmed_and_not_the_toolchains() -> None:
    refuted = in_turn(side(0.0112, seed=1), side(0.0112, seed=2))
    bad = by_history(0.0112, references=[reference(0.005)])
    finding = bad_in_both(refuted, bad)
    assert (finding.conclusion, finding.cause.kind) == (CONFIRMED, "eager")
    assert finding.cause.text.endswith("not the toolchain")
    by_compiler = dataclasses.replace(bad, cause=dataclasses.replace(bad.cause, kind="compiler"))
    assert bad_in_both(refuted, by_compiler).cause.kind == "unknown"
    good = by_history(0.0100, references=[reference(0.005)])
    assert bad_in_both(refuted, good) is refuted


@pytest.mark.parametrize(
    ("outcome", "reason", "conclusion"),
    [
        ("failed", "it broke", CONFIRMED),
        ("timeout", "", CONFIRMED),
        ("ok", "", REFUTED),
        ("skipped", "", INCONCLUSIVE),
        ("lost", "", INCONCLUSIVE),
    ],
)
def test_a_failure_is_confirmed_by_failing_again(
    outcome: str, reason: str, conclusion: Conclusion, words: SnapshotAssertion
) -> None:
    finding = confirm_outcome(make_result(case=EAGER, outcome=outcome, reason=reason))
    assert (finding.conclusion, finding.method) == (conclusion, Method.REPEAT)
    assert finding.reason == words


def test_what_is_not_measured_is_inconclusive_with_its_reason() -> None:
    finding = not_measured("no time")
    assert (finding.conclusion, finding.reason, finding.method) == (
        INCONCLUSIVE,
        "no time",
        Method.NONE,
    )

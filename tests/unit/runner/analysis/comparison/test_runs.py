from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import CaseResult, Measurement, Outcome, Run, Verdict
from compile_hud.runner.analysis.comparison.runs import (
    OUTCOME,
    CaseComparison,
    compare_results,
    environment_differences,
    has_failure,
)
from compile_hud.runner.analysis.errors import NotComparableError
from compile_hud.runner.analysis.stats.rounds import results_by_case
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)
from tests.support.texts import without_numbers

NUM_SAMPLES = 9


def measured(levels: Mapping[str, Sequence[float]]) -> list[Measurement]:
    """Return measurements of constant launches, `metric -> level of each launch`."""
    return [
        make_measurement(
            metric,
            samples=[level for level in launches for _ in range(NUM_SAMPLES)],
            launches=(NUM_SAMPLES,) * len(launches),
        )
        for metric, launches in levels.items()
    ]


def result(levels: Mapping[str, Sequence[float]], *, device: str = "cpu") -> CaseResult:
    case = make_case(device=device)
    return make_result(f"result-{device}", case=case, measurements=measured(levels))


def row(rows: Sequence[CaseComparison], metric: str) -> CaseComparison:
    return next(item for item in rows if item.metric == metric)


def simulated_run(generator: np.random.Generator, *, slowdown: float = 1.0) -> list[CaseResult]:
    """Return eager and default as a busy two-core machine would measure them."""
    results = []
    for mode in ("eager", "default"):
        wall, cpu, eager_wall, speedup = [], [], [], []
        for _ in range(3):
            level = 0.01 * np.exp(0.04 * generator.standard_normal())
            eager = level * 1.4 * np.exp(0.02 * generator.standard_normal())
            jitter = 1 + 0.03 * np.abs(generator.standard_normal((3, 40)))
            busy = 1 + 0.3 * generator.random()
            factor = slowdown if mode == "default" else 1.0
            cpu.extend(level * factor * jitter[0])
            wall.extend(level * factor * jitter[1] * busy)
            eager_wall.extend(eager * jitter[2] * busy)
            speedup.extend(eager / (level * factor) / jitter[0])
        samples = {"latency_s": wall, "latency_cpu_s": cpu}
        if mode == "default":
            samples |= {"eager_latency_s": eager_wall, "speedup": speedup}
        made = [
            make_measurement(metric, samples=[float(item) for item in items], launches=(40,) * 3)
            for metric, items in samples.items()
        ]
        results.append(make_result(mode, case=make_case(mode=mode), measurements=made))
    return results


def test_repeats_of_one_build_give_no_verdict_and_a_planted_slowdown_does() -> None:
    generator = np.random.default_rng(7)
    false, num_detected = 0, 0
    for _ in range(20):
        baseline = simulated_run(generator)
        rows = compare_results(baseline, simulated_run(generator))
        verdicts = {item.comparison.verdict for item in rows}
        false += bool(verdicts & {Verdict.REGRESSION, Verdict.IMPROVEMENT})
        rows = compare_results(baseline, simulated_run(generator, slowdown=1.15))
        num_detected += has_failure(rows)
    assert false <= 1
    assert num_detected == 20


def test_rows_are_paired_by_case_whatever_the_order() -> None:
    eager = make_result("e", case=make_case(mode="eager"), measurements=measured({"speedup": [1]}))
    default = make_result("d", case=make_case(), measurements=measured({"speedup": [2]}))
    rows = compare_results([eager, default], [default, eager])
    assert [(item.case.mode, item.metric) for item in rows] == [
        ("eager", OUTCOME),
        ("eager", "speedup"),
        ("default", OUTCOME),
        ("default", "speedup"),
    ]
    assert [item.baseline for item in rows] == [None, 1.0, None, 2.0]


def test_metrics_that_are_not_judged_have_no_row() -> None:
    levels = {"latency_cpu_s": [1.0], "throughput_samples_per_s": [1.0], "flux": [1.0]}
    rows = compare_results([result(levels)], [result(levels)])
    assert [item.metric for item in rows] == [OUTCOME, "latency_cpu_s"]


def test_metric_of_one_side_only_has_no_row() -> None:
    rows = compare_results([result({"speedup": [1.0]})], [result({"latency_cpu_s": [1.0]})])
    assert [item.metric for item in rows] == [OUTCOME]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (Outcome.OK, Outcome.OK, Verdict.UNCHANGED),
        (Outcome.OK, Outcome.TIMEOUT, Verdict.REGRESSION),
        (Outcome.OK, Outcome.INACCURATE, Verdict.REGRESSION),
        (Outcome.FAILED, Outcome.OK, Verdict.IMPROVEMENT),
        (Outcome.FAILED, Outcome.OUT_OF_MEMORY, Verdict.UNCHANGED),
        (Outcome.OK, Outcome.SKIPPED, Verdict.INCONCLUSIVE),
        (Outcome.SKIPPED, Outcome.FAILED, Verdict.INCONCLUSIVE),
        (Outcome.OK, Outcome.NODE_LOST, Verdict.INCONCLUSIVE),
        (Outcome.SKIPPED, Outcome.SKIPPED, Verdict.UNCHANGED),
    ],
)
def test_outcomes_compare(before: Outcome, after: Outcome, verdict: Verdict) -> None:
    rows = compare_results([make_result("a", outcome=before)], [make_result("b", outcome=after)])
    assert row(rows, OUTCOME).comparison.verdict is verdict
    assert has_failure(rows) is (verdict is Verdict.REGRESSION)


def test_reason_of_a_new_failure_is_reported(words: SnapshotAssertion) -> None:
    failed = make_result(outcome="failed", reason="CppCompileError")
    (row,) = compare_results([make_result(measurements=[make_measurement("flux")])], [failed])
    assert row.comparison.reason == words


def test_case_of_one_side_only_is_inconclusive(words: SnapshotAssertion) -> None:
    one, other = make_result(case=make_case("bert")), make_result(case=make_case("vit"))
    rows = compare_results([one], [other])
    assert [item.comparison.reason for item in rows] == words
    assert not has_failure(rows)


def test_floor_scales_with_that_of_the_metric() -> None:
    levels = {"speedup": [1.0] * 9, "compile_cold_s": [1.0] * 99, "graphs": [1.0]}
    slower = {"speedup": [0.85] * 9, "compile_cold_s": [1.2] * 99, "graphs": [2.0]}

    def verdicts(fail_above: float) -> list[bool]:
        rows = compare_results([result(levels)], [result(slower)], fail_above=fail_above)
        return [item.comparison.is_failure for item in rows if item.metric != OUTCOME]

    assert verdicts(0.05) == [True, True, True]
    assert verdicts(0.10) == [True, False, True]
    assert verdicts(0.30) == [False, False, True]


def test_case_measured_in_rounds_is_taken_together() -> None:
    rounds = [result({"speedup": [level]}) for level in (1.0, 1.2, 1.1)]
    rows = compare_results(rounds, [result({"speedup": [1.0]})])
    assert row(rows, "speedup").baseline == 1.1


def test_both_sides_differ_by_the_ratio_next_to_them() -> None:
    # By the means of the logarithms it is slower by 9 %.
    before, after = ([1.5, 1.0, 2.0], [1.4, 1.4, 2.0])
    rows = compare_results(
        [result({"compile_cold_s": before})], [result({"compile_cold_s": after})]
    )
    comparison = row(rows, "compile_cold_s")
    assert comparison.baseline is not None
    assert comparison.candidate is not None
    assert comparison.comparison.ratio == pytest.approx(comparison.candidate / comparison.baseline)


def test_counts_stand_with_their_medians() -> None:
    rows = compare_results([result({"graphs": [1.0, 4.0, 4.0]})], [result({"graphs": [0.0]})])
    assert (row(rows, "graphs").baseline, row(rows, "graphs").candidate) == (4.0, 0.0)


def test_a_level_of_0_leaves_the_median() -> None:
    rows = compare_results([result({"speedup": [0.0, 2.0, 3.0]})], [result({"speedup": [1.0]})])
    assert row(rows, "speedup").baseline == 2.0


def test_metric_that_a_round_lacks_is_taken_from_the_others() -> None:
    rounds = [result({"speedup": [1.0]}), result({"graphs": [3.0]})]
    rows = compare_results(rounds, rounds)
    assert (row(rows, "speedup").baseline, row(rows, "graphs").baseline) == (1.0, 3.0)


def test_rounds_without_launch_counts_are_a_launch_each() -> None:
    rounds = [
        make_result(measurements=[make_measurement("speedup", samples=[level] * num_samples)])
        for level, num_samples in ((1.0, 3), (2.0, 1), (3.0, 1))
    ]
    rows = compare_results(rounds, rounds)
    assert row(rows, "speedup").baseline == 2.0


@pytest.mark.parametrize("is_failed_first", [True, False])
def test_one_failed_round_makes_the_case_failed(is_failed_first: bool) -> None:
    rounds = [result({"speedup": [1.0]}), make_result(outcome="failed")]
    if is_failed_first:
        rounds.reverse()
    rows = compare_results([result({"speedup": [1.0]})], rounds)
    assert row(rows, OUTCOME).comparison.verdict is Verdict.REGRESSION


def test_other_fingerprint_is_refused_with_the_facts_that_differ(words: SnapshotAssertion) -> None:
    with pytest.raises(NotComparableError) as caught:
        compare_results(make_document(run_on("a", "550")), make_document(run_on("b", "560")))
    assert str(caught.value) == (words)


def test_measured_peaks_are_no_difference_of_environments(words: SnapshotAssertion) -> None:
    one, other = (
        make_run(fingerprint=letter * 64, environment={"peaks": peak, "num_cpus": 2})
        for letter, peak in (("a", 1.0), ("b", 2.0))
    )
    assert environment_differences(one, candidate=other) == ()
    with pytest.raises(NotComparableError) as caught:
        compare_results(make_document(one), make_document(other))
    assert str(caught.value) == words


def test_other_fingerprint_without_recorded_facts_is_refused_too(words: SnapshotAssertion) -> None:
    one, other = make_run(fingerprint="a" * 64), make_run(fingerprint="b" * 64)
    with pytest.raises(NotComparableError) as caught:
        compare_results(make_document(one), make_document(other))
    assert str(caught.value) == words


@pytest.mark.parametrize("is_document_first", [True, False])
def test_results_without_their_run_cannot_be_refused(is_document_first: bool) -> None:
    document = make_document(run_on("a", "550"))
    sides = (document, document.results) if is_document_first else (document.results, document)
    assert compare_results(*sides)


def test_same_fingerprint_compares_whatever_else_differs() -> None:
    one, other = run_on("a", "550"), run_on("a", "560")
    assert compare_results(make_document(one), make_document(other))
    names = [item.name for item in environment_differences(one, candidate=other)]
    assert names == ["driver"]


def run_on(letter: str, driver: str) -> Run:
    """Return a run whose torch differs with the environment, as it does after an upgrade."""
    return make_run(
        f"run-{letter}",
        fingerprint=letter * 64,
        environment={"driver": driver, "torch_version": f"2.13-{letter}", "cpu": "x"},
    )


def reference_result(latency_s: float) -> CaseResult:
    case = make_case("ref_gemm", family="reference", mode="eager", device="cuda")
    return make_result("ref", case=case, measurements=measured({"latency_s": [latency_s] * 3}))


def test_reference_cases_have_no_rows_and_fail_nothing() -> None:
    rows = compare_results([reference_result(0.010)], [reference_result(0.020)])
    assert rows == []


def test_a_time_that_moved_as_the_machine_did_is_inconclusive_and_the_ratio_is_judged(
    words: SnapshotAssertion,
) -> None:
    before = result({"latency_s": [0.010] * 3, "speedup": [2.0] * 3}, device="cuda")
    after = result({"latency_s": [0.012] * 3, "speedup": [2.0] * 3}, device="cuda")
    rows = compare_results([before, reference_result(0.01)], [after, reference_result(0.012)])
    latency = row(rows, "latency_s").comparison
    assert latency.verdict is Verdict.INCONCLUSIVE
    assert latency.ratio == pytest.approx(1.2)
    assert without_numbers(latency.reason) == words
    assert row(rows, "speedup").comparison.verdict is Verdict.IDENTICAL
    assert not has_failure(rows)


def test_a_time_that_moved_alone_is_a_regression() -> None:
    before, after = (result({"latency_s": [level] * 3}, device="cuda") for level in (0.01, 0.012))
    rows = compare_results([before, reference_result(0.01)], [after, reference_result(0.01)])
    assert row(rows, "latency_s").comparison.verdict is Verdict.REGRESSION


def test_a_ratio_or_a_size_is_never_the_machines() -> None:
    before = result({"peak_bytes": [1e6] * 3}, device="cuda")
    after = result({"peak_bytes": [1.2e6] * 3}, device="cuda")
    rows = compare_results([before, reference_result(0.01)], [after, reference_result(0.012)])
    assert row(rows, "peak_bytes").comparison.verdict is Verdict.REGRESSION


def test_a_dearer_compilation_shows_in_cpu_time_on_a_busy_machine() -> None:
    busy = {"eager_latency_s": (0.02,) * 3, "eager_latency_cpu_s": (0.01,) * 3}
    before = result({**busy, "compile_cold_s": (10.0,), "compile_cold_cpu_s": (5.0,)})
    after = result({**busy, "compile_cold_s": (20.0,), "compile_cold_cpu_s": (10.0,)})
    rows = compare_results([before], [after])
    assert row(rows, "compile_cold_s").comparison.verdict is Verdict.INCONCLUSIVE
    assert row(rows, "compile_cold_cpu_s").comparison.verdict is Verdict.REGRESSION


def test_rounds_of_one_side_count_their_launches_together() -> None:
    first = make_result(details={"num_launches": 1, "core": 1}, finished_at=START)
    later = START + timedelta(minutes=5)
    second = make_result(details={"num_launches": 2, "core": 0}, finished_at=later)
    (merged,) = results_by_case([first, second]).values()
    assert merged.details == {"num_launches": 3, "core": 1}
    assert merged.finished_at == later

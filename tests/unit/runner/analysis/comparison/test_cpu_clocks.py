"""Changes of an absolute time on a CPU."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Case, CaseResult, Measurement, Verdict
from compile_hud.runner.analysis.comparison.measurements import Comparison
from compile_hud.runner.analysis.comparison.runs import compare_results
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.texts import without_numbers

SAME, SLOW, SLOWER = [1.0] * 3, [1.3] * 3, [2.0] * 3
REGRESSION, INCONCLUSIVE = Verdict.REGRESSION, Verdict.INCONCLUSIVE


def compare(
    baseline: dict[str, list[float]],
    candidate: dict[str, list[float]],
    *,
    case: Case | None = None,
) -> dict[str, Comparison]:
    """Return the comparisons by metric; each number is the level of one launch of five samples."""
    sides = [
        make_result(
            case=case or make_case(),
            measurements=[
                make_measurement(
                    metric,
                    samples=[level for level in launches for _ in range(5)],
                    launches=(5,) * len(launches),
                )
                for metric, launches in levels.items()
            ],
        )
        for levels in (baseline, candidate)
    ]
    return {row.metric: row.comparison for row in compare_results([sides[0]], [sides[1]])}


def times(
    wall: list[float],
    cpu: list[float],
    *,
    eager_wall: list[float] | None = None,
    eager_cpu: list[float] | None = None,
) -> dict[str, list[float]]:
    named = {
        "latency_s": wall,
        "latency_cpu_s": cpu,
        "eager_latency_s": eager_wall,
        "eager_latency_cpu_s": eager_cpu,
    }
    return {name: levels for name, levels in named.items() if levels is not None}


@pytest.mark.parametrize("metric", ["latency_s", "latency_cpu_s"])
def test_machine_that_is_slower_for_a_while_is_no_regression(metric: str) -> None:
    before, after = {metric: SAME, "pace_s": SAME}, {metric: SLOWER, "pace_s": SLOWER}
    comparison = compare(before, after)[metric]
    assert comparison.ratio == pytest.approx(1.0)
    assert not comparison.is_significant


@pytest.mark.parametrize("metric", ["latency_s", "latency_cpu_s"])
def test_code_that_is_slower_on_a_faster_machine_is_a_regression(metric: str) -> None:
    before, after = {metric: SAME, "pace_s": SLOWER}, {metric: SLOW, "pace_s": SAME}
    comparison = compare(before, after)[metric]
    assert comparison.verdict is REGRESSION
    assert comparison.ratio == pytest.approx(2.6)


def test_pace_itself_is_not_judged() -> None:
    assert "pace_s" not in compare({"pace_s": SAME}, {"pace_s": SLOWER})


def test_wall_clock_of_a_busy_machine_is_no_regression(words: SnapshotAssertion) -> None:
    comparisons = compare(
        times(SAME, SAME, eager_wall=SAME, eager_cpu=SAME),
        times(SLOW, SAME, eager_wall=SLOW, eager_cpu=SAME),
    )["latency_s"]
    assert comparisons.verdict is INCONCLUSIVE
    assert comparisons.reason == (words)
    assert comparisons.ratio == pytest.approx(1.3)
    assert comparisons.is_relevant


def test_wall_clock_counts_when_cpu_time_moved_as_well(words: SnapshotAssertion) -> None:
    comparisons = compare(times(SAME, SAME), times(SLOW, SLOW))
    assert comparisons["latency_cpu_s"].verdict is REGRESSION
    assert comparisons["latency_s"].verdict is REGRESSION
    assert comparisons["latency_s"].is_significant
    # The interval that decided is that of the witness: the wall clock's own may hold no change.
    cpu = comparisons["latency_cpu_s"]
    assert cpu.low is not None
    assert without_numbers(comparisons["latency_s"].reason) == words


def test_faster_on_both_clocks_is_an_improvement() -> None:
    comparisons = compare(times(SLOW, SLOW), times(SAME, SAME))
    assert comparisons["latency_s"].verdict is Verdict.IMPROVEMENT


def test_wall_clock_does_not_count_when_cpu_time_moved_the_other_way() -> None:
    comparisons = compare(times(SAME, SLOW), times(SLOW, SAME))
    assert comparisons["latency_s"].verdict is INCONCLUSIVE


def test_wall_clock_needs_a_cpu_time_that_moved_enough(words: SnapshotAssertion) -> None:
    comparisons = compare(times([1.0] * 40, [1.0] * 40), times([1.3] * 40, [1.03] * 40))
    assert not comparisons["latency_cpu_s"].is_relevant
    assert comparisons["latency_s"].verdict is INCONCLUSIVE
    assert without_numbers(comparisons["latency_s"].reason) == words


def test_variant_that_waits_while_eager_does_not_is_a_regression(words: SnapshotAssertion) -> None:
    comparisons = compare(
        times(SAME, SAME, eager_wall=SAME, eager_cpu=SAME),
        times(SLOW, SAME, eager_wall=SAME, eager_cpu=SAME),
    )["latency_s"]
    assert comparisons.verdict is REGRESSION
    assert without_numbers(comparisons.reason) == words


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1.0, 1.0], [1.0, 1.0]),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        (None, [1.0, 1.0, 1.0]),
        ([1.0, 1.0, 1.0], None),
        ([1.0, 1.0], [1.0, 1.0, 1.0]),
        ([1.0, 1.0, 1.0], [1.0, 1.0]),
    ],
)
def test_eager_that_cannot_be_paired_vouches_for_nothing(
    before: list[float] | None, after: list[float] | None
) -> None:
    comparisons = compare(
        times(SAME, SAME, eager_wall=before, eager_cpu=before),
        times(SLOW, SAME, eager_wall=after, eager_cpu=after),
    )
    assert comparisons["latency_s"].verdict is INCONCLUSIVE


def test_wall_clock_alone_decides_where_nothing_else_was_measured() -> None:
    comparisons = compare({"latency_s": SAME}, {"latency_s": SLOWER})
    assert comparisons["latency_s"].verdict is REGRESSION


def test_wall_clock_is_judged_against_eager_where_there_is_no_cpu_time() -> None:
    comparisons = compare(
        {"latency_s": SAME, "eager_latency_s": SAME},
        {"latency_s": SLOWER, "eager_latency_s": SLOWER},
    )
    assert comparisons["latency_s"].verdict is INCONCLUSIVE


def test_wall_clock_within_the_floor_needs_no_witness() -> None:
    comparisons = compare(times(SAME, SAME), times([1.001] * 3, SAME))
    assert "vouch" not in comparisons["latency_s"].reason


def test_wall_clock_of_zero_is_inconclusive(words: SnapshotAssertion) -> None:
    comparisons = compare(times([0.0], [1.0]), times([0.5], [1.0]))
    assert comparisons["latency_s"].reason == words


def test_cpu_time_of_a_busy_machine_is_no_regression(words: SnapshotAssertion) -> None:
    comparisons = compare(times(SAME, SAME), times(SLOWER, SLOW))
    assert comparisons["latency_cpu_s"].verdict is INCONCLUSIVE
    assert comparisons["latency_cpu_s"].reason == (words)
    assert comparisons["latency_s"].verdict is INCONCLUSIVE


def test_baseline_of_a_busy_machine_is_none_either() -> None:
    comparisons = compare(times(SLOWER, SLOW), times(SAME, SAME))
    assert comparisons["latency_cpu_s"].verdict is INCONCLUSIVE


def test_one_busy_launch_makes_a_side_busy() -> None:
    comparisons = compare(times(SAME, SAME), times([1.3, 1.3, 1.5], SLOW))
    assert comparisons["latency_cpu_s"].verdict is INCONCLUSIVE


def test_cpu_time_of_a_busy_machine_that_eager_shares_is_no_regression(
    words: SnapshotAssertion,
) -> None:
    comparison = compare(
        times(SAME, SAME, eager_wall=SAME, eager_cpu=SAME),
        times(SLOWER, SLOW, eager_wall=SLOWER, eager_cpu=SLOW),
    )["latency_cpu_s"]
    assert comparison.verdict is INCONCLUSIVE
    assert without_numbers(comparison.reason) == words


def test_cpu_time_that_moved_against_eager_counts_on_a_busy_machine_too(
    words: SnapshotAssertion,
) -> None:
    comparisons = compare(
        times(SAME, SAME, eager_wall=SAME, eager_cpu=SAME),
        times(SLOWER, SLOW, eager_wall=SLOWER, eager_cpu=SAME),
    )
    assert comparisons["latency_cpu_s"].verdict is REGRESSION
    reason = comparisons["latency_cpu_s"].reason
    assert without_numbers(reason) == words
    assert comparisons["latency_s"].verdict is REGRESSION


def test_a_change_of_cpu_time_within_the_noise_is_detected_against_eager() -> None:
    noise = [0.8, 1.0, 1.25]
    slow = [1.15 * level for level in noise]
    ratio = {"speedup": [1.0] * 3}, {"speedup": [1 / 1.15] * 3}
    comparisons = compare(
        times(noise, noise, eager_wall=noise, eager_cpu=noise) | ratio[0],
        times(SLOWER, slow, eager_wall=SLOWER, eager_cpu=noise) | ratio[1],
    )
    # Its own interval includes no change: the ratio has the verdict.
    assert comparisons["latency_cpu_s"].verdict is INCONCLUSIVE
    assert comparisons["latency_cpu_s"].decided_by == "speedup"
    assert comparisons["speedup"].verdict is REGRESSION


def test_time_whose_interval_includes_no_change_names_the_clock_that_decides(
    words: SnapshotAssertion,
) -> None:
    noise, eager = [0.7, 1.0, 1.4, 1.1], {"eager_wall": [1.0] * 4, "eager_cpu": [1.0] * 4}
    comparisons = compare(
        times(noise, [1.0] * 4, **eager),
        times([1.2 * level for level in noise], [1.2] * 4, **eager),
    )
    assert comparisons["latency_cpu_s"].verdict is REGRESSION
    wall = comparisons["latency_s"]
    assert (wall.verdict, wall.is_significant) == (INCONCLUSIVE, False)
    assert wall.decided_by == "latency_cpu_s"
    assert without_numbers(wall.reason) == words


def test_time_that_no_row_vouches_for_is_decided_by_none() -> None:
    comparisons = compare(
        times(SAME, SAME, eager_wall=SAME, eager_cpu=SAME),
        times(SLOW, SAME, eager_wall=SLOW, eager_cpu=SAME),
    )
    assert comparisons["latency_s"].decided_by == ""


def test_a_change_of_cpu_time_within_the_noise_of_a_busy_machine_is_inconclusive(
    words: SnapshotAssertion,
) -> None:
    noise = [0.8, 1.0, 1.25]
    comparisons = compare(times(noise, noise), times(SLOWER, [1.15 * level for level in noise]))
    assert without_numbers(comparisons["latency_cpu_s"].reason) == words


def test_machine_is_busy_when_a_quarter_of_the_time_is_gone_though_the_median_is_not(
    words: SnapshotAssertion,
) -> None:
    def measured(metric: str, samples: list[float]) -> Measurement:
        return make_measurement(metric, samples=samples, launches=(4,))

    def result(wall: list[float], cpu: float) -> CaseResult:
        return make_result(
            measurements=[measured("latency_s", wall), measured("latency_cpu_s", [cpu] * 4)]
        )

    rows = compare_results([result([1.0] * 4, 1.0)], [result([1.6, 1.6, 1.6, 4.0], 1.6)])
    (comparison,) = [row.comparison for row in rows if row.metric == "latency_cpu_s"]
    assert without_numbers(comparison.reason) == words


def test_launches_without_load_counters_count_as_quiet() -> None:
    def result(level: float) -> CaseResult:
        return make_result(
            measurements=[
                make_measurement(metric, samples=[level] * 9)
                for metric in ("latency_s", "latency_cpu_s")
            ]
        )

    rows = compare_results([result(1.0)], [result(2.0)])
    assert [row.comparison.verdict for row in rows[1:]] == [REGRESSION, REGRESSION]


def test_cpu_time_that_did_not_move_is_judged_as_always() -> None:
    comparisons = compare(times([1.0] * 40, [1.0] * 40), times([2.0] * 40, [1.001] * 40))
    assert comparisons["latency_cpu_s"].verdict is Verdict.UNCHANGED


def test_compile_time_of_a_busy_machine_proves_nothing() -> None:
    slow = {"compile_cold_s": [5.0]}
    quiet = compare(times(SAME, SAME) | {"compile_cold_s": [1.0]}, times(SAME, SAME) | slow)
    busy = compare(times(SAME, SAME) | {"compile_cold_s": [1.0]}, times(SLOWER, SAME) | slow)
    assert quiet["compile_cold_s"].verdict is REGRESSION
    assert busy["compile_cold_s"].verdict is INCONCLUSIVE


def test_clock_of_a_gpu_stands_alone() -> None:
    comparisons = compare(times(SAME, SAME), times(SLOW, SAME), case=make_case(device="cuda"))
    assert comparisons["latency_s"].verdict is REGRESSION

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import RecordError
from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.records.results import Outcome
from compile_hud.runner.interop.importers.case_evidence import CaseEvidence, evidence_of, result_of
from compile_hud.runner.interop.importers.dynamo_name import DynamoName, parse_name
from compile_hud.runner.interop.importers.torchbench import METRICS as TORCHBENCH_METRICS
from compile_hud.runner.interop.importers.vocabulary import (
    KNOWN_METRICS,
    MAX_NAME_LENGTH,
    as_number,
    clean_name,
    find_metric,
    has_unit,
    mode_of,
    outcome_of,
)
from tests.support.builders import START, make_case

CASE = make_case()


def evidence(**launches: list[tuple[float, ...]]) -> CaseEvidence:
    joined = CaseEvidence()
    for name, values in launches.items():
        for launch in values:
            joined.add_launches(find_metric(name), [launch])
    return joined


def test_every_known_metric_is_one_of_ours() -> None:
    ours = [name for name, _ in (*KNOWN_METRICS.values(), *TORCHBENCH_METRICS.values())]
    assert set(ours) <= set(METRICS)


def test_our_own_metrics_are_known() -> None:
    for name, ours in METRICS.items():
        metric = find_metric(name, unit=ours.unit, direction="higher_is_better")
        assert (metric.unit, metric.direction, metric.is_guessed) == (
            ours.unit,
            ours.direction,
            False,
        )


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("request_throughput", Direction.HIGHER_IS_BETTER),
        ("output_tokens_per_s", Direction.HIGHER_IS_BETTER),
        ("GB/s", Direction.HIGHER_IS_BETTER),
        ("tps", Direction.HIGHER_IS_BETTER),
        ("https_errors", Direction.LOWER_IS_BETTER),
        ("p99_latency(ms)", Direction.LOWER_IS_BETTER),
        ("compile_time_instruction_count", Direction.LOWER_IS_BETTER),
    ],
)
def test_a_missing_direction_is_guessed_from_the_name(name: str, direction: Direction) -> None:
    metric = find_metric(name)
    assert (metric.direction, metric.is_guessed) == (direction, True)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("foo", "samples/s"), ("tok_rate", "tokens/s"), ("foo", "GB/sec"), ("score", "ms")],
)
def test_a_direction_that_the_unit_tells_is_the_one_that_is_judged(name: str, unit: str) -> None:
    metric = find_metric(name, unit=unit)
    assert metric.is_guessed
    assert metric.direction is metric.judged_direction


@given(
    st.sampled_from(["foo", "accuracy", "tokens_per_s", "saved_ms", "score_gb", "mfu_share"]),
    st.sampled_from(["", "s", "ms", "GB", "tokens/s", "requests", "%", "1"]),
    st.sampled_from(["", "lower", "higher", "neither", "sideways"]),
)
def test_what_is_judged_is_judged_in_the_direction_that_is_reported(
    name: str, unit: str, stated: str
) -> None:
    metric = find_metric(name, unit=unit, direction=stated)
    assert metric.judged_direction in (None, metric.direction)


@pytest.mark.parametrize(
    ("name", "unit", "scale"),
    [
        ("abs_latency", "", 1e-3),
        ("abs_latency", "ms", 1e-3),
        ("abs_latency", "s", 1.0),
        ("abs_latency", "usec", 1e-6),
        ("dynamo_peak_mem", "MiB", 2.0**20),
        ("memory_bandwidth", "GB/s", 1e9),
        ("mfu", "%", 1e-2),
        ("graph_breaks", "count", 1.0),
    ],
)
def test_a_known_metric_is_scaled_by_the_unit_that_is_reported(
    name: str, unit: str, scale: float
) -> None:
    assert find_metric(name, unit=unit).scale == scale


@pytest.mark.parametrize("unit", ["parsec", "GB", "Mb", "%"])
def test_a_known_metric_in_a_unit_it_cannot_have_is_refused(
    unit: str, words: SnapshotAssertion
) -> None:
    assert not has_unit("abs_latency", unit)
    with pytest.raises(RecordError) as caught:
        find_metric("abs_latency", unit=unit)
    assert caught.value.parameters == {"metric": "abs_latency", "unit": unit}
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("stated", "direction"),
    [
        ("higher_is_better", Direction.HIGHER_IS_BETTER),
        ("Up", Direction.HIGHER_IS_BETTER),
        ("lower", Direction.LOWER_IS_BETTER),
        ("neither", Direction.NEITHER),
    ],
)
def test_a_direction_that_is_given_is_no_guess(stated: str, direction: Direction) -> None:
    metric = find_metric("throughput", direction=stated)
    assert (metric.direction, metric.is_guessed) == (direction, False)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("ttft_ms", "ms"),
        ("load_time(us)", "us"),
        ("wall_seconds", "s"),
        ("size_bytes", "B"),
        ("tokens_per_s", "1"),
        ("items", "1"),
    ],
)
def test_a_unit_at_the_end_of_a_name_is_its_unit(name: str, unit: str) -> None:
    assert find_metric(name).unit == unit


def test_unreadable_names_are_changed_and_stay_distinct() -> None:
    for one, other in (("a\nb", "a\tb"), ("x" * 500, "x" * 501), ("\ud800", "\ud801")):
        assert clean_name(one) != clean_name(other)
        assert clean_name(one).isprintable()
        assert len(clean_name(one)) <= MAX_NAME_LENGTH
    assert clean_name("meta-llama/Llama-3.2-1B") == "meta-llama/Llama-3.2-1B"
    assert clean_name(clean_name("a\nb")) == clean_name("a\nb")


def test_modes_are_spelled_as_torch_compile_spells_them() -> None:
    assert mode_of("max_autotune") == "max-autotune"
    assert mode_of("Reduce-Overhead") == "reduce-overhead"
    assert mode_of("inductor_with_cudagraphs") == "inductor_with_cudagraphs"


def test_skipping_differs_from_passing() -> None:
    assert outcome_of("pass_due_to_skip") is Outcome.SKIPPED
    assert outcome_of(" PASS ") is Outcome.OK
    assert outcome_of("") is Outcome.FAILED


def test_a_file_name_carries_the_configuration() -> None:
    name = "aot_inductor_timm_models_bfloat16_inference_cpu_x86_zen_performance.csv.gz"
    assert parse_name(name) == DynamoName(
        mode="aot_inductor",
        suite="timm_models",
        dtype="bfloat16",
        phase="inference",
        device="cpu",
        hardware="x86_zen",
    )
    dynamic = parse_name("inductor_huggingface_dynamic_inference.csv")
    assert dynamic is not None
    assert (dynamic.mode, dynamic.phase) == ("inductor_dynamic", "inference")


def test_other_file_names_carry_nothing() -> None:
    assert parse_name("results.csv") is None
    assert parse_name("inductor_torchbench_" + "a_" * 500 + ".csv") is None


def test_evidence_adds_up_in_any_order_and_only_once() -> None:
    numbers, more = evidence(speedup=[(1.5,)]), evidence(speedup=[(1.6, 1.7)], mfu=[(0.4,)])
    both = evidence(speedup=[(1.5,)])
    both.add(more)
    both.add(more)
    both.add(numbers)
    result = result_of(both, case=CASE, run_id="run", at=START)
    again = evidence_of(result)
    again.add(numbers)
    assert result_of(again, case=CASE, run_id="run", at=START) == result
    speedup = result.measurement("speedup")
    assert speedup is not None
    assert (speedup.samples, speedup.launches) == ((1.5, 1.6, 1.7), (1, 2))


def test_evidence_of_a_failed_case_is_stored() -> None:
    failed = evidence(speedup=[(1.5,)])
    failed.add_text("accuracy", "fail_accuracy")
    result = result_of(failed, case=CASE, run_id="run", at=START)
    assert result.measurements == ()
    assert evidence_of(result).to_json() == failed.to_json()


def test_the_worst_of_what_is_reported_is_the_outcome() -> None:
    collected = CaseEvidence()
    for word in ("pass", "fail_accuracy", "eager_1st_run_OOM: 2 GiB more", "fail_to_run"):
        collected.add_text("accuracy", word)
    result = result_of(collected, case=CASE, run_id="run", at=START)
    assert (result.outcome, result.reason) == (Outcome.OUT_OF_MEMORY, "2 GiB more")


def test_eager_latency_follows_only_where_both_sides_are_alike() -> None:
    uneven = evidence(speedup=[(1.5, 1.5)], latency_s=[(0.010,)])
    more = evidence(speedup=[(1.5,), (1.6,)], latency_s=[(0.010,)])
    complete = evidence(speedup=[(1.5,)], latency_s=[(0.010,)], eager_latency_s=[(0.016,)])
    for metrics in (uneven, more):
        result = result_of(metrics, case=CASE, run_id="run", at=START)
        assert result.measurement("eager_latency_s") is None
    eager = result_of(complete, case=CASE, run_id="run", at=START).measurement("eager_latency_s")
    assert eager is not None
    assert eager.samples == (0.016,)


@pytest.mark.parametrize(
    "value", [None, True, "1.5", float("nan"), float("inf"), 10**400, -1e200, 3e-318, -2e-140]
)
def test_what_no_quantity_can_be_is_no_number(value: object) -> None:
    assert as_number(value) is None


def test_a_number_is_a_float() -> None:
    assert [as_number(value) for value in (0, -2, 1.5, 1e100, 1e-100)] == [
        *(0.0, -2.0, 1.5, 1e100, 1e-100)
    ]

"""Real launches through a real worker host: what each kind of model comes back as."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import CaseResult, Dtype, Outcome, Phase
from compile_hud.runner.execution import local_executor
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.measure.latency.steady_state import MIN_DROP_ROUNDS
from compile_hud.runner.measure.latency.timing import MIN_ROUNDS
from tests.support.runs.launches import MEGABYTE, median, order, step_names


def test_facts_describe_the_environment(executor: LocalExecutor) -> None:
    facts = executor.open()
    json.dumps(facts)
    assert facts["torch_version"]
    assert facts["python_minor"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert facts["num_cpus"] == len(os.sched_getaffinity(0))
    assert facts["packages"]["numpy"] == facts["numpy_version"]


def test_facts_hold_the_measured_peaks_of_the_device(executor: LocalExecutor) -> None:
    peaks = executor.open()["peaks"]
    assert peaks["fp32_flops_per_s"] > 0
    assert peaks["copy_bytes_per_s"] > 0


@pytest.mark.nightly
def test_peaks_that_cannot_be_measured_have_a_reason_and_cost_no_case(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(local_executor, "PEAKS_TIMEOUT_S", 0.0)
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    facts = local.open()
    result = local.execute(order("plain"))
    local.close()
    assert list(facts["peaks"]) == ["reason"]
    assert facts["peaks"]["reason"] == words
    assert result.outcome is Outcome.OK
    assert result.measurement("mfu") is None
    assert median(result, "bandwidth_bytes_per_s") > 0


def test_an_allocator_snapshot_is_requested_by_a_setting(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", memory_snapshot=True))
    # There is none on a CPU, and it must not go unsaid.
    assert "no-memory-snapshot" in [warning.code for warning in result.warnings]


def test_a_case_knows_its_share_of_the_device(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", num_launches=2))
    assert median(result, "flops") == 2 * (2 * 4 * 64 * 64)
    latency, mfu = result.measurement("latency_cpu_s"), result.measurement("mfu")
    assert latency is not None
    assert mfu is not None
    assert mfu.launches == latency.launches
    products = [share * cpu_s for share, cpu_s in zip(mfu.samples, latency.samples, strict=True)]
    assert products == pytest.approx([products[0]] * len(products))


def test_an_eager_case_has_latency_memory_and_accuracy(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", num_launches=2))
    assert result.outcome is Outcome.OK, result.log_tail
    latency = result.measurement("latency_s")
    assert latency is not None
    assert len(latency.launches) == 2
    # Steady samples end a launch early; those that begin to fall are followed for a few rounds.
    limits = range(MIN_ROUNDS, 6 + MIN_DROP_ROUNDS + 1)
    assert all(count in limits for count in latency.launches), latency.launches
    assert latency.warmups
    assert median(result, "cosine_similarity") == pytest.approx(1.0)
    throughput = result.measurement("throughput_samples_per_s")
    assert throughput is not None
    assert list(throughput.samples) == pytest.approx([4 / sample for sample in latency.samples])
    assert result.measurement("throughput_tokens_per_s") is None
    assert result.measurement("speedup") is None
    assert step_names(result) == [
        [
            "fingerprint",
            "build",
            "eager oracle",
            "accuracy",
            "warm up",
            "sample",
            "memory",
            "allocations",
            "energy",
            "counters",
            "work",
            "kernels",
            "result",
        ],
        ["fingerprint", "build", "warm up", "sample", "result"],
    ]


def test_peak_memory_of_eager_is_the_hand_counted_one(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain"))
    activation = 4 * 64 * 4
    weights = 2 * (64 * 64 + 64) * 4
    # Alive at once: the input, and of a layer its product, its relu and the sum before them.
    assert weights + 3 * activation <= median(result, "peak_bytes") <= weights + 4 * activation


@pytest.mark.slow
def test_a_compiled_case_has_cold_and_warm_compile_time_and_a_speedup(
    executor: LocalExecutor,
) -> None:
    result = executor.execute(order("plain", variant="default", num_launches=2))
    assert result.outcome is Outcome.OK, result.log_tail
    assert result.effective_mode == "default"
    assert median(result, "compile_cold_s") > median(result, "compile_warm_s") > 0
    warm = result.measurement("compile_warm_s")
    assert warm is not None
    assert warm.launches == (1,)
    speedup = result.measurement("speedup")
    eager = result.measurement("eager_latency_cpu_s")
    variant = result.measurement("latency_cpu_s")
    assert speedup is not None
    assert eager is not None
    assert variant is not None
    ratios = [left / right for left, right in zip(eager.samples, variant.samples, strict=True)]
    assert list(speedup.samples) == pytest.approx(ratios)
    assert median(result, "graphs") == 1
    assert median(result, "graph_breaks") == 0
    assert median(result, "recompiles") == 0
    assert step_names(result)[0] == [
        "fingerprint",
        "build",
        "eager oracle",
        "compile",
        "accuracy",
        "warm up",
        "sample",
        "memory",
        "allocations",
        "energy",
        "counters",
        "work",
        "kernels",
        "result",
    ]
    assert_kernels_are_those_of(result)
    for earlier, later in zip(
        result.details["steps"][0], result.details["steps"][0][1:], strict=False
    ):
        assert earlier["end_s"] <= later["start_s"]


def assert_kernels_are_those_of(result: CaseResult) -> None:
    """Check the kernels of the compiled model: two products and two fused kernels of one code."""
    (fused,) = (kernel for kernel in result.kernels if kernel.kind == "fused")
    assert (fused.label, fused.count) == ("cpp_fused_add_relu", 2.0)
    assert {origin.code for origin in fused.origins} == {"x = torch.relu(layer(x)) + x"}
    assert [source.hash for source in result.sources] == [fused.source_hash]
    assert sum(kernel.count for kernel in result.kernels if kernel.kind == "gemm") == 2
    profile = result.details["profile"]
    assert sum(profile["parts"].values()) == pytest.approx(profile["iteration_s"])


@pytest.mark.parametrize("variant", ["reduce-overhead", "max-autotune", "cuda-graph"])
def test_a_mode_of_cuda_graphs_is_not_compiled_on_a_cpu(
    executor: LocalExecutor, variant: str
) -> None:
    result = executor.execute(order("plain", variant=variant))
    assert result.outcome is Outcome.UNAVAILABLE
    assert "steps" not in result.details
    assert result.measurements == ()


@pytest.mark.slow
def test_a_mode_that_compiles_to_the_code_of_another_is_not_sampled(
    executor: LocalExecutor,
) -> None:
    first = executor.execute(order("plain", variant="default"))
    second = order("plain", variant="max-autotune-no-cudagraphs", num_launches=2)
    skipped = executor.execute(replace(second, skips_same_code=True))
    assert (skipped.outcome, skipped.same_code_as) == (Outcome.SAME_CODE, "default")
    assert step_names(skipped)[0][-1] == "compile"
    assert len(step_names(skipped)) == 1
    assert skipped.measurements == ()
    sampled = executor.execute(second)
    assert sampled.outcome is Outcome.OK
    assert "same-code" in [warning.code for warning in sampled.warnings]
    # The case itself has the code of its own earlier launch, and is measured again.
    again = executor.execute(replace(order("plain", variant="default"), skips_same_code=True))
    assert (first.outcome, again.outcome) == (Outcome.OK, Outcome.OK)


@pytest.mark.nightly
@pytest.mark.slow
def test_other_code_of_the_same_model_is_sampled(executor: LocalExecutor) -> None:
    executor.execute(order("plain", variant="default"))
    dynamic = replace(order("plain", variant="dynamic"), skips_same_code=True)
    assert executor.execute(dynamic).outcome is Outcome.OK


@pytest.mark.slow
def test_a_graph_break_is_counted_with_its_reason(executor: LocalExecutor) -> None:
    result = executor.execute(order("breaking", variant="aot_eager"))
    assert median(result, "graph_breaks") == 1
    assert median(result, "graphs") == 2
    assert "graph_break" in result.details["graph_breaks"][0]["reason"]


@pytest.mark.parametrize(
    ("kind", "is_reported"), [("writing", True), ("plain", False), ("sealed", False)]
)
def test_a_model_that_writes_to_its_inputs_is_reported_with_them(
    executor: LocalExecutor, kind: str, is_reported: bool, words: SnapshotAssertion
) -> None:
    result = executor.execute(order(kind))
    assert result.outcome is Outcome.OK, result.reason
    texts = [warning.text for warning in result.warnings if warning.code == "inputs-changed"]
    assert bool(texts) is is_reported
    assert texts == words


@pytest.mark.slow
def test_a_graph_break_under_fullgraph_fails_with_its_reason(executor: LocalExecutor) -> None:
    result = executor.execute(order("breaking", variant="fullgraph"))
    assert result.outcome is Outcome.FAILED
    assert "graph_break" in result.reason


@pytest.mark.slow
def test_recompilation_is_counted_with_its_reason(executor: LocalExecutor) -> None:
    result = executor.execute(order("recompiling", variant="aot_eager"))
    assert median(result, "recompiles") == 1
    assert "is_odd" in result.details["recompiles"][0]["reason"]


@pytest.mark.slow
def test_a_training_step_is_checked_by_its_gradients(
    executor: LocalExecutor, words: SnapshotAssertion
) -> None:
    result = executor.execute(order("plain", variant="aot_eager", phase=Phase.TRAINING))
    assert result.outcome is Outcome.OK, result.log_tail
    error = result.measurement("max_abs_error")
    assert error is not None
    assert error.method == words
    for part in ("data", "forward", "backward", "optimizer"):
        assert median(result, f"{part}_s") > 0
    assert result.details["breakdown"]["latency_s"] == median(result, "latency_cpu_s")
    # A fresh batch is no reason to compile again.
    assert median(result, "recompiles") == 0
    # The same operators in the same order on the same weights: the same rounding.
    assert median(result, "rmse_ratio") == pytest.approx(1.0, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [Dtype.FP32, Dtype.BF16])
def test_wrong_gradients_are_inaccurate_however_small(
    executor: LocalExecutor, dtype: Dtype, words: SnapshotAssertion
) -> None:
    result = executor.execute(
        order("wrongbackward", variant="aot_eager", phase=Phase.TRAINING, dtype=dtype)
    )
    assert result.outcome is Outcome.INACCURATE, result.log_tail
    assert result.reason == words


def test_bf16_is_allowed_bf16_rounding(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", dtype=Dtype.BF16))
    assert result.outcome is Outcome.OK, result.reason
    assert median(result, "max_abs_error") > 1e-4


def test_a_dtype_that_the_device_cannot_run_is_skipped(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", dtype=Dtype.FP16_AUTOCAST))
    assert result.outcome is Outcome.SKIPPED
    assert "CUDA" in result.reason
    assert result.measurements == ()


@pytest.mark.slow
def test_a_fast_wrong_result_is_inaccurate_and_has_no_numbers(
    executor: LocalExecutor, words: SnapshotAssertion
) -> None:
    result = executor.execute(order("wrong", variant="aot_eager"))
    assert result.outcome is Outcome.INACCURATE
    assert result.reason == words
    assert result.measurements == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "hasty",
        "dropping",
        "notfinitecompiled",
    ],
)
def test_a_fast_inaccurate_kernel_is_inaccurate_and_no_speedup(
    executor: LocalExecutor, kind: str, words: SnapshotAssertion
) -> None:
    result = executor.execute(order(kind, variant="aot_eager"))
    assert result.outcome is Outcome.INACCURATE, result.log_tail
    assert result.reason == words
    assert result.measurements == ()
    accuracy = result.details["accuracy"]
    assert accuracy["tolerance"]["min_cosine"] == 0.9999
    assert set(accuracy["parts"]) == {"outputs"}
    # It stops there: nothing of it was ever timed.
    assert step_names(result)[0][-1] == "accuracy"


def test_an_eager_model_that_differs_from_itself_reports_it(executor: LocalExecutor) -> None:
    result = executor.execute(order("noisy"))
    assert result.outcome is Outcome.OK, result.reason
    assert "nondeterministic-eager" in [warning.code for warning in result.warnings]
    assert 0 < result.details["eager_nondeterminism"]["max_abs_difference"] < 1e-3


def test_nan_where_the_oracle_is_finite_is_inaccurate(executor: LocalExecutor) -> None:
    result = executor.execute(order("notfinite"))
    assert result.outcome is Outcome.INACCURATE
    assert "NaN" in result.reason


def test_a_raising_model_fails_with_its_own_traceback(executor: LocalExecutor) -> None:
    result = executor.execute(order("raising"))
    assert result.outcome is Outcome.FAILED
    reason = "ValueError: the model met 4 samples and gave up (at odd_models.py:"
    assert result.reason.startswith(reason)
    assert "odd_models.py" in result.log_tail
    assert "launch.py" not in result.log_tail


def test_a_missing_model_file_names_what_to_write(
    executor: LocalExecutor, words: SnapshotAssertion
) -> None:
    result = executor.execute(order("plain", build="no/such/file.py"))
    assert result.outcome is Outcome.FAILED
    assert "no/such/file.py" in result.reason
    assert result.reason == words
    assert "Traceback" not in result.log_tail


def test_a_model_without_end_of_memory_is_out_of_memory(executor: LocalExecutor) -> None:
    result = executor.execute(order("hungry", memory_limit_bytes=1500 * MEGABYTE))
    assert result.outcome is Outcome.OUT_OF_MEMORY, result.reason
    assert result.measurements == ()


def test_a_segfault_is_a_failure_of_the_case_alone(
    executor: LocalExecutor, words: SnapshotAssertion
) -> None:
    result = executor.execute(order("crashing"))
    assert result.outcome is Outcome.FAILED
    assert result.reason == words
    assert "odd_models.py" in result.log_tail
    assert executor.execute(order("plain")).outcome is Outcome.OK


def test_leaving_without_a_word_is_a_failure_with_the_status(executor: LocalExecutor) -> None:
    result = executor.execute(order("leaving"))
    assert result.outcome is Outcome.FAILED
    assert "ended with status 7" in result.reason


def test_sys_exit_is_a_failure_with_its_message(executor: LocalExecutor) -> None:
    result = executor.execute(order("exiting"))
    assert result.outcome is Outcome.FAILED
    reason = "SystemExit: the model took its 4 samples home (at odd_models.py:"
    assert result.reason.startswith(reason)

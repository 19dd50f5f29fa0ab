"""Measurements that need a CUDA device; test_sampling.py has their twins on a CPU."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from compile_hud.db.records.results import MEASURED_DTYPES, Case, CaseResult, Dtype, Outcome, Phase
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.measure.resources.energy import NvmlCounter, NvmlPower, measure_energy
from compile_hud.runner.measure.resources.nvml import open_gpu
from compile_hud.runner.protocol.messages import MeasureSettings, Workload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("own_gpu"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    local = LocalExecutor(
        python=Path(sys.executable), state_dir=tmp_path_factory.mktemp("state"), device="cuda"
    )
    local.open()
    yield local
    local.close()


def measured(
    executor: LocalExecutor,
    variant: str,
    *,
    phase: Phase = Phase.INFERENCE,
    dtype: Dtype = Dtype.FP32,
    **settings: Any,
) -> CaseResult:
    spec, way = CATALOG["bert"], VARIANTS[variant]
    size = spec.sizes["small"]
    case = Case(
        model=spec.name,
        family=spec.family,
        phase=phase,
        shape="small",
        dtype=dtype,
        mode=way.mode,
        variant=way.name,
        backend=way.backend,
        device="cuda",
    )
    workload = Workload(
        build=spec.build,
        config=size.config,
        num_samples=size.num_samples,
        num_tokens=size.num_tokens,
    )
    measure_settings = MeasureSettings(**({"num_launches": 2, "max_launches": 2} | settings))
    result = executor.execute(
        CaseOrder(run_id="run", case=case, workload=workload, settings=measure_settings)
    )
    assert result.outcome is Outcome.OK, (result.reason, result.log_tail)
    return result


def test_cuda_graphs_are_really_recorded(executor: LocalExecutor) -> None:
    result = measured(executor, "reduce-overhead")
    assert result.effective_mode == "reduce-overhead"
    assert [warning.code for warning in result.warnings if "mode" in warning.code] == []


def test_recording_cuda_graphs_is_a_phase_of_the_first_calls_alone(
    executor: LocalExecutor,
) -> None:
    result = measured(executor, "reduce-overhead")
    phases_s = result.details["compile"][0]["phases_s"]
    assert min(phases_s[phase] for phase in ("dynamo", "aot", "inductor", "backend")) > 0
    assert phases_s["cudagraphs"] > 0
    codes = {warning.code for warning in result.warnings}
    assert not codes & {"cudagraphs-recorded-while-sampling", "recompiles-while-sampling"}


@pytest.mark.parametrize("phase", [Phase.INFERENCE, Phase.TRAINING])
@pytest.mark.parametrize("dtype", [Dtype.FP32, Dtype.FP16_AUTOCAST])
def test_eager_as_a_cuda_graph_is_accurate_and_compiles_nothing(
    executor: LocalExecutor, phase: Phase, dtype: Dtype
) -> None:
    result = measured(executor, "cuda-graph", phase=phase, dtype=dtype)
    medians = {item.metric: item.median for item in result.measurements}
    assert result.effective_mode == "eager"
    assert "graphs" not in medians
    assert medians["cudagraph_pool_bytes"] > 0
    # Launching its kernels is what a small model waits for.
    assert medians["speedup"] > 1


def test_cuda_graphs_do_not_hide_memory(executor: LocalExecutor) -> None:
    plain = measured(executor, "default").measurement("peak_bytes")
    graphs = measured(executor, "reduce-overhead").measurement("peak_bytes")
    assert plain is not None
    assert graphs is not None
    assert graphs.median > 0.9 * plain.median


def test_what_is_reserved_holds_what_is_allocated(executor: LocalExecutor) -> None:
    result = measured(executor, "reduce-overhead")
    medians = {item.metric: item.median for item in result.measurements}
    assert 0 < medians["cudagraph_pool_bytes"] <= medians["peak_reserved_bytes"]
    assert medians["peak_bytes"] <= medians["peak_reserved_bytes"]
    # A small model is less than what the graph keeps beside it: 0.23 on an H200.
    assert 0.05 < medians["compression_ratio"] < 2.0


def test_the_allocators_history_outlives_the_case(executor: LocalExecutor) -> None:
    result = measured(executor, "default", memory_snapshot=True)
    assert Path(result.details["memory_snapshot"]).stat().st_size > 0


def test_a_large_product_nearly_reaches_the_peak_and_a_model_stays_below_it(
    executor: LocalExecutor,
) -> None:
    peaks = executor.open()["peaks"]
    assert 0 < peaks["fp32_flops_per_s"] < peaks["fp16_flops_per_s"]
    assert peaks["fp32_flops_per_s"] < peaks["tf32_flops_per_s"] < peaks["fp16_flops_per_s"]
    assert peaks["copy_bytes_per_s"] > 1e11
    result = measured(executor, "default", dtype=Dtype.FP16_AUTOCAST)
    mfu = result.measurement("mfu")
    assert mfu is not None
    assert 0 < mfu.median < 1


def test_the_gpu_is_watched_while_samples_are_taken(executor: LocalExecutor) -> None:
    result = measured(executor, "default")
    assert len(result.details["telemetry"]) >= 2
    for launch in result.details["telemetry"]:
        assert min(launch["clock_sm_mhz"]) > 0
        assert 0 < min(launch["temperature_c"]) <= max(launch["temperature_c"]) < 110
        assert launch["num_other_processes"] == 0


def test_energy_is_that_of_a_working_board(executor: LocalExecutor) -> None:
    result = measured(executor, "default")
    medians = {item.metric: item.median for item in result.measurements}
    assert 10 < medians["power_w"] < 2000
    # Back to back and without flushing the cache an iteration takes less than a sample's, not far.
    assert 0.3 < medians["energy_j"] / medians["power_w"] / medians["latency_s"] < 3.0


def test_the_energy_counter_agrees_with_integrated_power() -> None:
    gpu = open_gpu()
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
    counter, power = NvmlCounter(gpu), NvmlPower(gpu)
    # On recent devices the power is a mean of the last second: let the load come to rest.
    clock = time.perf_counter

    def run() -> int:
        matrix @ matrix
        torch.cuda.synchronize()
        return 1

    counted = measure_energy(counter, run, settle_s=2.0, least_s=2.0, now_s=clock)
    integrated = measure_energy(power, run, settle_s=0.0, least_s=2.0, now_s=clock)
    counted_w = counted.energy_j / counted.duration_s
    assert integrated.energy_j / integrated.duration_s == pytest.approx(counted_w, rel=0.1)


@pytest.mark.parametrize("dtype", MEASURED_DTYPES)
def test_inference_is_accurate_in_every_dtype(executor: LocalExecutor, dtype: Dtype) -> None:
    measured(executor, "default", dtype=dtype)


def test_products_in_tf32_round_as_those_in_fp32_do_not(executor: LocalExecutor) -> None:
    errors = [
        measured(executor, "eager", dtype=dtype).measurement("max_abs_error")
        for dtype in (Dtype.TF32, Dtype.FP32)
    ]
    in_tf32, in_fp32 = (0.0 if error is None else error.median for error in errors)
    # 10 bits of a factor are left of 23.
    assert in_tf32 > 50 * in_fp32 > 0


@pytest.mark.parametrize("dtype", [dtype for dtype in MEASURED_DTYPES if dtype is not Dtype.FP16])
def test_training_is_accurate_in_every_dtype(executor: LocalExecutor, dtype: Dtype) -> None:
    measured(executor, "default", phase=Phase.TRAINING, dtype=dtype)

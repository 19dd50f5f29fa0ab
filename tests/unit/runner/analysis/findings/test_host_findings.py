"""Findings about the host, CUDA graphs, memory and waiting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compile_hud.db.records.kernels import IDLE_AFTER_WAIT, Kernel
from compile_hud.db.records.results import CaseResult, Measurement
from tests.support.builders import make_case, make_measurement
from tests.support.records.gpu_results import findings_by_code, gpu_kernel, gpu_result

WORK = gpu_kernel("triton_poi_fused_gelu_0", count=10, mean_us=30, operators=("aten::gelu",))


def graphed(latency_us: float) -> CaseResult:
    case = make_case(device="cuda", dtype="bf16", mode="reduce-overhead")
    return gpu_result(WORK, latency_us=latency_us, case=case, id="graphed-1")


def test_a_gpu_that_waits_for_launches_is_host_bound() -> None:
    finding = findings_by_code(gpu_result(WORK, host_share=0.97))["host-bound"]
    assert finding.cost_s == pytest.approx(700e-6)


def test_cuda_graphs_of_the_same_run_measure_the_cost() -> None:
    result = gpu_result(WORK, host_share=0.97)
    finding = findings_by_code(result, siblings=[graphed(390)])["host-bound"]
    assert finding.cost_s == pytest.approx(610e-6)
    assert "`reduce-overhead` takes 390 us" in finding.text


def test_slower_cuda_graphs_measure_nothing() -> None:
    result = gpu_result(WORK, host_share=0.97)
    finding = findings_by_code(result, siblings=[graphed(1300)])["host-bound"]
    assert finding.cost_s == pytest.approx(700e-6)


@pytest.mark.parametrize(
    ("host_share", "latency_us"), [(0.5, 1000.0), (None, 1000.0), (0.99, 320.0)]
)
def test_a_busy_gpu_or_a_host_that_waits_is_silent(
    host_share: float | None, latency_us: float
) -> None:
    assert "host-bound" not in findings_by_code(
        gpu_result(WORK, host_share=host_share, latency_us=latency_us)
    )


def test_the_reason_of_skipped_cuda_graphs_is_named() -> None:
    reason = "skipping cudagraphs due to cpu device (arg0_1). Found from : net.py:12"
    finding = findings_by_code(gpu_result(WORK, details={"cudagraph_skip_reasons": [reason]}))[
        "cudagraph-skipped"
    ]
    assert finding.cost_s is None
    assert "cpu device" in finding.text
    assert "cudagraph-skipped" not in findings_by_code(
        gpu_result(WORK, details={"cudagraph_skip_reasons": []})
    )


GRAPHS = make_case(device="cuda", dtype="bf16", mode="reduce-overhead")
REPLAYED = gpu_kernel("nvjet_192x128", kind="gemm", library="cublas", count=30)
LAUNCHED = gpu_kernel(
    "multi_tensor_apply_adam",
    kind="elementwise",
    library="aten",
    count=20,
    operators=("aten::_foreach_lerp_",),
)
INPUTS = gpu_kernel(
    "multi_tensor_apply_copy",
    kind="elementwise",
    library="aten",
    count=20,
    operators=("aten::_foreach_copy_",),
)


def test_kernels_outside_of_graphs_lower_the_coverage() -> None:
    result = gpu_result(REPLAYED, LAUNCHED, case=GRAPHS, is_graph_replay=True, latency_us=2000)
    finding = findings_by_code(result)["cudagraph-coverage"]
    assert finding.cost_s is None
    assert "60 % of the calls" in finding.text


def test_without_a_replay_no_kernel_is_inside() -> None:
    result = gpu_result(REPLAYED, case=GRAPHS, latency_us=2000)
    assert "0 % of the calls" in findings_by_code(result)["cudagraph-coverage"].text


@pytest.mark.parametrize("kernels", [(REPLAYED,), (REPLAYED, INPUTS)])
def test_a_replay_with_copies_of_its_inputs_is_covered(kernels: tuple[Kernel, ...]) -> None:
    result = gpu_result(*kernels, case=GRAPHS, is_graph_replay=True, latency_us=2000)
    assert "cudagraph-coverage" not in findings_by_code(result)


def copy_to_host(*operators: str, **launch: Any) -> Kernel:
    return gpu_kernel(
        "Memcpy DtoH (Device -> Pageable)",
        kind="copy",
        library="cuda",
        count=2,
        mean_us=1.5,
        operators=operators,
        launch={"call_lines": {"gate": "/src/gate.py:17"}, **launch},
        module="gate",
    )


def test_a_copy_to_the_host_is_a_hidden_sync_with_its_line() -> None:
    finding = findings_by_code(gpu_result(WORK, copy_to_host("aten::_local_scalar_dense")))[
        "hidden-sync"
    ]
    assert finding.cost_s is None
    assert (finding.where.module, finding.where.line) == ("gate", "gate.py:17")


@pytest.mark.parametrize(("profiled_us", "cost_us"), [(700, 200), (1400, 100), (100, 200)])
def test_a_hidden_sync_costs_the_idle_time_after_it_without_the_profiler(
    profiled_us: float, cost_us: float
) -> None:
    copies = copy_to_host("aten::item", **{IDLE_AFTER_WAIT: 200e-6})
    result = gpu_result(WORK, copies, host_share=0.97)
    # The profiler slowed the host: an iteration had other gaps than 697 us.
    profile = result.details["profile"]
    parts = {**profile["parts"], "idle": profiled_us * 1e-6}
    slowed = replace(result, details={"profile": {**profile, "parts": parts}})
    finding = findings_by_code(slowed)["hidden-sync"]
    assert finding.cost_s == pytest.approx(cost_us * 1e-6, rel=0.01)


def test_idle_time_after_a_sync_is_no_time_of_the_host() -> None:
    copies = copy_to_host("aten::item", **{IDLE_AFTER_WAIT: 200e-6})
    findings = findings_by_code(gpu_result(WORK, copies, host_share=0.97))
    assert findings["hidden-sync"].cost_s == pytest.approx(200e-6)
    assert findings["host-bound"].cost_s == pytest.approx((700 - 3 - 200) * 1e-6)


def test_copies_to_the_device_are_silent() -> None:
    upload = gpu_kernel(
        "Memcpy HtoD (Pageable -> Device)", kind="copy", library="cuda", operators=("aten::copy_",)
    )
    assert "hidden-sync" not in findings_by_code(gpu_result(WORK, upload))


def test_slow_batches_are_a_data_wait_without_a_cost() -> None:
    slow, quick = (make_measurement("data_s", samples=(time_s,)) for time_s in (3e-4, 0.5e-4))
    finding = findings_by_code(gpu_result(WORK, measurements=[slow]))["data-wait"]
    assert finding.cost_s is None
    assert "300 us" in finding.text
    assert "data-wait" not in findings_by_code(gpu_result(WORK, measurements=[quick]))


def test_communication_counts_as_far_as_it_is_exposed() -> None:
    ring = gpu_kernel("ncclDevKernel_AllReduce", kind="communication", library="nccl", count=2)
    profile = {
        "num_iterations": 5,
        "iteration_s": 1e-3,
        "latency_s": 1e-3,
        "parts": {"fused": 3e-4, "communication": 4e-5, "idle": 6.6e-4},
    }
    result = gpu_result(WORK, ring, details={"profile": profile})
    assert findings_by_code(result)["exposed-communication"].cost_s == pytest.approx(4e-5)


def test_memory_that_grows_names_its_holder() -> None:
    growth = {"bytes_per_iteration": 524288, "holder": "layers.0.cache"}
    finding = findings_by_code(gpu_result(WORK, details={"memory_growth": growth}))["memory-grows"]
    assert (finding.cost_s, finding.where.module) == (None, "layers.0.cache")
    assert "512 KiB" in finding.text


GIB = 2.0**30


def sizes(**metrics: float) -> list[Measurement]:
    return [make_measurement(name, samples=(value * GIB,)) for name, value in metrics.items()]


def test_reserved_memory_far_above_the_peak_is_fragmentation() -> None:
    much = gpu_result(WORK, measurements=sizes(peak_reserved_bytes=7.5, peak_bytes=4))
    finding = findings_by_code(much)["fragmentation"]
    assert (finding.cost_s, [item.value for item in finding.evidence]) == (
        None,
        [7.5 * GIB, 4 * GIB],
    )
    for reserved, peak in ((5.0, 4.0), (0.9, 0.3)):
        usual = gpu_result(WORK, measurements=sizes(peak_reserved_bytes=reserved, peak_bytes=peak))
        assert "fragmentation" not in findings_by_code(usual)


def test_costs_are_shares_of_the_cpu_time_where_it_is_measured() -> None:
    kernels = [gpu_kernel("triton_poi_fused_clone_0", operators=("aten::clone",), count=1)]
    waiting = gpu_result(
        *kernels,
        latency_us=100.0,
        measurements=[make_measurement("latency_cpu_s", samples=(10e-6,))],
    )
    assert findings_by_code(waiting)["layout-copies"].cost_s == pytest.approx(10e-6)

"""The kernels of a GPU trace and where its time goes.

The events are made by hand in the form in which torch.profiler writes them.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from compile_hud.db.records.kernels import IDLE_AFTER_WAIT, Kernel
from compile_hud.runner.protocol.kernel_notes import KernelNote, KernelNotes
from compile_hud.runner.traces.profile import KernelReport
from tests.support.records.traces import Json, annotation, launch, on_gpu, operator, report_of

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,"
    " std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
FUSED = "triton_poi_fused_add_0"
BF16 = ["c10::BFloat16"] * 2
LAUNCHED = {
    "grid": [8, 1, 1],
    "block": [128, 1, 1],
    "registers per thread": 90,
    "shared memory": 49152,
    "est. achieved occupancy %": 31,
}
# The host is done after 40 us, the GPU after 120: a product of 60 us and a fused kernel of 30.
ITERATION = [
    annotation("hud/iteration", 0, 40),
    annotation("hud/module:mlp.up", 2, 15),
    operator("aten::mm", 5, 10, dims=[[64, 32], [32, 16]], types=BF16),
    launch(1, 6),
    operator(
        FUSED,
        20,
        30,
        kernel_backend="triton",
        kernel_kwargs="XBLOCK=512,YBLOCK=2",
        num_warps=4,
        num_stages=1,
        kernel_hash="cabc",
    ),
    launch(2, 21),
    on_gpu(GEMM, 20, 80, correlation=1, **LAUNCHED),
    on_gpu(FUSED, 90, 120, correlation=2),
]


def row(report: KernelReport, label: str) -> Kernel:
    (match,) = [kernel for kernel in report.kernels if kernel.label == label]
    return match


def test_an_iteration_lasts_until_its_work_has_ended(tmp_path: Path) -> None:
    profile = report_of(tmp_path, ITERATION).profile
    assert profile.iteration_s == pytest.approx(120e-6)
    assert profile.components == pytest.approx({"gemm": 60e-6, "fused": 30e-6, "idle": 30e-6})
    assert math.fsum(profile.components.values()) == pytest.approx(profile.iteration_s, rel=1e-12)
    assert profile.busy == pytest.approx(0.75)
    assert profile.is_graph_replay is False


def test_a_library_kernel_has_what_its_operator_knows(tmp_path: Path) -> None:
    peaks = {"bf16_flops_per_s": 1e10, "fp32_flops_per_s": 1.0, "copy_bytes_per_s": 1e9}
    product = row(report_of(tmp_path, ITERATION, peaks=peaks), GEMM)
    assert (product.kind, product.library, product.device) == ("gemm", "cublas", "cuda")
    assert product.operators == ("aten::mm",)
    assert product.shapes == "bfloat16 64x32, bfloat16 32x16"
    assert product.module == "mlp.up"
    assert product.flops == 2 * 64 * 32 * 16
    assert product.num_bytes == 2 * (64 * 32 + 32 * 16 + 64 * 16)
    assert product.roofline == pytest.approx(max(65536 / 60e-6 / 1e10, 7168 / 60e-6 / 1e9))
    assert product.launch == {
        "grid": [8, 1, 1],
        "block": [128, 1, 1],
        "registers": 90,
        "shared_bytes": 49152,
        "occupancy": 31,
        "streams": [7],
    }


def test_an_occupancy_of_zero_is_not_known(tmp_path: Path) -> None:
    events = [dict(event) for event in ITERATION]
    (product,) = [event for event in events if event["name"] == GEMM and event["cat"] == "kernel"]
    product["args"] = {**product["args"], "est. achieved occupancy %": 0}
    assert "occupancy" not in row(report_of(tmp_path, events), GEMM).launch


def test_a_triton_kernel_has_its_configuration(tmp_path: Path) -> None:
    fused = row(report_of(tmp_path, ITERATION), "triton_poi_fused_add")
    assert (fused.kind, fused.library, fused.operators) == ("fused", "triton", ())
    assert fused.config == {"XBLOCK": 512, "YBLOCK": 2, "num_warps": 4, "num_stages": 1}
    assert fused.launch == {"streams": [7], "kernel_hash": "cabc"}


def iteration_with(**facts: object) -> list[Json]:
    """Return the iteration as Inductor writes it where it benchmarks its kernels."""
    events = [dict(event) for event in ITERATION]
    (fused,) = [event for event in events if event["name"] == FUSED and event["cat"] == "cpu_op"]
    fused["args"] = {**fused["args"], **facts}
    return events


def test_a_triton_kernel_has_the_work_that_its_trace_tells(tmp_path: Path) -> None:
    events = iteration_with(kernel_num_gb=0.25, kernel_flop=1000)
    report = report_of(tmp_path, events, peaks={"copy_bytes_per_s": 2.5e13})
    fused = row(report, "triton_poi_fused_add")
    assert (fused.num_bytes, fused.flops) == (0.25e9, 1000.0)
    # 0.25 GB in 30 us.
    assert fused.roofline == pytest.approx(1 / 3)


@pytest.mark.parametrize("number", [-1, 0, "many", True, 10**80])
def test_work_that_no_one_can_have_done_is_not_reported(number: object, tmp_path: Path) -> None:
    report = report_of(tmp_path, iteration_with(kernel_num_gb=number, kernel_flop=number))
    fused = row(report, "triton_poi_fused_add")
    assert (fused.num_bytes, fused.flops) == (None, None)


def test_what_was_counted_as_a_triton_kernel_was_defined_counts(tmp_path: Path) -> None:
    note = KernelNote(language="triton", source="code", num_bytes=3e6, flops=5e5)
    notes = KernelNotes(device="cuda", num_iterations=1, kernels={FUSED: note})
    fused = row(
        report_of(tmp_path, iteration_with(kernel_num_gb=9.0), notes=notes), "triton_poi_fused_add"
    )
    assert (fused.num_bytes, fused.flops) == (3e6, 5e5)


def test_register_spills_of_a_note_are_with_the_launch(tmp_path: Path) -> None:
    for spills in (0, 96, None):
        note = KernelNote(language="triton", source="code", spills=spills)
        notes = KernelNotes.from_json(KernelNotes(kernels={FUSED: note}).to_json())
        report = report_of(tmp_path, iteration_with(kernel_num_gb=9.0), notes=notes)
        assert row(report, "triton_poi_fused_add").launch.get("spills") == spills


def test_work_belongs_to_the_iteration_that_launched_it(tmp_path: Path) -> None:
    events = [
        annotation("hud/iteration", 0, 10),
        launch(1, 1),
        annotation("hud/iteration", 10, 20),
        launch(2, 11),
        launch(3, 30),
        on_gpu("triton_poi_fused_add_0", 5, 35, correlation=1),
        on_gpu("triton_poi_fused_add_0", 35, 65, correlation=2),
        on_gpu("triton_poi_fused_add_0", 65, 99, correlation=3),
    ]
    report = report_of(tmp_path, events)
    (fused,) = report.kernels
    assert (fused.count, report.profile.num_iterations) == (1.0, 2)
    # Both together took from 0 to 65: they overlap, since the host runs ahead.
    assert report.profile.iteration_s == pytest.approx(32.5e-6)
    assert report.profile.components == pytest.approx({"fused": 30e-6, "idle": 2.5e-6})


def test_work_of_no_iteration_and_the_time_it_takes_alone_are_left_out(tmp_path: Path) -> None:
    events = [
        on_gpu("launched_before_recording", 0, 30, correlation=9),
        annotation("hud/iteration", 10, 100),
        launch(1, 11),
        on_gpu(GEMM, 25, 60, correlation=1),
        launch(2, 5),
        on_gpu("launched_between_iterations", 70, 80, correlation=2),
    ]
    report = report_of(tmp_path, events)
    assert [kernel.name for kernel in report.kernels] == [GEMM]
    assert report.profile.iteration_s == pytest.approx(65e-6)
    assert report.profile.components == pytest.approx({"gemm": 35e-6, "idle": 30e-6})


def test_overlapping_streams_are_counted_once_and_hiding_ranges_named(tmp_path: Path) -> None:
    events = [
        annotation("hud/iteration", 0, 100),
        *(launch(number, number) for number in (1, 2, 3)),
        on_gpu(GEMM, 10, 60, correlation=1),
        on_gpu(NCCL, 40, 90, correlation=2, stream=20),
        on_gpu("Memcpy DtoD (Device -> Device)", 50, 70, correlation=3, stream=21,
               category="gpu_memcpy", bytes=1000),
    ]  # fmt: skip
    report = report_of(tmp_path, events)
    parts = {"gemm": 50e-6, "copy": 10e-6, "communication": 20e-6, "idle": 20e-6}
    assert report.profile.components == pytest.approx(parts)
    assert report.profile.overlap_s == pytest.approx(40e-6)
    reduced = row(report, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL")
    assert (reduced.library, reduced.total_s) == ("nccl", pytest.approx(50e-6))
    assert row(report, "Memcpy DtoD (Device -> Device)").num_bytes == 2000


def test_a_replayed_graph_is_seen_and_names_no_operator(tmp_path: Path) -> None:
    events = [
        annotation("hud/iteration", 0, 50),
        operator("CompiledFunction", 1, 20),
        launch(1, 5, name="cudaGraphLaunch"),
        on_gpu(GEMM, 10, 30, correlation=1),
        on_gpu(ADD, 30, 50, correlation=1),
    ]
    report = report_of(tmp_path, events)
    assert report.profile.is_graph_replay is True
    assert [kernel.operators for kernel in report.kernels] == [(), ()]


def test_operations_are_given_to_the_kernel_that_does_them(tmp_path: Path) -> None:
    split = "void splitKreduce_kernel<float, float>(cublasSplitKParams<float>, float const*)"
    events = [
        operator("aten::mm", 0, 9, dims=[[2, 3], [3, 4]]),
        *(launch(number, number) for number in (1, 2)),
        on_gpu(GEMM, 10, 30, correlation=1),
        on_gpu(split, 30, 35, correlation=2),
    ]
    by_kind = {kernel.kind: kernel for kernel in report_of(tmp_path, events).kernels}
    assert (by_kind["gemm"].flops, by_kind["reduction"].flops) == (48, None)


def test_operations_of_several_kernels_belong_to_none(tmp_path: Path) -> None:
    events = [
        operator("aten::mm", 0, 9, dims=[[2, 3], [3, 4]]),
        *(launch(number, number) for number in (1, 2)),
        on_gpu(GEMM, 10, 30, correlation=1),
        on_gpu(GEMM + "_2", 30, 50, correlation=2),
    ]
    assert [kernel.flops for kernel in report_of(tmp_path, events).kernels] == [None, None]


def test_copies_over_the_bus_have_no_share_of_the_memory(tmp_path: Path) -> None:
    names = ("Memcpy HtoD (Pinned -> Device)", "Memset (Device)")
    events: list[Json] = [
        on_gpu(name, 10 * index, 10 * index + 5, correlation=0, category="gpu_memcpy", bytes=500)
        for index, name in enumerate(names)
    ]
    report = report_of(tmp_path, events, peaks={"copy_bytes_per_s": 1e9})
    assert row(report, names[0]).num_bytes == row(report, names[1]).num_bytes == 500
    assert row(report, names[0]).roofline is None
    assert row(report, names[1]).roofline == pytest.approx(0.1)


def test_a_trace_of_the_device_alone_has_its_operators_by_their_id(tmp_path: Path) -> None:
    mm = operator("aten::mm", 0, 9, dims=[[2, 3], [3, 4]])
    mm["args"]["External id"] = 17
    kernel = on_gpu(GEMM, 10, 30, correlation=99)
    kernel["args"]["External id"] = 17
    (row,) = report_of(tmp_path, [mm, kernel]).kernels
    assert row.operators == ("aten::mm",)


def test_ids_of_any_form_are_no_crash(tmp_path: Path) -> None:
    odd = [launch(1, 1), launch(1, 2), launch(-5, 3)]
    odd[2]["args"]["External id"] = "text"
    kernels = [on_gpu(GEMM, 10, 20, correlation=1), on_gpu(GEMM, 20, 30, correlation=2**70)]
    (row,) = report_of(tmp_path, [*odd, *kernels]).kernels
    assert row.count == 2


def test_launches_that_differ_say_only_what_they_share(tmp_path: Path) -> None:
    events = [
        on_gpu(GEMM, 10, 20, correlation=1, **LAUNCHED),
        on_gpu(GEMM, 20, 30, correlation=2, stream=9, **(LAUNCHED | {"grid": [9, 1, 1]})),
    ]
    (row,) = report_of(tmp_path, events).kernels
    assert "grid" not in row.launch
    assert (row.launch["block"], row.launch["streams"]) == ([128, 1, 1], [7, 9])


def waiting(*host: Json, copy: str = "cudaMemcpyAsync", side_stream: bool = False) -> list[Json]:
    """Return an iteration with a copy to the host, these events of the host, and a kernel."""
    events = [
        annotation("hud/iteration", 0, 200),
        operator("aten::_local_scalar_dense", 5, 60),
        launch(1, 10, name="cudaLaunchKernel"),
        launch(2, 20, name=copy),
        *host,
        operator("aten::add", 90, 95),
        launch(3, 91),
        on_gpu(GEMM, 12, 40, correlation=1),
        on_gpu("Memcpy DtoH (Device -> Pageable)", 40, 42, correlation=2, category="gpu_memcpy"),
        on_gpu(ADD, 100, 130, correlation=3),
        # The iteration waits for its end, after which nothing is launched.
        launch(9, 140, name="cudaDeviceSynchronize"),
    ]
    if side_stream:
        events += [launch(4, 15), on_gpu(NCCL, 30, 70, correlation=4, stream=9)]
    return events


SYNC = launch(8, 25, name="cudaStreamSynchronize")


@pytest.mark.parametrize(
    ("events", "idle_us"),
    [
        (waiting(SYNC), 58),
        (waiting(copy="cudaMemcpy"), 58),
        (waiting(SYNC, side_stream=True), 30),
        (waiting(), None),
        (waiting(launch(8, 15, name="cudaStreamSynchronize")), None),
        (waiting(launch(8, 92, name="cudaStreamSynchronize")), None),
    ],
    ids=["waits", "copies and waits", "other work", "does not wait", "before", "after a launch"],
)
def test_a_copy_that_the_host_waits_for_leaves_the_gpu_idle(
    events: list[Json], idle_us: float | None, tmp_path: Path
) -> None:
    copies = row(report_of(tmp_path, events), "Memcpy DtoH (Device -> Pageable)")
    idle_s = copies.launch.get(IDLE_AFTER_WAIT)
    assert idle_s == (None if idle_us is None else pytest.approx(1e-6 * idle_us))


def test_the_last_copy_of_an_iteration_leaves_nothing_idle(tmp_path: Path) -> None:
    events = [event for event in waiting(SYNC) if event["args"].get("correlation") != 3]
    copies = row(report_of(tmp_path, events), "Memcpy DtoH (Device -> Pageable)")
    assert IDLE_AFTER_WAIT not in copies.launch

"""The kernels and the time breakdown of a CPU trace."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import Kernel, ModuleTime, Origin, modules_of
from compile_hud.runner.errors import TraceError
from compile_hud.runner.protocol.kernel_notes import KernelNote, KernelNotes
from compile_hud.runner.traces.profile import KernelReport
from tests.support.records.kernel_codes import cpp_template
from tests.support.records.traces import Json, annotation, operator, report_of, span

# One iteration of 100 us: 10 in `aten::linear` itself, 50 in the product that it calls, 5 in the
# `aten::expand` within that, 20 in a generated kernel, and 15 in no operator.
ITERATION = [
    annotation("hud/iteration", 0, 100),
    annotation("hud/module:encoder.layer.0.dense", 2, 70),
    operator("aten::linear", 5, 70, dims=[[8, 4], [2, 4]]),
    operator("aten::addmm", 10, 65, dims=[[2], [8, 4], [4, 2]]),
    operator("aten::expand", 20, 25, dims=[[2]]),
    operator("cpp_fused_gelu_0", 75, 95),
]


def later(events: list[Json], by_us: float) -> list[Json]:
    return [event | {"ts": event["ts"] + by_us} for event in events]


def row(report: KernelReport, name: str) -> Kernel:
    (match,) = [kernel for kernel in report.kernels if kernel.name == name]
    return match


def test_an_operator_counts_by_its_own_time(tmp_path: Path) -> None:
    report = report_of(tmp_path, ITERATION)
    times = {kernel.name: kernel.total_s for kernel in report.kernels}
    assert times == pytest.approx(
        {
            "aten::addmm": 50e-6,
            "cpp_fused_gelu_0": 20e-6,
            "aten::linear": 10e-6,
            "aten::expand": 5e-6,
        }
    )
    assert [kernel.name for kernel in report.kernels][:2] == ["aten::addmm", "cpp_fused_gelu_0"]


def test_parts_add_up_to_the_iteration(tmp_path: Path) -> None:
    profile = report_of(tmp_path, ITERATION, latency_s=90e-6).profile
    assert profile.components == pytest.approx(
        {"gemm": 50e-6, "fused": 20e-6, "dispatch": 15e-6, "python": 15e-6}
    )
    assert math.fsum(profile.components.values()) == pytest.approx(profile.iteration_s, rel=1e-12)
    assert profile.remainder_s == pytest.approx(-10e-6)
    assert (profile.busy, profile.overlap_s, profile.trace) == (None, 0.0, "")


def test_a_row_has_shapes_module_and_work(tmp_path: Path) -> None:
    peaks = {"fp32_flops_per_s": 1e9, "copy_bytes_per_s": 1e9}
    product = row(report_of(tmp_path, ITERATION, peaks=peaks), "aten::addmm")
    assert (product.kind, product.library, product.device) == ("gemm", "aten", "cpu")
    assert product.shapes == "float32 2, float32 8x4, float32 4x2"
    assert product.operators == ("aten::addmm",)
    assert product.module == "encoder.layer.0.dense"
    assert (product.flops, product.num_bytes) == (2 * 8 * 4 * 2, 4 * (2 + 8 * 4 + 4 * 2 + 8 * 2))
    assert product.roofline == pytest.approx(232 / 50e-6 / 1e9)
    assert product.share == pytest.approx(0.5)


def test_a_product_that_another_operator_computes_is_the_work_of_that_one(tmp_path: Path) -> None:
    dims = [[64, 128], [128]]
    events = [
        annotation("hud/iteration", 0, 100),
        operator("aten::mv", 10, 60, dims=dims),
        operator("aten::addmv_", 20, 50, dims=[[64], *dims]),
    ]
    report = report_of(tmp_path, events)
    (outer, inner) = (row(report, name) for name in ("aten::mv", "aten::addmv_"))
    assert (outer.flops, outer.num_bytes) == (None, None)
    assert inner.flops == 2 * 64 * 128


def test_a_copy_of_something_else_leaves_a_product_its_work(tmp_path: Path) -> None:
    events = [
        annotation("hud/iteration", 0, 100),
        operator("aten::addmm", 10, 60, dims=[[2], [8, 4], [4, 2]]),
        operator(
            "aten::copy_", 20, 30, dims=[[8, 2], [8, 2]], **{"Input Strides": [[2, 1], [0, 1]]}
        ),
    ]
    report = report_of(tmp_path, events)
    assert row(report, "aten::addmm").flops == 2 * 8 * 4 * 2
    assert row(report, "aten::copy_").num_bytes == (8 * 2 + 2) * 4


def test_inputs_of_one_shape_that_lie_differently_have_no_one_number(tmp_path: Path) -> None:
    dims = [[8, 2], [8, 2]]
    events = [
        annotation("hud/iteration", 0, 100),
        operator("aten::copy_", 20, 30, dims=dims, **{"Input Strides": [[2, 1], [0, 1]]}),
        operator("aten::copy_", 40, 50, dims=dims, **{"Input Strides": [[2, 1], [2, 1]]}),
    ]
    copy = row(report_of(tmp_path, events), "aten::copy_")
    assert (copy.count, copy.num_bytes) == (2.0, None)


def test_everything_is_an_iteration_on_average(tmp_path: Path) -> None:
    second = later(ITERATION, 200)
    second[-1] = operator("cpp_fused_gelu_0", 275, 285)
    report = report_of(tmp_path, ITERATION + second)
    fused = row(report, "cpp_fused_gelu_0")
    assert (fused.count, report.profile.num_iterations) == (1.0, 2)
    assert fused.total_s == fused.mean_s == pytest.approx(15e-6)
    assert fused.min_s == pytest.approx(10e-6)
    assert report.profile.iteration_s == pytest.approx(100e-6)


def test_what_runs_between_iterations_is_left_out(tmp_path: Path) -> None:
    between = operator("aten::mm", 150, 160, dims=[[2, 2], [2, 2]])
    report = report_of(tmp_path, [*ITERATION, between, *later(ITERATION, 200)])
    assert report.profile == report_of(tmp_path, ITERATION + later(ITERATION, 200)).profile
    assert all(kernel.name != "aten::mm" for kernel in report.kernels)


def test_steps_of_the_profiler_are_iterations_of_a_foreign_trace(tmp_path: Path) -> None:
    steps = [annotation("ProfilerStep#3", 0, 50), annotation("ProfilerStep#4", 50, 100)]
    report = report_of(tmp_path, [*steps, *ITERATION[1:]])
    assert report.profile.num_iterations == 2
    assert row(report, "aten::addmm").count == 0.5


def test_a_trace_without_steps_is_one_iteration(tmp_path: Path) -> None:
    report = report_of(tmp_path, ITERATION[2:])
    assert report.profile.num_iterations == 1
    assert report.profile.iteration_s == pytest.approx(90e-6)


def test_generated_kernels_are_known_by_their_own_name(tmp_path: Path) -> None:
    names = ["graph_0_cpp_fused_gelu_0", "cpp_fused_gelu_0"]
    events = [
        annotation("hud/iteration", 0, 100),
        span(names[0], 10, 20),
        annotation(names[1], 30, 50),
    ]
    fused = row(report_of(tmp_path, events), "cpp_fused_gelu_0")
    assert (fused.count, fused.kind, fused.library) == (2.0, "fused", "inductor-cpp")
    assert fused.label == "cpp_fused_gelu"
    assert fused.total_s == pytest.approx(30e-6)


def test_notes_report_code_and_origin_of_a_kernel(tmp_path: Path) -> None:
    origin = Origin(node="gelu", target="aten.gelu.default", module="encoder.act")
    note = KernelNote(
        language="cpp",
        source="void cpp_fused_gelu_0() {}",
        num_bytes=20_000.0,
        flops=4000.0,
        origins=(origin,),
        arguments=(8, {"same_as": 0}),
    )
    notes = KernelNotes(device="cpu", num_iterations=1, kernels={"cpp_fused_gelu_0": note})
    report = report_of(tmp_path, ITERATION, notes=notes, peaks={"copy_bytes_per_s": 2e9})
    fused = row(report, "cpp_fused_gelu_0")
    assert (fused.operators, fused.origins) == (("aten::gelu",), (origin,))
    assert (fused.module, fused.config) == ("encoder.act", {})
    assert fused.launch == {"arguments": [8, {"same_as": 0}]}
    assert (fused.num_bytes, fused.flops) == (20_000.0, 4000.0)
    assert fused.roofline == pytest.approx(0.5)
    (source,) = report.sources
    assert (source.hash, source.text) == (fused.source_hash, note.source)


def test_a_template_of_a_product_is_one_and_its_blocks_are_its_configuration(
    tmp_path: Path,
) -> None:
    note = KernelNote(language="cpp", source=cpp_template(2))
    report = report_of(tmp_path, ITERATION, notes=KernelNotes(kernels={"cpp_fused_gelu_0": note}))
    product = row(report, "cpp_fused_gelu_0")
    assert (product.kind, product.library) == ("gemm", "inductor-cpp")
    assert product.config == {"Mr": 8, "Mt_blocks": 8, "Mc_blocks": 2}
    assert report.profile.components["gemm"] == pytest.approx(70e-6)
    assert "fused" not in report.profile.components


def test_a_kernel_of_a_second_graph_is_a_part_like_that_of_the_first(tmp_path: Path) -> None:
    note = KernelNote(language="cpp", source="void kernel() {}")
    events = [annotation("hud/iteration", 0, 10), annotation("cpp_fused_gelu_0#2", 2, 9)]
    notes = KernelNotes(kernels={"cpp_fused_gelu_0#2": note})
    report = report_of(tmp_path, events, notes=notes)
    assert [kernel.kind for kernel in report.kernels] == ["fused"]
    assert report.profile.components == pytest.approx({"fused": 7e-6, "python": 3e-6})


def test_another_number_is_the_same_code(tmp_path: Path) -> None:
    code = "extern void {0}(float* x) {{ call_{0}(x); }}"
    names = ["cpp_fused_gelu_0", "cpp_fused_gelu_7"]
    notes = KernelNotes(
        kernels={
            name: KernelNote(language="cpp", source=code.format(name).replace("call_", "call."))
            for name in names
        }
    )
    events = [span(name, 10 * index, 10 * index + 5) for index, name in enumerate(names)]
    report = report_of(tmp_path, events, notes=notes)
    assert len({kernel.source_hash for kernel in report.kernels}) == len(report.sources) == 1


def test_rows_differ_by_shapes_but_not_what_dispatches(tmp_path: Path) -> None:
    events = [
        operator("aten::mm", 0, 2, dims=[[2, 3], [3, 4]]),
        operator("aten::mm", 2, 4, dims=[[2, 3], [3, 4]], types=["double", "double"]),
        operator("aten::view", 4, 6, dims=[[2, 3]]),
        operator("aten::view", 6, 8, dims=[[6]]),
    ]
    rows = [(kernel.name, kernel.shapes) for kernel in report_of(tmp_path, events).kernels]
    assert sorted(rows) == [
        ("aten::mm", "float32 2x3, float32 3x4"),
        ("aten::mm", "float64 2x3, float64 3x4"),
        ("aten::view", ""),
    ]


def test_rows_of_several_modules_name_the_path_they_share(tmp_path: Path) -> None:
    events = [
        annotation("hud/module:encoder.0.act", 0, 10),
        operator("aten::gelu", 1, 9, dims=[[4]]),
        annotation("hud/module:encoder.1.act", 10, 20),
        operator("aten::gelu", 11, 19, dims=[[4]]),
    ]
    gelu = row(report_of(tmp_path, events), "aten::gelu")
    assert gelu.module == "encoder"
    assert modules_of(gelu) == (
        ModuleTime(path="encoder.0.act", count=1.0, total_s=pytest.approx(8e-6)),
        ModuleTime(path="encoder.1.act", count=1.0, total_s=pytest.approx(8e-6)),
    )


def test_a_row_of_one_module_does_not_list_it(tmp_path: Path) -> None:
    assert modules_of(row(report_of(tmp_path, ITERATION), "aten::addmm")) == ()


def test_what_another_thread_computes_is_no_python(tmp_path: Path) -> None:
    events = [
        annotation("hud/iteration", 0, 100),
        operator("aten::mm", 10, 40, dims=[[2, 2], [2, 2]]),
        operator("aten::bmm", 30, 90, dims=[[1, 2, 2], [1, 2, 2]], tid=2),
    ]
    profile = report_of(tmp_path, events).profile
    assert profile.components == pytest.approx({"gemm": 80e-6, "python": 20e-6})
    assert profile.overlap_s == pytest.approx(10e-6)


def test_time_in_an_annotation_belongs_to_the_operator_above(tmp_path: Path) -> None:
    events = [
        annotation("hud/iteration", 0, 100),
        operator("Torch-Compiled Region: 0/0", 10, 90),
        annotation("## Call CompiledFxGraph abc ##", 20, 80),
        operator("cpp_fused_add_0", 30, 70),
    ]
    parts = report_of(tmp_path, events).profile.components
    assert parts == pytest.approx({"fused": 40e-6, "dispatch": 40e-6, "python": 20e-6})


@pytest.mark.parametrize(
    "notes",
    [
        KernelNotes(num_iterations=3),
        KernelNotes(device="cuda"),
    ],
)
def test_notes_of_another_trace_are_refused(
    tmp_path: Path, notes: KernelNotes, words: SnapshotAssertion
) -> None:
    with pytest.raises(TraceError) as caught:
        report_of(tmp_path, ITERATION, notes=notes)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "events",
    [
        [],
        [annotation("hud/iteration", 5, 5)],
    ],
)
def test_a_trace_with_nothing_to_show_is_refused(
    tmp_path: Path, events: list[Json], words: SnapshotAssertion
) -> None:
    with pytest.raises(TraceError) as caught:
        report_of(tmp_path, events)
    assert str(caught.value) == words

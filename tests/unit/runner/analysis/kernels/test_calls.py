"""Kernels of one call, and products and convolutions of other shapes or other libraries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind, KernelChange
from compile_hud.runner.analysis.kernels.diff import diff_kernels
from compile_hud.runner.analysis.kernels.grouping import MatchedBy
from compile_hud.runner.analysis.kernels.operator_families import family_of
from tests.support.builders import make_kernel
from tests.support.records.kernel_diffs import US, only_row, side_with, taking, triton


def library(
    name: str,
    operator: str,
    shapes: str = "",
    *,
    kind: str = "gemm",
    mean_us: float = 10,
    **fields: Any,
) -> Kernel:
    """Return a kernel of a library that `operator` calls once."""
    kernel = make_kernel(name, label=name, kind=kind, library="cublas", operators=[operator])
    return replace(taking(kernel, mean_us, count=1.0), shapes=shapes, **fields)


def kinds_of(rows: tuple[KernelChange, ...]) -> list[ChangeKind]:
    return sorted(row.kind for row in rows)


OPERATORS = {
    "aten::bmm": [f"float16 {batch}x31x{k}, float16 {batch}x{k}x17" for batch, k in
                  ((2, 5), (4, 7), (6, 9), (8, 11))],
    "aten::mm": [f"float32 {m}x40, float32 40x{n}" for m, n in ((3, 9), (5, 8), (7, 6), (9, 4))],
    "aten::_scaled_mm": [f"float8_e4m3fn {m}x64, float8_e4m3fn 64x32" for m in (16, 48, 80, 96)],
    "aten::sum": [f"float32 {m}x40" for m in (3, 5, 7, 9)],
}  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS)
def test_calls_of_other_shapes_are_not_merged(operator: str) -> None:
    kind = "reduction" if operator == "aten::sum" else "gemm"
    shapes = OPERATORS[operator]
    before = [
        library(f"tile_{index}", operator, shape, kind=kind, mean_us=10 + index)
        for index, shape in enumerate(shapes)
    ]
    after = [
        library("one_for_all", operator, shapes[0], kind=kind, mean_us=44),
        library("epilogue", operator, shapes[0], kind="other", mean_us=3),
    ]
    for sides in ((before, after), (after, before)):
        rows = diff_kernels(side_with(*sides[0]), side_with(*sides[1])).rows
        gone = ChangeKind.VANISHED if sides[0] is before else ChangeKind.NEW
        one_sided = [row for row in rows if row.kind is gone and "tile" in row.label]
        assert sum(abs(row.contribution_s) for row in one_sided) == pytest.approx(36 * US)
        assert not any("tile_1" in row.label for row in rows if row.baseline and row.candidate)


def test_a_product_and_its_epilogue_are_a_split(words: SnapshotAssertion) -> None:
    shapes = "float16 640, float16 96x320, float16 320x640"
    before = [library("nvjet_96x64", "aten::addmm", shapes, mean_us=41)]
    after = [
        library("sgemm_32x32", "aten::addmm", shapes, mean_us=77),
        library("bias_kernel", "aten::addmm", shapes, kind="other", mean_us=6),
    ]
    row = only_row(side_with(*before), side_with(*after))
    assert (row.kind, row.matched_by) == (ChangeKind.SPLIT, MatchedBy.CALL)
    assert row.contribution_s == pytest.approx(42 * US)
    assert row.text == words
    mirrored = only_row(side_with(*after), side_with(*before))
    assert (mirrored.kind, mirrored.contribution_s) == (ChangeKind.MERGED, -row.contribution_s)


def test_a_second_product_with_the_same_inputs_is_another_call() -> None:
    shapes = "float16 24x48, float16 48x12"
    before = library("nvjet_24", "aten::mm", shapes)
    after = [library(name, "aten::mm", shapes) for name in ("sgemm_a", "sgemm_b")]
    kinds = kinds_of(diff_kernels(side_with(before), side_with(*after)).rows)
    assert kinds == [ChangeKind.NEW, ChangeKind.OTHER_ALGORITHM]


def test_without_shapes_products_are_not_merged() -> None:
    before = [library(f"tile_{index}", "aten::addmm") for index in range(3)]
    after = [library("sgemm", "aten::addmm"), library("bias", "aten::addmm", kind="other")]
    kinds = kinds_of(diff_kernels(side_with(*before), side_with(*after)).rows)
    assert kinds == [
        ChangeKind.NEW,
        ChangeKind.OTHER_ALGORITHM,
        ChangeKind.VANISHED,
        ChangeKind.VANISHED,
    ]


def test_a_template_computes_one_of_several_products() -> None:
    before = [
        library(f"tile_{m}", "aten::addmm", f"float32 8, float32 {m}x4, float32 4x8", mean_us=m)
        for m in (16, 32, 64)
    ]
    relu = library("relu", "aten::relu", "float32 32x8", kind="elementwise", mean_us=2)
    template = triton(
        "triton_tem_fused_addmm_relu_0", operators=("aten.addmm", "aten.relu"), kind="gemm"
    )
    after = taking(template, 30, count=1)
    rows = diff_kernels(side_with(*before, relu), side_with(after)).rows
    (merged,) = [row for row in rows if row.kind is ChangeKind.MERGED]
    assert len(merged.baseline) == 2
    assert relu in merged.baseline
    assert kinds_of(rows) == [ChangeKind.MERGED, ChangeKind.VANISHED, ChangeKind.VANISHED]


def test_calls_of_products_go_to_a_label_once() -> None:
    before = [
        library(f"aten::mm_{m}", "aten::mm", f"float32 {m}x4, float32 4x8") for m in (3, 5, 7)
    ]
    label = "triton_tem_fused_mm"
    after = taking(triton(f"{label}_1", operators=(), kind="gemm"), 10, count=1)
    rows = diff_kernels(side_with(*before), side_with(after)).rows
    matched = [row for row in rows if row.baseline and row.candidate]
    assert [len(row.baseline) for row in matched] == [1]
    assert sum(kernel.count for row in matched for kernel in row.baseline) == 1


CUDNN = "float16 2x16x33x65, float16 24x16x5x5"
MIOPEN = f"{CUDNN}, float16 24"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("aten::cudnn_convolution", "aten::miopen_convolution"),
        ("aten::_conv_depthwise2d", "aten::miopen_depthwise_convolution"),
        ("aten::cudnn_convolution", "aten::convolution_overrideable"),
        ("aten::cudnn_convolution_transpose", "aten::slow_conv_transpose2d"),
        ("aten::mkldnn_convolution", "aten::_slow_conv2d_forward"),
        ("aten::cudnn_convolution_relu", "aten::miopen_convolution_relu"),
    ],
)
def test_a_convolution_of_another_library_is_another_algorithm(before: str, after: str) -> None:
    one = library("implicit_convolve_sgemm", before, CUDNN, kind="convolution", mean_us=70)
    other = library("igemm_fwd_gtc", after, MIOPEN, kind="convolution", mean_us=25)
    row = only_row(side_with(one), side_with(other))
    assert (row.kind, row.matched_by) == (ChangeKind.OTHER_ALGORITHM, MatchedBy.OTHER_LIBRARY)
    assert row.contribution_s == pytest.approx(-45 * US)
    assert "with other shapes" not in row.text


def test_convolutions_of_several_shapes_and_settings_find_their_own() -> None:
    shapes = {
        "first": f"{CUDNN}; [2, 2] [0, 0] [1, 1] 1",
        "second": f"{CUDNN}; [1, 1] [2, 2] [1, 1] 1",
        "third": "float16 2x24x16x32, float16 24x24x3x3; [1, 1] [1, 1] [1, 1] 1",
    }
    before = [
        library(f"{name}_cudnn", "aten::cudnn_convolution", text, kind="convolution")
        for name, text in shapes.items()
    ]
    after = [
        library(
            f"{name}_miopen",
            "aten::miopen_convolution",
            f"{text.partition(';')[0]}, float16 24;{text.partition(';')[2]}",
            kind="convolution",
            mean_us=30,
        )
        for name, text in reversed(shapes.items())
    ]
    rows = diff_kernels(side_with(*before), side_with(*after)).rows
    pairs = {row.baseline[0].name: row.candidate[0].name for row in rows}
    assert pairs == {f"{name}_cudnn": f"{name}_miopen" for name in shapes}


def test_a_convolution_of_another_library_may_run_several_kernels() -> None:
    one = library("sm90_xmma_fprop", "aten::cudnn_convolution", CUDNN, kind="convolution")
    operator = "aten::miopen_convolution"
    others = [
        library("batched_transpose_32x32_half", operator, MIOPEN, kind="copy", mean_us=2),
        library("Cijk_Alik_Bljk", operator, MIOPEN, kind="convolution", mean_us=9),
        library("winograd_output", operator, MIOPEN, kind="convolution", mean_us=3),
    ]
    row = only_row(side_with(one), side_with(*others))
    assert (row.kind, row.matched_by) == (ChangeKind.SPLIT, MatchedBy.CALL)
    assert row.contribution_s == pytest.approx(4 * US)


def test_products_and_transposes_of_a_convolution_find_their_own_in_another_library() -> None:
    def kernels(operator: str, shapes: str, **counts: float) -> list[Kernel]:
        return [
            taking(
                library(
                    f"{name}_{operator[6:]}",
                    operator,
                    shapes,
                    kind="copy" if "transpose" in name else "convolution",
                ),
                10,
                count=count,
            )
            for name, count in counts.items()
        ]

    before = kernels("aten::cudnn_convolution", CUDNN, fprop=1.0, a_transpose=2.0)
    after = kernels("aten::miopen_convolution", MIOPEN, igemm=1.0, z_transpose=1.0, b_transpose=1.0)
    rows = diff_kernels(side_with(*before), side_with(*after)).rows
    names = {row.baseline[0].label: row.candidate[0].label for row in rows if row.baseline}
    assert names["fprop_cudnn_convolution"] == "igemm_miopen_convolution"
    assert "transpose" in names["a_transpose_cudnn_convolution"]
    assert kinds_of(rows) == [
        ChangeKind.NEW,
        ChangeKind.OTHER_ALGORITHM,
        ChangeKind.OTHER_ALGORITHM,
    ]


def test_convolutions_of_other_weights_are_not_matched_across_libraries() -> None:
    one = library("fprop", "aten::cudnn_convolution", CUDNN, kind="convolution")
    shapes = "float16 2x16x33x65, float16 24x16x3x3, float16 24"
    other = library("igemm", "aten::miopen_convolution", shapes, kind="convolution")
    kinds = kinds_of(diff_kernels(side_with(one), side_with(other)).rows)
    assert kinds == [ChangeKind.NEW, ChangeKind.VANISHED]


@pytest.mark.parametrize(
    ("operator", "family"),
    [
        ("miopen_batch_norm", "batch_norm"),
        ("cudnn_convolution_add_relu", "convolution_add_relu"),
        ("conv_depthwise3d", "convolution"),
        ("miopen_convolution_backward_weight", "convolution_backward"),
        ("slow_conv2d_backward", "convolution_backward"),
        ("addmm", "addmm"),
    ],
)
def test_families(operator: str, family: str) -> None:
    assert family_of(operator) == family

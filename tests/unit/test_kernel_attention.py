"""Attention in one kernel on one side and in its parts on the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.kernels import Kernel
from runner.analysis.kernel_change import ChangeKind, KernelChange
from runner.analysis.kernel_diff import diff_kernels
from runner.analysis.kernel_groups import MatchedBy
from tests.kernel_diffs import US, cublas, only_row, side_with, triton

SCORES = "float32 192x512x512"
VALUES = "float32 192x512x64"
KEYS = "float32 192x64x512"


def flash(name: str = "flash_fprop", *, operator: str = "forward", count: float = 12.0) -> Kernel:
    """Return a kernel of attention."""
    return cublas(
        name,
        kind="attention",
        library="cudnn",
        operators=(f"aten::_scaled_dot_product_attention_{operator}",),
        shapes="bfloat16 16x12x512x64, bfloat16 16x12x512x64, bfloat16 16x12x512x64",
        count=count,
        total_s=count * 10 * US,
    )


def product(shapes: str, *, count: float = 12.0) -> Kernel:
    """Return a batched product."""
    operators = ("aten::bmm",)
    return cublas(
        "sgemm_batched",
        operators=operators,
        shapes=shapes,
        count=count,
        total_s=count * 10 * US,
    )


def softmax(name: str = "triton_per_fused__safe_softmax_where_0", *, count: float = 12.0) -> Kernel:
    """Return a softmax that the compiler wrote."""
    operators = ("aten::exp", "aten::sub", "aten::where")
    return triton(
        name,
        operators=operators,
        shapes="float32 16x12x512x512",
        count=count,
        total_s=count * 10 * US,
    )


QK = product(f"{VALUES}, {KEYS}, {SCORES}")
PV = product(f"{SCORES}, {VALUES}, {VALUES}")
APART = (QK, softmax(), PV)
CONVERTED = triton(
    "triton_poi_fused__to_copy_clone_mul_transpose_view_1",
    operators=("aten::clone", "aten::mul", "aten::permute"),
    shapes="bfloat16 8192x768, float32 16x12x64x512",
)
MASKED = triton(
    "triton_poi_fused_masked_fill_2",
    operators=("aten::masked_fill",),
    shapes="float32 16x12x512x512, bool 1x1x512x512",
)


def test_attention_that_was_taken_apart_is_one_row() -> None:
    row = only_row(side_with(flash()), side_with(*APART))
    assert (row.kind, row.matched_by) == (ChangeKind.SPLIT, MatchedBy.ATTENTION)
    assert row.text == "3 kernels do what 1 did (attention): 120 -> 360 us an iteration."
    assert row.contribution_s == pytest.approx(240 * US)


def test_attention_that_was_put_together_is_one_row() -> None:
    row = only_row(side_with(*APART), side_with(flash()))
    assert (row.kind, row.candidate) == (ChangeKind.MERGED, (flash(),))
    assert row.text == "One kernel does what 3 did (attention): 360 -> 120 us an iteration."


def test_what_prepares_the_inputs_and_masks_the_scores_belongs_to_it() -> None:
    other = triton("triton_poi_fused_mul_3", operators=("aten::mul",), shapes="float32 7x5")
    rows = diff_kernels(side_with(flash()), side_with(*APART, CONVERTED, MASKED, other)).rows
    by_kind = {row.kind: row for row in rows}
    assert by_kind.keys() == {ChangeKind.SPLIT, ChangeKind.NEW}
    assert known(by_kind[ChangeKind.SPLIT].candidate) == known((*APART, CONVERTED, MASKED))
    assert by_kind[ChangeKind.NEW].candidate == (other,)


def test_of_more_kernels_than_one_row_has_room_for_those_that_move_are_left_out() -> None:
    moves = [
        replace(CONVERTED, name=f"{CONVERTED.name}{number}", config={"num_warps": number})
        for number in range(6)
    ]
    rows = diff_kernels(side_with(flash()), side_with(*APART, *moves)).rows
    assert [len(row.candidate) for row in rows] == [3, *[1] * 6]


def test_two_attentions_and_their_gradients_are_one_row() -> None:
    """Flash attention launches three kernels for a gradient, and its products are four."""
    gradients = [
        flash(f"flash_bwd_{what}", operator="backward") for what in ("dot", "dq_dk_dv", "convert")
    ]
    backward = softmax("triton_per_fused__softmax_backward_data_4")
    many = replace(QK, count=72.0, total_s=720 * US)
    row = only_row(side_with(flash(), *gradients), side_with(many, softmax(), backward))
    assert (row.kind, row.matched_by) == (ChangeKind.MERGED, MatchedBy.ATTENTION)


@pytest.mark.parametrize(
    "parts",
    [
        (QK, softmax()),
        (QK, PV),
        (QK, PV, softmax(count=6.0)),
        (QK, PV, softmax("triton_per_fused__log_softmax_5")),
        (replace(QK, count=48.0, total_s=480 * US), softmax()),
        (QK, PV, softmax("triton_per_fused__softmax_backward_data_4")),
    ],
    ids=["one product", "no softmax", "too few", "of a loss", "too many products", "a gradient"],
)
def test_what_does_not_add_up_to_attention_is_new(parts: tuple[Kernel, ...]) -> None:
    rows = diff_kernels(side_with(flash()), side_with(*parts)).rows
    assert {row.kind for row in rows} == {ChangeKind.VANISHED, ChangeKind.NEW}


def test_attention_that_both_sides_have_is_no_part_of_it() -> None:
    cross = replace(flash("flash_cross"), shapes="bfloat16 16x12x77x64")
    rows = diff_kernels(side_with(flash(), cross), side_with(cross, *APART)).rows
    assert {row.kind: row.baseline for row in rows} == {
        ChangeKind.SPLIT: (flash(),),
        ChangeKind.UNCHANGED: (cross,),
    }


def known(kernels: Iterable[Kernel]) -> list[tuple[str, str, float]]:
    return sorted((kernel.name, kernel.shapes, kernel.count) for kernel in kernels)


def facts(row: KernelChange) -> tuple[object, ...]:
    return row.matched_by, row.contribution_s, row.baseline, row.candidate


@given(
    whole=st.lists(
        st.sampled_from([flash(), flash("flash_bwd", operator="backward")]), unique_by=repr
    ),
    parts=st.lists(
        st.sampled_from([*APART, CONVERTED, MASKED, product(VALUES, count=24.0)]), unique_by=repr
    ),
)
def test_the_other_way_round_it_is_the_same(whole: list[Kernel], parts: list[Kernel]) -> None:
    diff = diff_kernels(side_with(*whole), side_with(*parts))
    mirror = diff_kernels(side_with(*parts), side_with(*whole))
    swapped = [
        (row.matched_by, -row.contribution_s, row.candidate, row.baseline) for row in diff.rows
    ]
    assert [facts(row) for row in mirror.rows] == swapped
    assert known(whole) == known(kernel for row in diff.rows for kernel in row.baseline)
    assert known(parts) == known(kernel for row in diff.rows for kernel in row.candidate)

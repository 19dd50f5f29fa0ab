"""Attention in one kernel on one side and in its parts on the other."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind, KernelChange
from compile_hud.runner.analysis.kernels.diff import diff_kernels
from compile_hud.runner.analysis.kernels.grouping import MatchedBy
from tests.support.records.kernel_diffs import US, cublas, only_row, side_with, triton

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


def softmax(
    name: str = "triton_per_fused__safe_softmax_where_0",
    *,
    count: float = 12.0,
    shapes: str = "float32 16x12x512x512",
    **fields: Any,
) -> Kernel:
    """Return a softmax that the compiler wrote."""
    operators = ("aten::exp", "aten::sub", "aten::where")
    total_s = count * 10 * US
    return triton(name, operators=operators, shapes=shapes, count=count, total_s=total_s, **fields)


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


def kernel_times(kernels: Iterable[Kernel]) -> list[tuple[str, str, float]]:
    return sorted((kernel.name, kernel.shapes, kernel.count) for kernel in kernels)


def kinds_of(before: Iterable[Kernel], after: Iterable[Kernel]) -> set[ChangeKind]:
    return {row.kind for row in diff_kernels(side_with(*before), side_with(*after)).rows}


def test_attention_that_was_taken_apart_is_one_row(words: SnapshotAssertion) -> None:
    row = only_row(side_with(flash()), side_with(*APART))
    assert (row.kind, row.matched_by) == (ChangeKind.SPLIT, MatchedBy.ATTENTION)
    assert row.text == words
    assert row.contribution_s == pytest.approx(240 * US)


def test_attention_that_was_put_together_is_one_row(words: SnapshotAssertion) -> None:
    row = only_row(side_with(*APART), side_with(flash()))
    assert (row.kind, row.candidate) == (ChangeKind.MERGED, (flash(),))
    assert row.text == words


def test_eager_products_list_what_they_take_alone() -> None:
    apart = (product(f"{VALUES}, {KEYS}"), softmax(), product(f"{SCORES}, {VALUES}"))
    assert only_row(side_with(flash()), side_with(*apart)).kind is ChangeKind.SPLIT
    biased = replace(product(f"float32 192x1x512, {VALUES}, {KEYS}"), operators=("aten::baddbmm",))
    apart = (biased, softmax(), product(f"{SCORES}, {VALUES}"))
    assert only_row(side_with(flash()), side_with(*apart)).kind is ChangeKind.SPLIT


def test_a_softmax_of_long_rows_takes_two_kernels() -> None:
    second = softmax("triton_poi_fused__softmax_where_9")
    row = only_row(side_with(flash()), side_with(*APART, second))
    assert (row.kind, len(row.candidate)) == (ChangeKind.SPLIT, 4)


def test_the_combining_of_what_was_split_is_no_call_of_its_own() -> None:
    combine = flash("flash_fwd_splitkv_combine_kernel")
    row = only_row(side_with(flash(), combine), side_with(*APART))
    assert (row.matched_by, len(row.baseline)) == (MatchedBy.ATTENTION, 2)
    # Another kernel of the same inputs is: of both only one was taken apart, and who knows which.
    assert MatchedBy.ATTENTION not in {
        row.matched_by
        for row in diff_kernels(side_with(flash(), flash("flash_local")), side_with(*APART)).rows
    }


def test_what_prepares_the_inputs_and_masks_the_scores_belongs_to_it() -> None:
    row = only_row(side_with(flash()), side_with(*APART, CONVERTED, MASKED))
    assert (row.kind, kernel_times(row.candidate)) == (
        ChangeKind.SPLIT,
        kernel_times((*APART, CONVERTED, MASKED)),
    )


@pytest.mark.parametrize(
    "other",
    [
        replace(CONVERTED, shapes="float32 8192x768, float32 8192x768"),
        replace(CONVERTED, name="triton_poi_fused_gelu_3", label="triton_poi_fused_gelu"),
        replace(CONVERTED, count=6.0),
        replace(MASKED, count=100.0),
        replace(MASKED, operators=()),
        replace(MASKED, kind="gemm"),
        cublas("ampere_gemm_ffn", operators=(), shapes=VALUES, count=12.0),
        softmax("triton_per_fused__softmax_router_8", shapes="float32 8192x12"),
        softmax("triton_per_fused__log_softmax_5", shapes="float32 8192x30528", count=1.0),
        product("float32 12x8192x768, float32 12x768x64"),
        product("float32 192x512x7, float32 5x9x512"),
        replace(MASKED, shapes="float32 512x512"),
    ],
    ids=[
        *("other sizes", "not only moved", "less often", "more often", "nobody knows what"),
        *("a product", "of nobody", "another softmax", "of a loss", "of experts"),
        *("no product that there is", "of one head"),
    ],
)
def test_what_has_nothing_to_do_with_attention_stays_out_of_it(other: Kernel) -> None:
    rows = diff_kernels(side_with(flash()), side_with(*APART, other)).rows
    times = {row.kind: kernel_times(row.candidate) for row in rows}
    assert times == {ChangeKind.SPLIT: kernel_times(APART), ChangeKind.NEW: kernel_times([other])}


def test_a_row_leaves_out_the_kernels_beyond_its_limit() -> None:
    moves = [replace(CONVERTED, config={"num_warps": number}) for number in range(21)]
    row = only_row(side_with(flash()), side_with(*APART, *moves[:20]))
    assert len(row.candidate) == 23
    rows = diff_kernels(side_with(flash()), side_with(*APART, *moves)).rows
    assert sorted(len(row.candidate) for row in rows) == [*[1] * 21, 3]
    many = [softmax(f"triton_per_fused__softmax_{'a' * number}_0") for number in range(22)]
    parts = [replace(item, count=12 / 22, total_s=US) for item in many]
    assert kinds_of([flash()], [QK, PV, *parts]) == {ChangeKind.VANISHED, ChangeKind.NEW}


def gradients() -> list[Kernel]:
    """Return flash attention's: three kernels a call."""
    return [
        flash(f"flash_bwd_{what}", operator="backward") for what in ("dot", "dq_dk_dv", "convert")
    ]


BACKWARD = softmax("triton_per_fused__softmax_backward_data_4")
OF_GRADIENT = tuple(
    replace(product(shapes), name=f"sgemm_batched_{number}", label=f"sgemm_batched_{number}")
    for number, shapes in enumerate(
        (
            # V' = P' dO, dP = dO V', dQ = dS K, dK = dS' Q
            f"{SCORES}, {VALUES}, {VALUES}",
            f"{VALUES}, {KEYS}, {SCORES}",
            f"{SCORES}, {VALUES}, {VALUES}",
            f"{KEYS}, {SCORES}, {KEYS}",
        )
    )
)


def test_attention_and_its_gradient_are_one_row(words: SnapshotAssertion) -> None:
    row = only_row(
        side_with(flash(), *gradients()), side_with(*APART, BACKWARD, *OF_GRADIENT, CONVERTED)
    )
    assert (row.kind, row.matched_by) == (ChangeKind.SPLIT, MatchedBy.ATTENTION)
    assert row.text == words


def test_attention_of_an_encoder_and_a_decoder_with_gradients_is_one_row() -> None:
    """Each query of 512 keys, and of 77 others."""
    inputs = "bfloat16 16x12x512x64, bfloat16 16x12x77x64, bfloat16 16x12x77x64"
    whole = [flash(), *gradients()]
    cross = [replace(kernel, shapes=inputs) for kernel in whole]
    scores, values = "float32 192x512x77", "float32 192x77x64"
    crossed = "float32 16x12x512x77"
    apart = (
        product(f"{VALUES}, {KEYS}, {SCORES}", count=24.0),
        product(f"{SCORES}, {VALUES}, {VALUES}", count=36.0),
        product(f"{KEYS}, {SCORES}, {KEYS}"),
        softmax(),
        BACKWARD,
        product(f"{VALUES}, float32 192x64x77, {scores}", count=24.0),
        product(f"{scores}, {values}, {VALUES}", count=24.0),
        # Both take them transposed.
        product(f"float32 192x77x512, {VALUES}, {values}", count=24.0),
        softmax("triton_per_fused__softmax_6", shapes=crossed),
        softmax("triton_per_fused__softmax_backward_data_7", shapes=crossed),
    )
    row = only_row(side_with(*whole, *cross), side_with(*apart))
    assert (row.kind, len(row.baseline), len(row.candidate)) == (ChangeKind.SPLIT, 8, 10)


def test_a_library_names_its_softmax_in_its_operator() -> None:
    of_library = softmax("cunn_SoftMaxForward_0", library="aten")
    of_library = replace(of_library, operators=("aten::_softmax",))
    assert only_row(side_with(flash()), side_with(QK, PV, of_library)).kind is ChangeKind.SPLIT


@pytest.mark.parametrize(
    "parts",
    [
        (QK, softmax()),
        (QK, PV),
        (QK, PV, softmax(count=6.0)),
        (QK, PV, softmax("triton_per_fused__log_softmax_5")),
        (product(f"{VALUES}, {KEYS}, {SCORES}", count=48.0), softmax()),
        (QK, PV, BACKWARD),
        (QK, PV, softmax(), BACKWARD),
        (replace(QK, shapes=""), replace(PV, shapes=""), softmax(shapes="")),
        (QK, PV, softmax(shapes="float32 16x12x512x77")),
        (QK, PV, softmax(kind="dispatch")),
        (QK, PV, softmax(count=0.0)),
    ],
    ids=[
        *("one product", "no softmax", "too few", "of a loss", "too many products", "a gradient"),
        *("a gradient more", "no shapes", "other scores", "no kernel", "not called"),
    ],
)
def test_what_does_not_add_up_to_attention_is_new(parts: tuple[Kernel, ...]) -> None:
    assert kinds_of([flash()], parts) == {ChangeKind.VANISHED, ChangeKind.NEW}
    assert kinds_of(parts, [flash()]) == {ChangeKind.VANISHED, ChangeKind.NEW}


def test_nothing_adds_up_to_no_attention() -> None:
    idle = softmax(count=0.0)
    never = [idle, product(f"{SCORES}, {VALUES}", count=0.0)]
    assert kinds_of([CONVERTED], [CONVERTED, *never]) == {ChangeKind.UNCHANGED, ChangeKind.NEW}
    assert kinds_of([CONVERTED], [CONVERTED, idle, MASKED]) == {
        ChangeKind.UNCHANGED,
        ChangeKind.NEW,
    }
    assert kinds_of([flash(count=0.0)], [idle, MASKED]) == {ChangeKind.VANISHED, ChangeKind.NEW}


def test_attention_that_both_sides_have_is_no_part_of_it() -> None:
    cross = replace(flash("flash_cross"), shapes="bfloat16 16x12x77x64")
    rows = diff_kernels(side_with(flash(), cross), side_with(cross, *APART)).rows
    assert {row.kind: row.baseline for row in rows} == {
        ChangeKind.SPLIT: (flash(),),
        ChangeKind.UNCHANGED: (cross,),
    }


def test_what_the_operator_calls_besides_belongs_to_it() -> None:
    clear = replace(flash("Memset (Device)"), kind="copy", count=24.0)
    dispatch = replace(flash("aten::attention"), kind="dispatch")
    rows = diff_kernels(side_with(flash(), clear, dispatch), side_with(*APART)).rows
    times = {row.kind: kernel_times(row.baseline) for row in rows}
    assert times == {
        ChangeKind.SPLIT: kernel_times([flash(), clear]),
        ChangeKind.VANISHED: kernel_times([dispatch]),
    }


def test_another_kernel_of_attention_is_a_version_of_it_whatever_else_is_new() -> None:
    efficient = replace(
        flash("fmha_cutlassF"), operators=("aten::_efficient_attention_forward",), library="cutlass"
    )
    rows = diff_kernels(side_with(flash()), side_with(efficient, *APART)).rows
    assert {row.kind for row in rows} == {ChangeKind.OTHER_ALGORITHM, ChangeKind.NEW}


def facts(row: KernelChange) -> tuple[object, ...]:
    return row.matched_by, row.contribution_s, row.baseline, row.candidate


@given(
    whole=st.lists(st.sampled_from(gradients()), unique_by=repr),
    parts=st.lists(
        st.sampled_from([CONVERTED, MASKED, BACKWARD, *OF_GRADIENT, softmax(count=0.0)]),
        unique_by=repr,
    ),
    order=st.randoms(use_true_random=False),
)
@example(whole=gradients(), parts=[BACKWARD, *OF_GRADIENT], order=random.Random(0))
def test_the_other_way_round_and_in_another_order_it_is_the_same(
    whole: list[Kernel], parts: list[Kernel], order: random.Random
) -> None:
    whole, parts = [flash(), *whole], [*APART, *parts]
    diff = diff_kernels(side_with(*whole), side_with(*parts))
    mirror = diff_kernels(side_with(*parts), side_with(*whole))
    swapped = [
        (row.matched_by, -row.contribution_s, row.candidate, row.baseline) for row in diff.rows
    ]
    assert [facts(row) for row in mirror.rows] == swapped
    assert kernel_times(whole) == kernel_times(
        kernel for row in diff.rows for kernel in row.baseline
    )
    assert kernel_times(parts) == kernel_times(
        kernel for row in diff.rows for kernel in row.candidate
    )
    order.shuffle(whole)
    order.shuffle(parts)
    assert diff_kernels(side_with(*whole), side_with(*parts)) == diff

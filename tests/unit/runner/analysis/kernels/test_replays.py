"""Kernels whose operator or shapes only one side recorded, as those of a replayed graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind
from compile_hud.runner.analysis.kernels.diff import diff_kernels
from compile_hud.runner.analysis.kernels.grouping import MatchedBy
from tests.support.builders import make_kernel
from tests.support.records.kernel_diffs import US, cublas, only_row, side_with, taking, triton

TILE = "ampere_fp16_s1688gemm_fp16_64x128_sliced1x2_ldg8_f2f_tn"


def product(*, shapes: str = "", mean_us: float = 20, count: float = 1.0) -> Kernel:
    """Return a product; one without shapes was replayed, so it has no operator either."""
    kernel = replace(taking(cublas(TILE), mean_us, count=count), shapes=shapes)
    return kernel if shapes else replace(kernel, operators=())


def test_a_replayed_kernel_says_that_its_operator_is_unknown(words: SnapshotAssertion) -> None:
    row = only_row(side_with(product(shapes="float16 6x7, float16 7x8")), side_with(product()))
    assert (row.kind, row.matched_by) == (ChangeKind.UNCHANGED, MatchedBy.REPLAY)
    assert row.text == words


def test_calls_of_several_shapes_are_one_row_where_a_graph_replays_them() -> None:
    launched = [
        product(shapes="float16 6x7, float16 7x8", mean_us=20, count=2.0),
        product(shapes="float16 9x7, float16 7x8", mean_us=50, count=3.0),
    ]
    replayed = replace(product(mean_us=38, count=5.0), min_s=20 * US)
    row = only_row(side_with(*launched), side_with(replayed))
    assert (row.kind, len(row.baseline)) == (ChangeKind.UNCHANGED, 2)
    slower = replace(taking(replayed, 57), min_s=30 * US)
    row = only_row(side_with(*launched), side_with(slower))
    assert row.kind is ChangeKind.SLOWER
    assert row.contribution_s == pytest.approx(5 * 19 * US)
    assert only_row(side_with(slower), side_with(*launched)).kind is ChangeKind.FASTER


def test_shapes_with_the_same_calls_on_both_sides_are_rows_of_their_own() -> None:
    stays = product(shapes="float16 3x7, float16 7x2", count=4.0)
    moves = product(shapes="float16 5x7, float16 7x2", mean_us=30, count=2.0)
    replayed = product(mean_us=30, count=2.0)
    rows = diff_kernels(side_with(stays, moves), side_with(stays, replayed)).rows
    assert {row.matched_by for row in rows} == {MatchedBy.CODE_AND_SHAPES, MatchedBy.REPLAY}
    assert {row.kind for row in rows} == {ChangeKind.UNCHANGED}


def test_a_further_call_in_a_replay_is_a_call_more() -> None:
    launched = product(shapes="float16 3x7, float16 7x2", count=4.0)
    row = only_row(side_with(launched), side_with(launched, product(count=1.0)))
    assert (row.kind, row.contribution_s) == (ChangeKind.MORE_OFTEN, pytest.approx(20 * US))


def test_another_number_of_calls_without_operator_on_both_sides_is_no_replay() -> None:
    row = only_row(side_with(product(count=2.0)), side_with(product(count=3.0)))
    assert (row.kind, row.matched_by) == (ChangeKind.MORE_OFTEN, MatchedBy.CODE_AND_SHAPES)


def test_a_replayed_product_of_a_convolution_stays_one() -> None:
    launched = replace(
        product(shapes="float16 1x3x9x9, float16 8x3x3x3"),
        kind="convolution",
        operators=("aten::cudnn_convolution",),
    )
    row = only_row(side_with(launched), side_with(product()))
    assert (row.kind, row.matched_by) == (ChangeKind.UNCHANGED, MatchedBy.REPLAY)


def test_a_kernel_of_the_user_is_the_same_where_a_graph_replays_it() -> None:
    launched = replace(
        make_kernel("_rope_forward", kind="other", library="triton", operators=["mine::rope"]),
        shapes="bfloat16 4x9",
        launch={"kernel_hash": "c4"},
    )
    replayed = replace(launched, library="other", operators=(), shapes="", launch={})
    assert only_row(side_with(launched), side_with(replayed)).kind is ChangeKind.UNCHANGED


def test_a_trace_without_shapes_has_the_same_kernels(words: SnapshotAssertion) -> None:
    shaped = [
        product(shapes="float16 6x7, float16 7x8", count=2.0),
        product(shapes="float16 9x7, float16 7x8", count=1.0),
        replace(product(shapes="float16 2x6x7", count=1.0), operators=("aten::bmm",)),
    ]
    bare = [replace(product(shapes="-", count=3.0), shapes="")]
    bare.append(replace(bare[0], count=1.0, total_s=20 * US, operators=("aten::bmm",)))
    rows = diff_kernels(side_with(*shaped), side_with(*bare)).rows
    assert [(row.kind, row.contribution_s) for row in rows] == [
        (ChangeKind.UNCHANGED, pytest.approx(0, abs=1e-12))
    ] * 2
    assert {row.text for row in rows} == words


def test_the_numbers_of_generated_kernels_identify_none() -> None:
    launched = triton("triton_poi_fused_add_3", operators=(), shapes="float32 8")
    replayed = triton("triton_poi_fused_mul_3", operators=())
    renamed = replace(replayed, name="triton_poi_fused_add_3")
    rows = diff_kernels(side_with(launched), side_with(renamed)).rows
    assert MatchedBy.REPLAY not in {row.matched_by for row in rows}

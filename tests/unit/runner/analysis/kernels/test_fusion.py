"""Kernels that were fused otherwise, on records in the form that traces give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import Kernel, Origin
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind
from compile_hud.runner.analysis.kernels.diff import diff_kernels
from compile_hud.runner.analysis.kernels.grouping import MatchedBy
from tests.support.builders import make_kernel
from tests.support.records.kernel_diffs import US, cublas, only_row, side_with, taking, triton


def _parts_of_a_fusion() -> tuple[Kernel, Kernel, Kernel]:
    return (
        triton("triton_poi_fused_add_gelu_0"),
        triton("triton_poi_fused_add_1", operators=("aten.add",)),
        triton("triton_poi_fused_gelu_2", operators=("aten.gelu",)),
    )


def test_a_kernel_that_was_split_is_one_row(words: SnapshotAssertion) -> None:
    whole, *parts = _parts_of_a_fusion()
    row = only_row(side_with(whole), side_with(*parts))
    assert (row.kind, row.matched_by) == (ChangeKind.SPLIT, MatchedBy.OPERATORS_OF_FUSION)
    assert row.text == words
    assert row.label == words


def test_kernels_that_were_merged_are_one_row_with_both_sides() -> None:
    whole, *parts = _parts_of_a_fusion()
    row = only_row(side_with(*parts), side_with(whole))
    assert (row.kind, len(row.baseline), row.candidate) == (ChangeKind.MERGED, 2, (whole,))
    assert row.contribution_s == pytest.approx(-120 * US)


def test_an_epilogue_that_a_template_took_in_is_merged() -> None:
    gelu = triton("triton_poi_fused_gelu_0", operators=("aten.gelu",), count=2.0)
    fused = triton("triton_tem_fused_addmm_gelu_0", operators=("aten.addmm", "aten.gelu"))
    row = only_row(side_with(cublas(), gelu), side_with(replace(fused, kind="gemm", count=2.0)))
    assert row.kind is ChangeKind.MERGED


def test_nodes_tell_which_of_two_equal_fusions_was_split() -> None:
    def nodes(kernel: Kernel, *names: str) -> Kernel:
        return replace(kernel, origins=tuple(Origin(node=name) for name in names))

    whole, add, gelu = _parts_of_a_fusion()
    before = [nodes(whole, "add", "gelu"), nodes(replace(whole, shapes="[4]"), "add_1", "gelu_1")]
    unchanged = nodes(replace(whole, shapes="[4]"), "add_1", "gelu_1")
    after = [nodes(add, "add"), nodes(gelu, "gelu"), unchanged]
    rows = diff_kernels(side_with(*before), side_with(*after)).rows
    assert {row.kind: len(row.candidate) for row in rows} == {
        ChangeKind.SPLIT: 2,
        ChangeKind.UNCHANGED: 1,
    }
    assert rows[0].matched_by is MatchedBy.NODES_OF_FUSION


def test_eager_operators_are_merged_into_the_kernel_whose_label_has_them(
    words: SnapshotAssertion,
) -> None:
    def eager(name: str, kind: str = "elementwise") -> Kernel:
        kernel = make_kernel(name, label=name, kind=kind, library="aten", operators=[name])
        return replace(kernel, shapes="float32 8x16")

    before = [eager("aten::gelu"), eager("aten::_softmax"), eager("aten::softmax", "dispatch")]
    # Inductor takes both apart.
    fused = make_kernel(
        "cpp_fused__softmax_gelu_0",
        label="cpp_fused__softmax_gelu",
        operators=["aten::amax", "aten::erf", "aten::mul"],
    )
    rows = {row.kind: row for row in diff_kernels(side_with(*before), side_with(fused)).rows}
    assert rows.keys() == {ChangeKind.MERGED, ChangeKind.VANISHED}
    assert rows[ChangeKind.MERGED].matched_by is MatchedBy.WORDS_OF_FUSION

    assert rows[ChangeKind.MERGED].text == words
    assert rows[ChangeKind.VANISHED].label == "aten::softmax"


def _eager(name: str, count: float, **fields: Any) -> Kernel:
    kernel = make_kernel(
        f"aten::{name}", label=f"aten::{name}", library="aten", operators=[f"aten::{name}"]
    )
    return replace(taking(kernel, 10, count=count), **{"kind": "reduction", **fields})


def _compiled(words: str, count: float) -> Kernel:
    label = f"cpp_fused_{words}"
    kernel = make_kernel(f"{label}_0", label=label, operators=["aten::mul"])
    return taking(kernel, 5, count=count)


def test_calls_of_one_operator_are_shared_out_to_the_kernels_that_do_it(
    words: SnapshotAssertion,
) -> None:
    eager = side_with(
        _eager("native_layer_norm", 12.0),
        _eager("add", 9.0),
        _eager("add", 1.0, shapes="float32 8"),
        _eager("gelu", 1.0),
        _eager("index_select", 2.0, kind="copy"),
        _eager("embedding", 2.0, kind="dispatch"),
    )
    compiled = side_with(
        _compiled("add_native_layer_norm_view", 8.0),
        _compiled("gelu_native_layer_norm_view", 1.0),
        _compiled("add_embedding_native_layer_norm", 1.0),
    )
    diff = diff_kernels(eager, compiled)
    rows = {row.candidate[0].label: row for row in diff.rows if row.candidate}
    assert {row.kind for row in rows.values()} == {ChangeKind.MERGED}
    counts = {
        label: {(kernel.label, kernel.count) for kernel in row.baseline}
        for label, row in rows.items()
    }
    assert counts["cpp_fused_add_native_layer_norm_view"] == {
        ("aten::add", 8.0),
        ("aten::native_layer_norm", 8.0),
    }
    assert counts["cpp_fused_gelu_native_layer_norm_view"] == {
        ("aten::gelu", 1.0),
        ("aten::native_layer_norm", 1.0),
    }
    assert counts["cpp_fused_add_embedding_native_layer_norm"] == {
        ("aten::add", 1.0),
        ("aten::index_select", 2.0),
        ("aten::native_layer_norm", 1.0),
    }
    assert rows["cpp_fused_add_native_layer_norm_view"].text == (words)
    # What no kernel is called as often as is left, and nothing is counted twice.
    left = [row for row in diff.rows if row.kind is ChangeKind.VANISHED and not row.candidate]
    assert sorted((row.baseline[0].label, row.baseline[0].count) for row in left) == [
        ("aten::embedding", 2.0),
        ("aten::native_layer_norm", 2.0),
    ]
    assert sum(row.contribution_s for row in diff.rows) == pytest.approx(diff.change_s)
    mirrored = diff_kernels(compiled, eager).rows
    assert sorted(row.contribution_s for row in mirrored) == pytest.approx(
        sorted(-row.contribution_s for row in diff.rows)
    )


def test_a_kernel_whose_label_has_more_than_the_operators_gives_their_calls_back() -> None:
    eager = side_with(_eager("add", 2.0))
    compiled = side_with(_compiled("add_sort_cumsum_where", 2.0))
    kinds = [row.kind for row in diff_kernels(eager, compiled).rows]
    assert sorted(kinds) == [ChangeKind.NEW, ChangeKind.VANISHED]


def test_the_tensor_that_a_product_is_written_to_is_no_other_shape() -> None:
    product = replace(cublas("aten::addmm"), library="aten", shapes="float32 4, float32 2x3")
    out = replace(product, shapes="float32 4, float32 2x3, float32 2x4")
    assert "other shapes" not in only_row(side_with(product), side_with(out)).text
    grown = replace(product, shapes="float32 4, float32 2x6")
    assert "with other shapes" in only_row(side_with(product), side_with(grown)).text


def test_an_operator_that_the_compiler_writes_itself_is_other_code() -> None:
    eager = make_kernel(
        "aten::gelu", kind="elementwise", library="aten", operators=["aten::gelu"], count=2.0
    )
    fused = [
        make_kernel(f"{label}_0", label=label, operators=["aten::erf", "aten::mul"], count=2.0)
        for label in ("cpp_fused_gelu_view", "cpp_fused_gelu_sum")
    ]
    rows = {row.kind: row for row in diff_kernels(side_with(eager), side_with(*fused)).rows}
    assert rows[ChangeKind.OTHER_CODE].matched_by is MatchedBy.WORDS
    assert rows[ChangeKind.OTHER_CODE].candidate[0].label == "cpp_fused_gelu_view"
    assert rows[ChangeKind.NEW].label == "cpp_fused_gelu_sum"


def test_borders_of_fusions_that_moved_are_one_row() -> None:
    before = [
        triton("triton_poi_fused_add_gelu_0"),
        triton("triton_poi_fused_mul_tanh_1", operators=("aten.mul", "aten.tanh")),
    ]
    after = [
        triton("triton_poi_fused_add_gelu_mul_0", operators=("aten.add", "aten.gelu", "aten.mul")),
        triton("triton_poi_fused_tanh_1", operators=("aten.tanh",)),
    ]
    row = only_row(side_with(*before), side_with(*after))
    assert (row.kind, len(row.baseline), len(row.candidate)) == (ChangeKind.REGROUPED, 2, 2)


def _piece(number: int, *names: str, mean_us: float = 10) -> Kernel:
    """Return a kernel that computes the nodes `names`."""
    label = f"triton_poi_fused_{'_'.join(names)}"
    operators = tuple(f"aten.{name}" for name in names)
    kernel = triton(f"{label}_{number}", operators=operators)
    origins = tuple(Origin(node=name) for name in names)
    return taking(replace(kernel, origins=origins), mean_us, count=1)


@pytest.mark.parametrize("has_nodes", [True, False])
def test_a_split_whose_piece_joined_another_kernel_is_one_row(has_nodes: bool) -> None:
    before = [_piece(0, "add", "mul", "gelu", "tanh", mean_us=40), _piece(1, "sin")]
    after = [_piece(0, "add", "mul", mean_us=21), _piece(1, "gelu"), _piece(2, "tanh", "sin")]
    if not has_nodes:
        before, after = ([replace(item, origins=()) for item in side] for side in (before, after))
    row = only_row(side_with(*before), side_with(*after))
    assert (row.kind, len(row.baseline), len(row.candidate)) == (ChangeKind.SPLIT, 2, 3)
    # What the split saves in one kernel it costs in the other.
    assert row.contribution_s == pytest.approx(-9 * US)
    names = "add, gelu, mul, sin and 1 more"
    text = f"3 kernels do what 2 did ({names}): 50.0 -> 41.0 us per iteration."
    assert row.text == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([("sin", "cos", "tanh")], [("sin", "tanh")], id="it had that before"),
        pytest.param([], [("tanh", "sin", "cos")], id="it does more that is new"),
        pytest.param(
            [("sin", "log"), ("cos", "neg"), ("exp", "abs")],
            [("tanh", "sin", "cos"), ("exp", "log"), ("neg", "abs")],
            id="more than eight kernels",
        ),
    ],
)
def test_a_kernel_that_a_piece_of_a_split_did_not_just_join_is_a_row_of_its_own(
    before: list[tuple[str, ...]], after: list[tuple[str, ...]]
) -> None:
    whole = _piece(0, "add", "mul", "gelu", "tanh")
    parts = [_piece(0, "add", "mul"), _piece(1, "gelu")]
    rows = diff_kernels(
        side_with(whole, *(_piece(index, *names) for index, names in enumerate(before, start=2))),
        side_with(*parts, *(_piece(index, *names) for index, names in enumerate(after, start=2))),
    ).rows
    (split,) = [row for row in rows if whole in row.baseline]
    assert (split.kind, split.baseline, len(split.candidate)) == (ChangeKind.SPLIT, (whole,), 2)
    assert sum(len(row.baseline) for row in rows) == 1 + len(before)
    assert sum(len(row.candidate) for row in rows) == 2 + len(after)


def test_part_of_a_kernel_is_no_fusion() -> None:
    whole, add, _ = _parts_of_a_fusion()
    whole = replace(whole, operators=("aten.add", "aten.mul", "aten.tanh", "aten.sin"))
    mul = triton("triton_poi_fused_mul_3", operators=("aten.mul",))
    kinds = [row.kind for row in diff_kernels(side_with(whole), side_with(add, mul)).rows]
    assert sorted(kinds) == [ChangeKind.NEW, ChangeKind.NEW, ChangeKind.VANISHED]

"""Bytes and operations of an operator, from the shapes of its inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from compile_hud.runner.protocol.operator_costs import (
    Work,
    shapes_text,
    share_of_peak,
    tensors_of,
    work_of,
)

F = 4


def work(operator: str, dims: Sequence[Any], *, types: Sequence[str] = (), **facts: Any) -> Work:
    tensors = tensors_of(dims, types or ["float"] * len(dims), facts.get("strides", ()))
    return work_of(operator, tensors=tensors, values=facts.get("values", ()))


@pytest.mark.parametrize(
    ("operator", "dims", "flops", "num_elements"),
    [
        ("aten::mm", [[8, 4], [4, 2]], 2 * 8 * 4 * 2, 32 + 8 + 16),
        ("aten::bmm", [[3, 8, 4], [3, 4, 2]], 3 * 2 * 8 * 4 * 2, 3 * (32 + 8 + 16)),
        ("aten::addmm", [[2], [8, 4], [4, 2]], 2 * 8 * 4 * 2, 2 + 32 + 8 + 16),
        ("aten::baddbmm", [[3, 8, 2], [3, 8, 4], [3, 4, 2]], 384, 3 * (16 + 32 + 8 + 16)),
        ("aten::mv", [[8, 4], [4]], 2 * 8 * 4, 32 + 4 + 8),
        ("aten::addmv", [[8], [8, 4], [4]], 2 * 8 * 4, 8 + 32 + 4 + 8),
        ("aten::dot", [[8], [8]], 2 * 8, 8 + 8 + 1),
        ("aten::linear", [[5, 8, 4], [2, 4], [2]], 2 * 40 * 4 * 2, 160 + 8 + 2 + 80),
        ("mkl::_mkl_linear", [[8, 4], [999, 1], [2, 4], [2]], 2 * 8 * 4 * 2, 32 + 8 + 2 + 16),
        ("mkldnn::_linear_pointwise", [[8, 4], [2, 4]], 2 * 8 * 4 * 2, 32 + 8 + 16),
        (
            "aten::scaled_dot_product_attention",
            [[2, 4, 8, 16], [2, 4, 6, 16], [2, 4, 6, 16]],
            2 * 2 * 4 * 8 * 6 * 32,
            2 * 4 * 16 * (8 + 6 + 6 + 8),
        ),
        (
            "aten::_flash_attention_forward",
            [[2, 8, 4, 16], [2, 6, 4, 16], [2, 6, 4, 16]],
            2 * 2 * 4 * 8 * 6 * 32,
            2 * 4 * 16 * (8 + 6 + 6 + 8),
        ),
        (
            "aten::_scaled_dot_product_flash_attention",
            [[2, 4, 8, 16], [2, 2, 6, 16], [2, 2, 6, 16]],
            2 * 2 * 4 * 8 * 6 * 32,
            2 * 16 * (4 * 8 + 2 * 6 + 2 * 6 + 4 * 8),
        ),
    ],
)
def test_products(operator: str, dims: list[Any], flops: int, num_elements: int) -> None:
    expected = Work(flops=float(flops), num_bytes=F * num_elements, dtype="float32")
    assert work(operator, dims) == expected


@pytest.mark.parametrize(
    ("operator", "dims", "strides", "num_elements"),
    [
        # The bias of a product, spread over its rows.
        ("aten::copy_", [[256, 1000], [256, 1000]], [[1000, 1], [0, 1]], 256_000 + 1000),
        ("aten::add", [[8, 4], [8, 4]], [[0, 0], [4, 1]], 1 + 32 + 32),
        ("aten::gelu", [[8, 4]], [[0, 1]], 4 + 32),
        ("aten::native_layer_norm", [[8, 4], [], [4], [4]], [[0, 1], [], [1], [1]], 4 + 8 + 32),
        ("aten::bmm", [[3, 8, 4], [3, 4, 2]], [[0, 4, 1], [8, 2, 1]], 32 + 24 + 48),
        ("aten::linear", [[5, 8, 4], [2, 4]], [[0, 4, 1], [4, 1]], 32 + 8 + 80),
        ("aten::fill_", [[0, 4]], [[0, 1]], 0),
        # Nothing is known of strides that do not fit.
        ("aten::gelu", [[8, 4]], [[0]], 32 + 32),
        ("aten::gelu", [[8, 4]], ["0"], 32 + 32),
    ],
)
def test_what_is_spread_over_a_dimension_is_read_as_it_lies_in_memory(
    operator: str, dims: list[Any], strides: list[Any], num_elements: int
) -> None:
    assert work(operator, dims, strides=strides).num_bytes == F * num_elements


def test_a_convolution_counts_each_weight_at_each_result() -> None:
    values = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
    cost = work("aten::convolution", [[2, 3, 9, 9], [8, 3, 3, 3], [8]], values=values)
    results = 2 * 8 * 5 * 5
    assert cost.flops == 2 * results * 3 * 3 * 3
    assert cost.num_bytes == F * (2 * 3 * 81 + 8 * 27 + 8 + results)
    assert cost.is_convolution


def test_a_grouped_convolution_without_bias_and_with_one_stride_for_all() -> None:
    values = ["", "", "", "[0]", "[1]", "[2]", "4"]
    dims = [[1, 8, 9, 9], [8, 2, 3, 3], []]
    cost = work("aten::mkldnn_convolution", dims, types=["float", "float", ""], values=values)
    assert cost.flops == 2 * (8 * 5 * 5) * (2 * 3 * 3)


@pytest.mark.parametrize(
    ("operator", "dims", "num_elements"),
    [
        ("aten::add_", [[8, 4], [4]], 32 + 4 + 32),
        ("aten::mul", [[8, 1], [1, 4]], 8 + 4 + 32),
        ("aten::gelu", [[8, 4]], 64),
        ("aten::_softmax", [[8, 4]], 64),
        ("aten::copy_", [[8, 4], [4]], 32 + 4),
        ("aten::fill_", [[8, 4]], 32),
        ("aten::clamp", [[8, 4], [4], []], 32 + 4 + 32),
    ],
)
def test_bytes_of_what_computes_little(operator: str, dims: list[Any], num_elements: int) -> None:
    types = ["float" if sizes else "" for sizes in dims]
    assert work(operator, dims, types=types) == Work(num_bytes=F * num_elements)


def test_a_norm_reads_its_weight_and_bias() -> None:
    types = ["float", "ScalarList", "float", "float", "Scalar"]
    cost = work("aten::native_layer_norm", [[2, 8], [], [8], [8], []], types=types)
    assert cost == Work(num_bytes=F * (16 + 16 + 8 + 8))


def test_a_copy_counts_each_side_in_its_own_type() -> None:
    cost = work("aten::copy_", [[8], [8]], types=["c10::BFloat16", "double"])
    assert cost.num_bytes == 8 * 2 + 8 * 8


@pytest.mark.parametrize(
    ("operator", "dims", "types"),
    [
        ("aten::never_heard_of", [[8]], ["float"]),
        ("aten::mm", [[8, 4], [5, 2]], ["float", "float"]),
        ("aten::mm", [[8, 4]], ["float"]),
        ("aten::mm", [[8, 4], [4, 2]], ["float", "strange"]),
        ("aten::mm", [[8, 4], "text"], ["float", "float"]),
        ("aten::mm", [[8, 4], [-4, 2]], ["float", "float"]),
        ("aten::mm", [[8, 4, 1], [4, 2]], ["float", "float"]),
        ("aten::add", [[3], [4]], ["float", "float"]),
        ("aten::add", [[4], [4]], ["float", "double"]),
        ("aten::add", [[], []], ["Scalar", "Scalar"]),
        ("aten::linear", [[8, 3], [2, 4]], ["float", "float"]),
        ("aten::convolution", [[1, 3, 9], [8, 3, 3], []], ["float", "float", ""]),
        ("aten::scaled_dot_product_attention", [[8, 4]] * 3, ["float"] * 3),
        ("aten::scaled_dot_product_attention", [[1, 3, 8, 4]] + [[1, 2, 8, 4]] * 2, ["float"] * 3),
    ],
)
def test_what_the_shapes_do_not_say_is_not_guessed(
    operator: str, dims: list[Any], types: list[str]
) -> None:
    assert work(operator, dims, types=types) == Work()


@pytest.mark.parametrize(
    "values",
    [
        ["", "", "", "[1]", "[0]", "[1]", "True", "[0]", "1"],
        ["", "", "", "[0]", "[0]", "[1]", "False", "[0]", "1"],
        ["", "", "", "[1, 1]", "[0]", "[1]", "False", "[0]", "1"],
        ["", "", "", "[a]", "[0]", "[1]", "False", "[0]", "1"],
        ["", "", "", "[1]", "[0]", "[9]", "False", "[0]", "1"],
        ["", "", "", 1, "[0]", "[1]", "False", "[0]", "1"],
    ],
)
def test_a_convolution_of_unknown_settings_is_not_guessed(values: list[Any]) -> None:
    dims, types = [[1, 3, 9], [8, 3, 3], []], ["float", "float", ""]
    assert work("aten::convolution", dims, types=types, values=values) == Work()


PEAKS = {
    "fp32_flops_per_s": 100.0,
    "tf32_flops_per_s": 800.0,
    "bf16_flops_per_s": 1000.0,
    "copy_bytes_per_s": 10.0,
}


def test_the_share_is_that_of_the_nearer_roof() -> None:
    cost = Work(num_bytes=1, flops=40, dtype="float32")
    assert share_of_peak(cost, mean_s=1, peaks=PEAKS) == pytest.approx(0.4)
    assert share_of_peak(cost, mean_s=1, peaks={"copy_bytes_per_s": 10}) == pytest.approx(0.1)
    in_bf16 = Work(flops=40, dtype="bfloat16")
    assert share_of_peak(in_bf16, mean_s=2, peaks=PEAKS) == pytest.approx(0.02)


def test_convolutions_are_compared_with_tf32_where_it_was_measured() -> None:
    convolution = Work(flops=40, dtype="float32", is_convolution=True)
    assert share_of_peak(convolution, mean_s=1, peaks=PEAKS) == pytest.approx(0.05)
    assert share_of_peak(convolution, mean_s=1, peaks={"fp32_flops_per_s": 100.0}) == pytest.approx(
        0.4
    )


@pytest.mark.parametrize(
    ("cost", "mean_s", "peaks"),
    [
        (Work(), 1.0, PEAKS),
        (Work(num_bytes=1), 0.0, PEAKS),
        (Work(num_bytes=1), 1.0, {}),
        (Work(num_bytes=1, is_on_device=False), 1.0, PEAKS),
        (Work(flops=1, dtype="int8"), 1.0, PEAKS),
        (Work(flops=1), 1.0, PEAKS),
        (Work(num_bytes=1), 1.0, {"copy_bytes_per_s": 0.0}),
        (Work(num_bytes=1), 1.0, {"copy_bytes_per_s": math.nan}),
    ],
)
def test_an_unknown_total_has_no_share(cost: Work, mean_s: float, peaks: dict[str, float]) -> None:
    assert share_of_peak(cost, mean_s=mean_s, peaks=peaks) is None


def test_shapes_are_text_of_the_tensors_only() -> None:
    dims = [[8, 4], [], [], [[2, 3], [4]], []]
    types = ["c10::Half", "ScalarList", "long int", "TensorList", ""]
    assert shapes_text(dims, types, ()) == "float16 8x4, int64, [2x3, 4]"
    assert shapes_text(dims[:1], types[:1], ["", "[1, 2]", "False"]) == "float16 8x4; [1, 2] False"
    assert shapes_text([], [], ["[1]"]) == ""

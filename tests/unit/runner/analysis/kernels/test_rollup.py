"""The kernels of both sides by kind, by operator and by module."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.kernels.diff import diff_kernels
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from compile_hud.runner.analysis.kernels.rollup import PartChange, roll_up
from tests.support.examples import examples
from tests.support.records.kernel_diffs import US, cublas, product, side_with, taking, triton
from tests.support.strategies import KERNEL_SIDES


def times_of(parts: tuple[PartChange, ...]) -> dict[str, tuple[float, float]]:
    """Return the microseconds of both sides by name, in the order of the parts."""
    return {
        part.name: (round(1e6 * part.baseline_s, 3), round(1e6 * part.candidate_s, 3))
        for part in parts
    }


def mixed() -> list[Kernel]:
    return [
        taking(replace(cublas("sgemm_a"), shapes="float32 3x4, float32 4x5"), 90, count=2.0),
        taking(replace(cublas("sgemm_b"), operators=("aten::bmm",)), 40, count=1.0),
        taking(triton(), 7, count=4.0),
    ]


def test_times_are_summed_by_kind_and_operator_the_largest_change_first() -> None:
    before = mixed()
    after = [taking(before[0], 91), taking(before[1], 65), taking(before[2], 5)]
    rollup = diff_kernels(side_with(*before), side_with(*after)).rollup
    assert list(times_of(rollup.kinds).items()) == [
        ("gemm", (220, 247)),
        ("fused", (28, 20)),
    ]
    assert list(times_of(rollup.operators).items()) == [
        ("bmm", (40, 65)),
        ("add + gelu", (28, 20)),
        ("addmm", (180, 182)),
    ]
    assert rollup.modules == ()


def test_one_side_alone_is_in_the_sums() -> None:
    before, after = mixed()[:1], mixed()[1:]
    rollup = diff_kernels(side_with(*before), side_with(*after)).rollup
    assert times_of(rollup.kinds) == {"gemm": (180, 40), "fused": (0, 28)}
    assert times_of(rollup.operators)["addmm"] == (180, 0)


def test_convolutions_of_two_libraries_are_one_operator() -> None:
    shapes = "float16 2x3x9x9, float16 4x3x5x5"
    one = replace(cublas("fprop"), kind="convolution", operators=("aten::cudnn_convolution",))
    other = replace(one, name="igemm", label="igemm", operators=("aten::miopen_convolution",))
    rollup = diff_kernels(
        side_with(replace(one, shapes=shapes)), side_with(replace(other, shapes=shapes))
    ).rollup
    assert times_of(rollup.operators) == {"convolution": (20, 20)}


def test_layers_of_one_kind_are_one_module() -> None:
    before = product("layers.0.mlp", "layers.1.mlp", "layers.1.attention", mean_s=50 * US)
    after = replace(before, total_s=300 * US, mean_s=100 * US, min_s=100 * US)
    rollup = diff_kernels(side_with(before), side_with(after)).rollup
    assert times_of(rollup.modules) == {
        "layers.*.mlp": (100, 200),
        "layers.*.attention": (50, 100),
    }


def test_replayed_kernels_count_under_the_names_of_those_launched_one_by_one() -> None:
    launched = mixed()[:2]
    launched[1] = replace(launched[1], name="sgemm_a", label="sgemm_a", kind="convolution")
    replayed = replace(
        taking(cublas("sgemm_a"), 110, count=3.0), operators=(), shapes="", kind="gemm"
    )
    for sides in ((launched, [replayed]), ([replayed], launched)):
        rollup = diff_kernels(side_with(*sides[0]), side_with(*sides[1])).rollup
        index = 0 if sides[0] is launched else 1
        operators = times_of(rollup.operators)
        assert operators.keys() == {"addmm", "bmm"}
        assert operators["bmm"][index] == 40
        assert operators["bmm"][1 - index] == pytest.approx(330 * 40 / 220)
        assert times_of(rollup.kinds).keys() == {"gemm", "convolution"}


def test_an_operator_that_no_side_recorded_is_unknown() -> None:
    kernel = replace(cublas(), operators=())
    assert times_of(roll_up(diff_kernels(side_with(kernel), side_with(kernel)).rows).operators) == {
        "": (20, 20)
    }


@settings(max_examples=examples(30))
@given(baseline=KERNEL_SIDES, candidate=KERNEL_SIDES)
def test_the_sums_add_up_to_the_kernels_of_each_side(
    baseline: KernelSide, candidate: KernelSide
) -> None:
    rollup = diff_kernels(baseline, candidate).rollup
    for parts in (rollup.kinds, rollup.operators, rollup.modules or rollup.kinds):
        for side, name in ((baseline, "baseline_s"), (candidate, "candidate_s")):
            total_s = math.fsum(getattr(part, name) for part in parts)
            assert total_s == pytest.approx(math.fsum(item.total_s for item in side.kernels))


def test_the_engine_of_autograd_counts_as_the_function_that_it_calls() -> None:
    engine = "autograd::engine::evaluate_function: LookupFunctionBackward"
    kernel = replace(cublas(), operators=(engine,))
    operators = diff_kernels(side_with(kernel), side_with(kernel)).rollup.operators
    assert [part.name for part in operators] == ["LookupFunctionBackward"]

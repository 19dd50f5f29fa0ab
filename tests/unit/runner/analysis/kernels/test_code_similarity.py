"""The equality of generated code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_hud.runner.analysis.kernels.code_similarity import (
    choices_of,
    likeness,
    plain_code,
    token_pairs,
    without_choices,
)
from compile_hud.runner.analysis.kernels.grouping import operator_name, reportable_operators
from tests.support.examples import examples
from tests.support.records.kernel_codes import cpp_template, pointwise, template

CPP = """
#include "/tmp/cache_1/xy/cpp_prefix.h"
extern "C"  void  kernel(const float* in_ptr0, float* out_ptr0)
{
    RAIIAtenRecordFunctionHandle record_graph_0_cpp_fused_relu_0_("graph_0_cpp_fused_relu_0");
    // a comment
    #pragma GCC ivdep
    auto tmp0 = in_ptr0[0];
}
"""


def test_name_and_toolchain_are_no_code() -> None:
    other = pointwise("triton_poi_fused_add_gelu_31", backend_hash="BA5")
    assert plain_code(other) == plain_code(pointwise())
    assert plain_code(pointwise(line="tmp2 = tmp0 - tmp1")) != plain_code(pointwise())


def test_paths_comments_and_ranges_are_no_code_and_pragmas_are() -> None:
    plain = plain_code(CPP)
    assert plain.splitlines()[0] == "#include cpp_prefix.h"
    assert "Record" not in plain
    assert "comment" not in plain
    assert "#pragma GCC ivdep" in plain


def test_what_an_autotuner_chose_can_be_taken_out() -> None:
    codes = [plain_code(template()), plain_code(template(128, num_warps=8))]
    assert codes[0] != codes[1]
    assert without_choices(codes[0]) == without_choices(codes[1])
    assert choices_of(codes[1]) == {
        "num_stages": "3",
        "num_warps": "8",
        "GROUP_M": "8",
        "BLOCK_M": "128",
        "BLOCK_N": "64",
    }


def test_the_blocks_of_a_template_in_cpp_are_chosen_and_its_sizes_are_not() -> None:
    codes = [plain_code(cpp_template()), plain_code(cpp_template(1, mt_blocks=4))]
    assert without_choices(codes[0]) == without_choices(codes[1])
    assert choices_of(codes[1]) == {"Mr": "8", "Mt_blocks": "4", "Mc_blocks": "1"}
    another_size = codes[0].replace("N = 64", "N = 32")
    assert without_choices(codes[0]) != without_choices(another_size)


def test_numbers_of_temporaries_do_not_make_code_unlike() -> None:
    codes = [plain_code(pointwise()), plain_code(pointwise().replace("tmp3", "tmp9"))]
    assert codes[0] != codes[1]
    assert likeness(*map(token_pairs, codes)) == 1


@settings(max_examples=examples(50))
@given(one=st.text("ab+ \n", max_size=30), other=st.text("ab+ \n", max_size=30))
def test_likeness_is_the_same_both_ways_and_one_for_equal_code(one: str, other: str) -> None:
    first, second = token_pairs(one), token_pairs(other)
    assert likeness(first, second) == likeness(second, first)
    assert 0 <= likeness(first, second) <= 1
    assert likeness(first, first) == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("aten.add.Tensor", "add"),
        ("aten::add_", "add"),
        ("torch.ops.aten._softmax.default", "softmax"),
        ("aten.native_layer_norm", "layer_norm"),
        ("addmm", "addmm"),
        ("_", "_"),
    ],
)
def test_operator_names_are_normalised(text: str, name: str) -> None:
    assert operator_name(text) == name


def test_moves_are_reported_only_of_kernels_that_do_nothing_else() -> None:
    assert reportable_operators(["aten.clone", "aten.add"]) == {"add"}
    assert reportable_operators(["aten.clone", "aten.view"]) == {"clone", "view"}

"""The script that runs a kernel by itself: its calls, and its error if it cannot."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import Kernel, KernelSource
from compile_hud.runner.analysis.errors import NoKernelScript
from compile_hud.runner.analysis.kernels.standalone_script import script_of
from tests.support.builders import make_kernel
from tests.support.strategies import JSON_VALUES, TEXT

CPP = """#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0,
                       const int64_t* in_ptr0,
                       const int64_t ks0)
{
    #pragma omp parallel num_threads(2)
    in_out_ptr0[0] = in_ptr0[0] + ks0;
}"""
TRITON = """import triton
import triton.language as tl

@triton.jit
def _helper(x):
    return x

@triton_heuristics.pointwise(size_hints={'x': 8}, filename=__file__)
@triton.jit
def triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    pass"""
FLOATS = {"dtype": "float32", "sizes": [4, 8], "strides": [8, 1]}
INDICES = {"dtype": "int64", "sizes": [4], "strides": [1]}


def called_with(*arguments: Any, name: str = "cpp_fused_add_0") -> Kernel:
    return replace(make_kernel(name, mean_s=12.5e-6), launch={"arguments": list(arguments)})


def script(kernel: Kernel, text: str = CPP, *, language: str = "cpp") -> str:
    source = KernelSource(hash="a" * 64, language=language, text=text)
    return script_of(kernel, source, title="cpp_fused_add_0 alone.")


def test_a_script_of_cpp_has_its_code_types_inputs_and_threads() -> None:
    text = script(called_with(FLOATS, INDICES, 3))
    assert f"SOURCE = r'''\n{CPP}\n'''" in text
    assert "cpp_pybinding(['float*', 'const int64_t*', 'const int64_t'], SOURCE)" in text
    assert "value_0 = strided(torch.float32, [4, 8], [8, 1])" in text
    assert "value_1 = strided(torch.int64, [4], [1])" in text
    assert "value_2 = 3" in text
    assert "return [value_0, value_1, value_2]" in text
    # Neither the indices, which the code only reads, nor the number.
    assert "in [0])" in text
    assert "torch.set_num_threads(2)" in text
    assert "12.500 us" in text
    ast.parse(text)


def test_a_script_of_triton_runs_the_kernel_and_not_its_helper() -> None:
    kernel = called_with(FLOATS, {"same_as": 0}, 8, name="triton_poi_fused_add_7")
    text = script(kernel, TRITON, language="triton")
    assert TRITON in text
    assert "triton_poi_fused_add_0.run(*values, stream=stream)" in text
    assert "value_1 = value_0" in text
    assert 'device="cuda"' in text
    # Of in_ptr0, out_ptr0 and xnumel.
    assert "in [1])" in text
    ast.parse(text)


def test_a_kernel_without_a_recorded_call_has_no_script(words: SnapshotAssertion) -> None:
    with pytest.raises(NoKernelScript) as caught:
        script(make_kernel())
    assert caught.value.parameters["problem"] == "no-call"
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("arguments", "text", "parameters"),
    [
        ([FLOATS], CPP, {"num_parameters": 3, "num_arguments": 1}),
        ([FLOATS, {"type": "NoneType"}, 3], CPP, {"argument": 2}),
        ([{"same_as": 0}, INDICES, 3], CPP, {"argument": 1}),
        ([FLOATS | {"dtype": "x); evil("}, INDICES, 3], CPP, {"argument": 1}),
        ([FLOATS | {"sizes": [-1, 8]}, INDICES, 3], CPP, {"argument": 1}),
        ([FLOATS | {"strides": [8]}, INDICES, 3], CPP, {"argument": 1}),
        ([FLOATS, INDICES, 3], "void other();", {"problem": "no-cpu-function"}),
        ([FLOATS, INDICES, 3], CPP + "'''", {"problem": "quotes"}),
    ],
)
def test_what_does_not_fit_together_is_refused_with_the_reason(
    arguments: list[Any], text: str, parameters: dict[str, Any], words: SnapshotAssertion
) -> None:
    with pytest.raises(NoKernelScript) as caught:
        script(called_with(*arguments), text)
    assert caught.value.parameters == parameters
    assert str(caught.value) == words


def test_triton_code_without_a_function_is_refused() -> None:
    with pytest.raises(NoKernelScript, match="defines no function"):
        script(called_with(FLOATS), "import triton", language="triton")


@pytest.mark.nightly
@given(st.lists(JSON_VALUES, min_size=3, max_size=3), TEXT)
def test_whatever_a_document_says_gives_a_script_of_python_or_a_reason(
    arguments: list[Any], title: str
) -> None:
    source = KernelSource(hash="a" * 64, language="cpp", text=CPP)
    try:
        text = script_of(called_with(*arguments), source, title=title)
    except NoKernelScript:
        return
    ast.parse(text)

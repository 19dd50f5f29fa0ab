"""The interfaces of two versions of a kernel."""

from __future__ import annotations

from typing import Any

import pytest

from compile_hud.runner.transplant.interfaces import (
    KernelCode,
    RefusalReason,
    interface_change,
)
from tests.support.records.kernel_versions import (
    ARGUMENTS,
    PARAMETERS,
    TENSOR,
    cpp_code,
    triton_code,
    version,
)

GOOD = version(cpp_code())
TRITON = version(triton_code(), language="triton", name="triton_poi_fused_add_0")


def change_to(bad: KernelCode, *, good: KernelCode = GOOD) -> tuple[RefusalReason, str] | None:
    change = interface_change(good, bad, num_threads=1)
    return None if change is None else (change.reason, change.text)


def test_another_body_has_the_same_interface() -> None:
    assert change_to(version(cpp_code("slow();"))) is None


def test_the_numbers_of_arguments_do_not_matter() -> None:
    parameters = "const float* in_ptr3, float* out_ptr1"
    assert change_to(version(cpp_code(parameters=parameters))) is None


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (f"{PARAMETERS}, float* out_ptr1", "2 arguments"),
        ("const double* in_ptr0, float* out_ptr0", "`const float* in_ptr`"),
        ("float* out_ptr0, const float* in_ptr0", "`const float* in_ptr`"),
        ("float* in_out_ptr0, float* out_ptr0", "and is `float* in_out_ptr`"),
        ("const float* in_ptr0, const int64_t ks0", "`const int64_t ks`"),
    ],
    ids=["count", "dtype", "order", "in place", "size"],
)
def test_other_parameters_are_refused(parameters: str, words: str) -> None:
    change = change_to(version(cpp_code(parameters=parameters)))
    assert change is not None
    assert change[0] is RefusalReason.ARGUMENTS
    assert words in change[1]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({**TENSOR, "sizes": [65, 32]}, "float32[65, 32] with strides [32, 1]"),
        ({**TENSOR, "strides": [1, 64]}, "float32[64, 32] with strides [1, 64]"),
        ({**TENSOR, "dtype": "bfloat16"}, "bfloat16[64, 32]"),
        ({"same_as": 0}, "memory of argument 1"),
        (32, "is 32"),
        ({"type": "SymInt"}, "is SymInt"),
    ],
)
def test_other_sizes_strides_and_memory_are_refused(argument: Any, words: str) -> None:
    change = change_to(version(cpp_code("slow();"), arguments=[ARGUMENTS[0], argument]))
    assert change is not None
    assert change[0] is RefusalReason.SIZES
    assert change[1].startswith("argument 2 was float32[64, 32]")
    assert words in change[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((), "were not recorded"), ((TENSOR,), "called with 1")],
)
def test_unknown_sizes_are_refused(arguments: Any, words: str) -> None:
    change = change_to(version(cpp_code("slow();"), arguments=arguments))
    assert change is not None
    assert change[0] is RefusalReason.SIZES
    assert words in change[1]


def test_code_for_more_threads_than_the_case_has_is_refused() -> None:
    parallel = version(cpp_code("#pragma omp parallel num_threads(8)"))
    change = change_to(GOOD, good=parallel)
    assert change is not None
    assert change[0] is RefusalReason.THREADS
    assert "8 threads" in change[1]


def test_code_that_became_serial_is_no_other_interface() -> None:
    parallel = version(cpp_code("#pragma omp parallel num_threads(8)"))
    assert interface_change(parallel, GOOD, num_threads=8) is None
    assert change_to(version(cpp_code("num_threads(8) slow")), good=parallel) is None


def test_vector_code_needs_its_instructions() -> None:
    vectors = cpp_code("at::vec::Vectorized<float> x;")
    assert change_to(GOOD, good=version(vectors)) is None
    change = change_to(GOOD, good=version(vectors, vector_isa=None))
    assert change is not None
    assert change[0] is RefusalReason.VECTORS
    assert change_to(GOOD, good=version(cpp_code(), vector_isa=None)) is None


def test_code_without_a_function_is_refused() -> None:
    change = change_to(version("int x;"))
    assert change is not None
    assert change[0] is RefusalReason.ARGUMENTS
    assert "no function" in change[1]


def test_another_language_is_refused() -> None:
    change = change_to(TRITON)
    assert change is not None
    assert change[0] is RefusalReason.ARGUMENTS
    assert "triton now" in change[1]


def test_triton_code_with_another_number_has_the_same_interface() -> None:
    name = "triton_poi_fused_add_7"
    bad = version(triton_code(name, body="slow"), language="triton", name=name)
    assert change_to(bad, good=TRITON) is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (triton_code(parameters="in_ptr0, xnumel, XBLOCK : tl.constexpr"), "takes 2"),
        (
            triton_code(signature="{'in_ptr0': '*bf16', 'out_ptr0': '*fp32', 'xnumel': 'i32'}"),
            "`*fp32 in_ptr` and is `*bf16 in_ptr`",
        ),
        (triton_code().replace("'signature'", "'other'"), "no function"),
        (triton_code(signature="{'in_ptr0': broken}"), "takes 0"),
    ],
)
def test_other_parameters_of_triton_code_are_refused(code: str, words: str) -> None:
    bad = version(code, language="triton", name="triton_poi_fused_add_0")
    change = change_to(bad, good=TRITON)
    assert change is not None
    assert change[0] is RefusalReason.ARGUMENTS
    assert words in change[1]


def test_scratch_memory_is_refused() -> None:
    code = triton_code(
        parameters="in_ptr0, out_ptr0, ws_ptr, xnumel, XBLOCK : tl.constexpr",
        signature="{'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'ws_ptr': '*i8', 'xnumel': 'i32'}",
    )
    good = version(code, language="triton", name="triton_poi_fused_add_0")
    change = change_to(good, good=good)
    assert change is not None
    assert change[0] is RefusalReason.SCRATCH

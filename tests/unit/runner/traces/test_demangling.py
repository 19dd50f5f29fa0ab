"""C++ names from mangled symbols, as c++filt prints them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_hud.runner.traces.demangling import MAX_CHARS, demangled
from compile_hud.runner.traces.kernel_kinds import class_of_kernel
from compile_hud.runner.traces.kernel_names import label_of
from tests.support.examples import examples

MISH = (
    "_ZN2at6native29vectorized_elementwise_kernelILi8EZZZNS0_11mish_kernelERNS_18TensorIteratorBaseE"
    "ENKUlvE_clEvENKUlvE1_clEvEUlN3c108BFloat16EE_NS_6detail5ArrayIPcLi2EEEEEviT0_T1_"
)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z4axpyifPfS_", "axpy(int, float, float*, float*)"),
        ("_ZN3ops5scaleEPKdl", "ops::scale(double const*, long)"),
        ("_ZN12_GLOBAL__N_14fillEPhf", "(anonymous namespace)::fill(unsigned char*, float)"),
        ("_ZN3ops4copyIfLi4ELb1EEEvPT_", "ops::copy<float, 4, true>(float*)"),
        ("_ZN3ops4copyIfLi4ELb1EEEvPT_.kd", "ops::copy<float, 4, true>(float*)"),
        ("_ZN3ops3sumISt5arrayIPcLm3EEEEvi", "ops::sum<std::array<char*, 3ul>>(int)"),
        ("_ZN3ops3runINS_4TileIJLi8ELin2EEEEEEvv", "ops::run<ops::Tile<8, -2>>()"),
        ("_ZNK3ops4Plus5applyERKS0_", "ops::Plus::apply(ops::Plus const&) const"),
        ("_ZN3ops3runEPFviE", "ops::run(void (int)*)"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("axpy.kd", "axpy"),
    ],
)  # fmt: skip
def test_a_symbol_is_its_name_with_arguments(symbol: str, name: str) -> None:
    assert demangled(symbol) == name


def test_a_lambda_in_a_lambda_is_named_as_in_a_demangled_trace() -> None:
    assert label_of(MISH) == "vectorized_elementwise_kernel<mish_kernel<BFloat16>>"
    assert label_of(f"{MISH}.kd") == label_of(MISH)
    kernel_class = class_of_kernel(MISH, operator="", is_triton=False)
    assert (kernel_class.kind, kernel_class.library) == ("elementwise", "aten")


def test_arguments_that_are_unknown_are_left_out() -> None:
    # A type by an expression, which no name of a kernel needs.
    assert demangled("_ZN3ops5shapeIfEEDTfp_ET_") == "ops::shape<float>()"


@pytest.mark.parametrize(
    "symbol", ["_Z", "_ZN", "_Z9short", "_ZN3ops4copyIfE", "_ZS5_", "_Z3fooIXadE", "_Z00", "_ZNE"]
)
def test_an_unknown_or_broken_symbol_stays_as_it_is(symbol: str) -> None:
    assert demangled(symbol) == symbol


@pytest.mark.parametrize(
    "symbol",
    [
        "_Z1fI1AI" + "".join(f"S{'' if not index else index - 1}_" for index in range(9)) + "EE",
        "_Z1f1AIiiiE" + "".join(f"1BIS{index}_S{index}_S{index}_E" for index in range(9)) * 20,
        "_Z1f" + "P" * 15_000 + "i",
        "_Z1fI" + "J" * 15_000,
        "_ZN" + "Z" * 15_000,
        "_Z1f" + "i" * 19_000,
        "_Z" + "9" * 15_000,
        "_Z1fI1aEvT_" + "T_" * 9_000,
        "_Z1fI" + "1a" * 9_000 + "EvT_" + "T_" * 900,
    ],
)
def test_a_symbol_that_grows_is_cut_off_early(symbol: str) -> None:
    assert len(demangled(symbol)) <= MAX_CHARS


@settings(max_examples=examples(300))
@given(st.text("NEISTLZKPRJFAUCD_lcviftb0123459a", max_size=60))
def test_any_symbol_has_a_name(text: str) -> None:
    assert demangled(f"_Z{text}")

"""The cause of a change in one phrase."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import Kernel, Origin
from compile_hud.runner.analysis.kernels.cause_text import SAME_KERNELS, UNCLEAR, cause_text
from compile_hud.runner.analysis.kernels.diff import diff_kernels
from tests.support.builders import make_kernel
from tests.support.records.kernel_diffs import product, side_with, taking, triton

FILE = "/home/ann/models/ranker.py"


def cause(before: Kernel | None, after: Kernel | None, *, is_slower: bool = True) -> str:
    """Return the cause of the change from one kernel to the other."""
    sides = [side_with(*([] if item is None else [item])) for item in (before, after)]
    return cause_text(diff_kernels(*sides), is_slower=is_slower)


def test_one_more_call_is_named_with_its_module_and_line(words: SnapshotAssertion) -> None:
    before = product("layers.0", "layers.2")
    after = product("layers.0", "layers.2", "extra", lines={"extra": f"{FILE}:21"})
    assert cause(before, after) == words


def test_several_modules_share_the_path_that_they_have_in_common(words: SnapshotAssertion) -> None:
    after = product("layers.0", "head.a.0", "head.a.1", "head.a.2")
    assert cause(product("layers.0"), after) == words


def test_a_call_fewer_makes_it_faster(words: SnapshotAssertion) -> None:
    before, after = product("first", "second"), product("first")
    assert cause(before, after, is_slower=False) == words
    # It is no reason for being slower.
    assert cause(before, after) == UNCLEAR


def test_a_new_kernel_has_the_line_of_its_origin(words: SnapshotAssertion) -> None:
    origin = Origin(node="sin", module="norm", file=FILE, line=7)
    new = replace(make_kernel("k", label="cpp_fused_sin", count=1.0), module="norm")
    text = cause(None, replace(new, origins=(origin,)))
    assert text == words


def test_what_is_counted_comes_before_what_is_timed(words: SnapshotAssertion) -> None:
    slow = triton(source_hash="a" * 64)
    before = side_with(product("layers.0"), slow)
    after = side_with(product("layers.0", "extra"), taking(slow, 900))
    text = cause_text(diff_kernels(before, after), is_slower=True)
    assert text == words


def test_a_product_of_other_shapes_comes_before_code_that_hardly_counts(
    words: SnapshotAssertion,
) -> None:
    narrow = replace(product("mid", lines={"mid": f"{FILE}:12"}), shapes="48x80, 80x64")
    wide = replace(taking(narrow, 131), shapes="48x112, 112x64")
    fused = [triton(source_hash=letter * 64) for letter in "ab"]
    before = side_with(narrow, fused[0], sources={"a" * 64: "x = 1"})
    after = side_with(wide, taking(fused[1], 10.2), sources={"b" * 64: "x = 2"})
    diff = diff_kernels(before, after)
    assert cause_text(diff, is_slower=True) == words
    # It did not make anything faster.
    assert cause_text(diff, is_slower=False) == UNCLEAR


def test_the_same_code_that_is_slower_is_named_where_nothing_is_counted(
    words: SnapshotAssertion,
) -> None:
    kernel = triton(source_hash="a" * 64)
    text = cause(kernel, taking(kernel, 12))
    assert text == words


@pytest.mark.parametrize("kernel", [product("a", "b"), triton(source_hash="a" * 64)])
def test_the_same_kernels_are_no_cause(kernel: Kernel) -> None:
    assert cause(kernel, kernel) == SAME_KERNELS


def test_damaged_lines_are_left_out() -> None:
    after = replace(product("a", "b"), launch={"call_lines": ["a"], "modules": None})
    assert cause(product("a"), after) == "one more addmm"

"""Locations of graph breaks and recompiles, from the messages of versions of torch."""

from __future__ import annotations

from traceback import FrameSummary

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.measure.compile.source_locations import (
    MAX_FAILURE_CHARS,
    MAX_REASON_CHARS,
    CodeLocation,
    failure_reason,
    limit_reason,
    location_of_break,
    location_of_recompile,
    location_of_skip,
)

FRAME = CodeLocation(reason="", file="/models/net.py", line=10, function="forward")
GUARD = "0/3: self.n == 3         # self.n += 1  # models/net.py:11 in step (HINT: make it dynamic)"
STACK = """
User stack trace:
  File "/models/train.py", line 5, in fit
    net(x)
  File "/models/net.py", line 11, in step
    self.n += 1"""


def test_the_user_stack_says_where_a_guard_came_from() -> None:
    assert location_of_recompile(GUARD + STACK, frame=FRAME) == CodeLocation(
        reason="self.n == 3", file="/models/net.py", line=11, function="step"
    )


def test_without_a_stack_the_line_of_the_guard_counts() -> None:
    assert location_of_recompile(GUARD, frame=FRAME) == CodeLocation(
        reason="self.n == 3", file="models/net.py", line=11, function="step"
    )


def test_without_a_line_the_recompiled_function_counts() -> None:
    text = "tensor 'x' size mismatch at index 0. expected 4, actual 5"
    assert location_of_recompile(f"1/0: {text}", frame=FRAME) == CodeLocation(
        reason=text, file="/models/net.py", line=10, function="forward"
    )
    assert location_of_recompile("odd", frame=CodeLocation(reason="")) == CodeLocation(reason="odd")


def test_a_graph_break_is_at_the_innermost_line_of_the_model() -> None:
    frames = [
        FrameSummary("/models/train.py", 5, "fit", lookup_line=False),
        FrameSummary("/models/net.py", 7, "forward", lookup_line=False),
        FrameSummary("/torch/lib/nn/module.py", 99, "call", lookup_line=False),
    ]
    location = location_of_break("a print", frames=frames, not_below="/torch/lib")
    assert location == CodeLocation(
        reason="a print", file="/models/net.py", line=7, function="forward"
    )
    inside = location_of_break("a print", frames=frames[2:], not_below="/torch/lib")
    assert inside.file == "/torch/lib/nn/module.py"


def test_a_break_without_a_stack_keeps_its_reason() -> None:
    assert location_of_break("a print") == CodeLocation(reason="a print")


@pytest.mark.parametrize(
    "make", [location_of_break, lambda text: location_of_recompile(text, frame=FRAME)]
)
def test_a_long_reason_is_cut(make: object) -> None:
    assert callable(make)
    assert len(make("x" * 2 * MAX_REASON_CHARS).reason) == MAX_REASON_CHARS


def test_a_failure_is_reported_on_one_line_with_its_cause(words: SnapshotAssertion) -> None:
    error = ValueError("no\n  such thing")
    assert failure_reason(error) == words
    error.__cause__ = KeyError("limit  exceeded")
    assert failure_reason(error) == words


def test_a_cause_that_the_error_quotes_is_reported_once(words: SnapshotAssertion) -> None:
    error = ImportError("cannot import it: no module  named x. Install it")
    error.__cause__ = ImportError("no module named x")
    assert failure_reason(error) == words


def test_the_line_of_the_model_survives_the_cut() -> None:
    code = '\n\nfrom user code:\n   File "/models/net.py", line 43, in forward\n    graph_break()\n'
    reason = failure_reason(RuntimeError("x" * 2 * MAX_FAILURE_CHARS + code))
    assert len(reason) == MAX_FAILURE_CHARS
    assert reason.startswith("RuntimeError: xxx")
    assert reason.endswith("x (at net.py:43 in forward)")


SKIP = """a print
  Explanation: It writes.
  Hint: Remove it.

 For more details about this graph break, please visit: https://example.org/gb1.html

*** While handling this graph break, another graph break occurred: ***

a loop
  Explanation: Loops are not supported.
"""


def test_the_reasons_of_a_skipped_function_come_without_explanations() -> None:
    location = location_of_skip(SKIP, file="/models/net.py", line=8, function="step")
    assert location == CodeLocation(
        reason="a print; a loop",
        file="/models/net.py",
        line=8,
        function="step",
    )
    plain = location_of_skip("  odd\n  text", file=None, line=None, function=None)
    assert plain == CodeLocation(reason="odd text")
    assert (location.end, plain.end) == (" at net.py:8", "")


def test_a_recompile_limit_is_reported_with_guard_line_and_remedy(
    words: SnapshotAssertion,
) -> None:
    last = CodeLocation(reason="n == 12", file="/models/net.py", line=11, function="step")
    assert limit_reason("AtLimit", last, num_recompiles=7, limit=8) == words
    nowhere = CodeLocation(reason="n" * MAX_REASON_CHARS)
    reason = limit_reason("AtLimit", nowhere, num_recompiles=1, limit=None)
    assert len(reason) < MAX_FAILURE_CHARS
    assert reason.replace(nowhere.reason[: MAX_FAILURE_CHARS // 3], "GUARD") == words

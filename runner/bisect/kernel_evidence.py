"""The kernels behind a change between two revisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.runner.analysis.kernels.cause_text import cause_text
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind
from compile_hud.runner.analysis.kernels.diff import KernelDiff, diff_kernels, side_of
from compile_hud.runner.execution.paired_launches import PairResult

# The record of a bisection stores them for each step, and no reader needs more.
_MAX_ROWS = 20


def kernel_diff(pair: PairResult) -> KernelDiff | None:
    """Return the changes of the baseline's kernels, None if a side has none."""
    if not pair.baseline.kernels or not pair.candidate.kernels:
        return None
    levels = {row.metric: (row.baseline, row.candidate) for row in pair.rows}
    sides = (pair.baseline, pair.candidate)
    try:
        # The latencies are those of the rows, so that one answer has one value for each.
        return diff_kernels(
            *(
                replace(side_of(result), latency_s=latency_s)
                for result, latency_s in zip(
                    sides, levels.get("latency_s", (None, None)), strict=True
                )
            )
        )
    except RecordError:
        # The times stand without the kernels, which only explain them.
        return None


def kernel_summary(pair: PairResult, *, is_slower: bool) -> dict[str, Any] | None:
    """Return the cause and the largest changes of `pair` as JSON, None without kernels."""
    diff = kernel_diff(pair)
    if diff is None:
        return None
    changed = [row for row in diff.rows if row.kind is not ChangeKind.UNCHANGED]
    return {
        "cause": cause_text(diff, is_slower=is_slower),
        "noise": diff.noise_text,
        "rows": [row.to_json() for row in changed[:_MAX_ROWS]],
    }

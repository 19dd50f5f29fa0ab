"""The memory at the peak of two runs, by case, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.memory.peak import memory_peak_of
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.runner.analysis.comparison.measurements import CALM
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.memory_peak.diff import MemoryDiff, diff_of

_METRIC = "peak_bytes"


def memory_diffs(
    rows: Sequence[CaseComparison], *, baseline: RunDocument, candidate: RunDocument
) -> dict[str, MemoryDiff]:
    """Return the diff of each case whose peak memory changed, by its key, where both sides have it.

    A document that cannot be read costs its own case only.
    """
    sides = [
        {item.case.key: item for item in document.results} for document in (baseline, candidate)
    ]
    diffs = {}
    for row in rows:
        key = row.case.key
        if row.metric != _METRIC or row.comparison.verdict in CALM:
            continue
        before, after = (side.get(key) for side in sides)
        if before is not None and after is not None:
            diff = _diff(before, after)
            if diff is not None:
                diffs[key] = diff
    return diffs


def memory_json(diffs: Mapping[str, MemoryDiff]) -> list[dict[str, Any]]:
    """Return the diffs as a list, each with the key of its case."""
    return [{"case": key, **diff.to_json()} for key, diff in diffs.items()]


def _diff(before: CaseResult, after: CaseResult) -> MemoryDiff | None:
    try:
        return diff_of(memory_peak_of(before.details), memory_peak_of(after.details))
    except RecordError:
        return None

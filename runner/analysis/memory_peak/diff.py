"""Diff the memory at the peak of two results: the operators that have more or less of it.

A holder matches the one of the same operator and module; lines move between revisions. All changes
add up to the difference of the peaks. A holder that only one side names may be among the smaller
ones of the other, which share a row: its change is then an upper bound, and that row's offsets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.alerts import VANISHED, Alert
from compile_hud.db.records.memory.peak import HolderKind, MemoryHolder, PeakHolders
from compile_hud.db.records.results import Verdict
from compile_hud.db.shared.text import one_line, shortened

# The metrics that the allocations at the peak explain.
_METRICS = ("peak_bytes", "peak_reserved_bytes", "compression_ratio")
_MAX_NAME = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """One holder on both sides, None on the side that does not name it."""

    baseline: MemoryHolder | None
    candidate: MemoryHolder | None
    # The side without the holder has smaller ones that share a row.
    may_be_in_rest: bool = False

    @property
    def holder(self) -> MemoryHolder:
        """Return the holder of the candidate, of the baseline if the candidate has none."""
        holder = self.candidate or self.baseline
        assert holder is not None
        return holder

    @property
    def change_bytes(self) -> int:
        """Return the bytes that the candidate has more at the peak."""
        before, after = (item.num_bytes if item else 0 for item in (self.baseline, self.candidate))
        return after - before

    @property
    def change_count(self) -> int:
        """Return the allocations that the candidate has more at the peak."""
        before, after = (item.count if item else 0 for item in (self.baseline, self.candidate))
        return after - before

    @property
    def where(self) -> str:
        """Return " in `MODULE`, FILE:LINE", as far as both are known."""
        module, line = (
            shortened(one_line(text), limit=_MAX_NAME)
            for text in (self.holder.module, self.holder.short_line)
        )
        return f"{f' in `{module}`' if module else ''}{f', {line}' if line else ''}"

    @property
    def label(self) -> str:
        """Return the holder with its module and line."""
        return f"{shortened(one_line(self.holder.label), limit=_MAX_NAME)}{self.where}"

    @property
    def text(self) -> str:
        """Return the kind of the change in a few words."""
        if self.baseline is not None and self.candidate is not None:
            count = self.change_count if self.holder.is_counted else 0
            more = f"{count:+,d} allocation{'' if abs(count) == 1 else 's'}"
            return more if count else "other size"
        known = "new" if self.baseline is None else "gone"
        return f"{known}, or among the rest before" if self.may_be_in_rest else known

    def to_json(self) -> dict[str, Any]:
        """Return the change as a JSON object; bytes are None on a side without the holder."""
        before, after = self.baseline, self.candidate
        return {
            "kind": str(self.holder.kind),
            "operator": self.holder.operator,
            "module": self.holder.module,
            "line": self.holder.line,
            "baseline_bytes": None if before is None else before.num_bytes,
            "candidate_bytes": None if after is None else after.num_bytes,
            "change_bytes": self.change_bytes,
            "baseline_count": None if before is None else before.count,
            "candidate_count": None if after is None else after.count,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDiff:
    """The changes of all holders, the largest first; rows without a change come last."""

    rows: tuple[MemoryChange, ...]
    baseline_bytes: int
    candidate_bytes: int

    @property
    def change_bytes(self) -> int:
        """Return the bytes by which the candidate's peak is higher."""
        return self.candidate_bytes - self.baseline_bytes

    @property
    def changed(self) -> tuple[MemoryChange, ...]:
        """Return the rows whose bytes changed."""
        return tuple(row for row in self.rows if row.change_bytes)

    def to_json(self) -> dict[str, Any]:
        """Return the diff as a JSON object."""
        return {
            "baseline_bytes": self.baseline_bytes,
            "candidate_bytes": self.candidate_bytes,
            "change_bytes": self.change_bytes,
            "rows": [row.to_json() for row in self.rows],
        }


def diff_memory(baseline: PeakHolders, candidate: PeakHolders) -> MemoryDiff:
    """Return the changes of the holders from `baseline` to `candidate`."""
    before, after = ({item.key: item for item in side.holders} for side in (baseline, candidate))
    rows = [
        MemoryChange(
            baseline=before.get(key),
            candidate=after.get(key),
            may_be_in_rest=_may_be_in_rest(key, before, baseline)
            or _may_be_in_rest(key, after, candidate),
        )
        for key in dict.fromkeys((*after, *before))
    ]
    return MemoryDiff(
        rows=tuple(sorted(rows, key=lambda row: (-abs(row.change_bytes), row.holder.key))),
        baseline_bytes=baseline.num_bytes,
        candidate_bytes=candidate.num_bytes,
    )


def _may_be_in_rest(
    key: tuple[str, str, str], side: dict[tuple[str, str, str], MemoryHolder], peak: PeakHolders
) -> bool:
    is_counted = key[0] == HolderKind.OPERATOR
    return is_counted and key not in side and peak.rest is not None


def diff_of(baseline: PeakHolders | None, candidate: PeakHolders | None) -> MemoryDiff | None:
    """Return the diff of two sides, None if a side has no holders."""
    if baseline is None or candidate is None:
        return None
    return diff_memory(baseline, candidate)


def growth_of(diff: MemoryDiff, *, is_more: bool, num_rows: int = 3) -> Sequence[MemoryChange]:
    """Return the holders that have more memory than before, less without `is_more`.

    The largest come first. The shared row of the smaller ones names no operator and is left out.
    """
    sign = 1 if is_more else -1
    rows = [
        row
        for row in diff.rows
        if sign * row.change_bytes > 0 and row.holder.kind is not HolderKind.REST
    ]
    return rows[:num_rows]


def is_about_more_memory(alert: Alert) -> bool:
    """Return whether holders with more memory can be the cause of `alert`."""
    return alert.verdict is not Verdict.IMPROVEMENT


def memory_bounds(alert: Alert) -> tuple[tuple[str, str], ...]:
    """Return run and case of the last good and of the first bad result of an alert about memory.

    Empty for other alerts, and without a last good run.
    """
    if alert.metric not in _METRICS or alert.kind == VANISHED or alert.last_good is None:
        return ()
    key = alert.case.key
    return (alert.last_good.run_id, key), (alert.first_bad.run_id, key)

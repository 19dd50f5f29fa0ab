"""Intervals of time: their union, and their distribution over owners.

Bounds are whole nanoseconds, so that sums are exact.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
# Before and after all times of a trace, which are below 2^63 - 2^53.
_FAR_NS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Intervals:
    """Half-open intervals in nanoseconds, in any order, overlapping or not."""

    starts: Whole
    ends: Whole

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Intervals:
        """Return the intervals of (start, end) pairs."""
        bounds = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
        return cls(bounds[:, 0], bounds[:, 1])

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def covered_ns(self) -> int:
        """Return the length of the union of the intervals."""
        union = self.union()
        return union.total_ns

    @property
    def total_ns(self) -> int:
        """Return the sum of all lengths, overlaps counted as often as they occur."""
        lengths = self.ends - self.starts
        # The sum has two halves, since the sum of very many lengths may exceed 64 bits.
        return (int((lengths >> 32).sum()) << 32) + int((lengths & (2**32 - 1)).sum())

    def union(self) -> Intervals:
        """Return the same time as disjoint intervals in order, none of them empty."""
        is_long = self.ends > self.starts
        starts, ends = self.starts[is_long], self.ends[is_long]
        if not len(starts):
            return Intervals(starts, ends)
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(ends[order])
        begins = np.concatenate([[True], starts[1:] > reach[:-1]])
        last = np.concatenate([begins[1:], [True]])
        return Intervals(starts[begins], reach[last])

    def within(self, windows: Intervals) -> Intervals:
        """Return the union of the intervals as far as it lies in `windows`."""
        return joined([self.complement(), windows.complement()]).complement()

    def complement(self) -> Intervals:
        """Return all time that no interval covers, disjoint and in order."""
        union = self.union()
        starts = np.concatenate([[-_FAR_NS], union.ends])
        ends = np.concatenate([union.starts, [_FAR_NS]])
        return Intervals(starts[ends > starts], ends[ends > starts])

    def holds(self, moments: Whole) -> npt.NDArray[np.bool_]:
        """Return for each moment whether an interval covers it."""
        union = self.union()
        if not len(union):
            return np.zeros(len(moments), dtype=np.bool_)
        index = np.searchsorted(union.starts, moments, side="right") - 1
        return (index >= 0) & (moments < union.ends[np.maximum(index, 0)])


def joined(several: Iterable[Intervals]) -> Intervals:
    """Return all intervals of all."""
    parts = [Intervals.of([]), *several]
    return Intervals(
        np.concatenate([item.starts for item in parts]),
        np.concatenate([item.ends for item in parts]),
    )


def shares_ns(owners: Mapping[str, Intervals], *, windows: Intervals) -> dict[str, int]:
    """Return the share of each owner in the windows; where several overlap, the first has it all.

    The shares add up to the union of all owners within the windows.
    """
    taken = 0
    shares: dict[str, int] = {}
    so_far: list[Intervals] = []
    for name, intervals in owners.items():
        so_far.append(intervals.within(windows))
        covered = joined(so_far).covered_ns
        shares[name] = covered - taken
        taken = covered
    return shares


def whole(numbers: array[int]) -> Whole:
    """Return the numbers as they lie in memory."""
    return np.frombuffer(numbers, dtype=np.int64) if len(numbers) else np.empty(0, np.int64)

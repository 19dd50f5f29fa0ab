"""The work of the iterations of a trace, before it becomes records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compile_hud.db.records.kernels import KINDS, Kernel, TimelineSpan
from compile_hud.runner.traces.intervals import Intervals, Whole, shares_ns
from compile_hud.runner.traces.kernel_rows import NS_PER_S, Tally

# When several kernels run at once, computation has priority over copies, and both over
# communication. The time of communication is then only the part that nothing hides.
PRIORITY = (
    *(kind for kind in KINDS if kind not in ("copy", "communication", "dispatch")),
    "copy",
    "communication",
    "dispatch",
)
# More cannot be seen on a screen, and each costs 25 bytes of every result.
MAX_SPANS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationWork:
    """The rows of a trace and the shares of its iterations.

    `owners` are the times of each kind, `rest` is the name of the unowned time, `windows` are the
    times of the iterations. `overlap_ns` is time in which a second kernel ran at the same time,
    summed over all such kernels. `busy` and `is_graph_replay` are as in Profile, `timeline` becomes
    the one there. `gap_operators_ns` and `gap_guards_ns` are operators and Dynamo's look-ups
    between two compiled graphs, in each iteration.
    """

    tallies: tuple[Tally, ...]
    owners: Mapping[str, Intervals]
    rest: str
    windows: Intervals
    num_iterations: int
    overlap_ns: int
    busy: float | None = None
    is_graph_replay: bool = False
    timeline: tuple[Piece, ...] = ()
    gap_operators_ns: tuple[int, ...] = ()
    gap_guards_ns: tuple[int, ...] = ()

    @property
    def iteration_ns(self) -> float:
        """Return the mean length of an iteration; overlapping iterations share their time."""
        return self.windows.covered_ns / self.num_iterations

    def components(self) -> dict[str, float]:
        """Return the seconds of an iteration by kind and the rest, which add up to it."""
        ordered = {kind: self.owners[kind] for kind in PRIORITY if kind in self.owners}
        shares = shares_ns(ordered, windows=self.windows)
        shares[self.rest] = self.windows.covered_ns - sum(shares.values())
        return {name: share / self.num_iterations / NS_PER_S for name, share in shares.items()}


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of work: its time from the beginning of its iteration, and its owner."""

    start_ns: int
    duration_ns: int
    lane: int
    tally: Tally


def median_iteration(windows: Intervals) -> int:
    """Return the index of the iteration of median length, the shorter of two in the middle."""
    order = np.argsort(windows.ends - windows.starts, kind="stable")
    return int(order[(len(order) - 1) // 2])


def longest(starts: Whole, ends: Whole) -> list[int]:
    """Return the indices of the longest stretches, MAX_SPANS at most, in the order they began."""
    order = np.argsort(starts - ends, kind="stable")[:MAX_SPANS]
    positive = order[(ends - starts)[order] > 0]
    indices: list[int] = positive[np.argsort(starts[positive], kind="stable")].tolist()
    return indices


def timeline_spans(
    pieces: Iterable[Piece], *, kernels: Sequence[Kernel]
) -> tuple[TimelineSpan, ...]:
    """Return the pieces with the indices of their kernels in `kernels`."""
    index_of_kernel = {(kernel.name, kernel.shapes): index for index, kernel in enumerate(kernels)}
    return tuple(
        TimelineSpan(
            start_s=piece.start_ns / NS_PER_S,
            duration_s=piece.duration_ns / NS_PER_S,
            lane=piece.lane,
            kernel=index_of_kernel[piece.tally.name, piece.tally.shapes],
        )
        for piece in pieces
    )

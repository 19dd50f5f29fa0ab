"""One iteration as a strip: the longest stretches of work in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from compile_hud.db.records.kernels import Kernel, Slice
from compile_hud.runner.traces.intervals import Intervals, Whole
from compile_hud.runner.traces.kernel_rows import NS_PER_S, Tally

# More are not told apart on a screen, and each costs 25 bytes of every result.
MAX_SLICES = 200


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of work: when it was, from the beginning of its iteration, and whose."""

    start_ns: int
    duration_ns: int
    lane: int
    tally: Tally


def median_iteration(windows: Intervals) -> int:
    """Return the place of the iteration of median length, the shorter of two in the middle."""
    order = np.argsort(windows.ends - windows.starts, kind="stable")
    return int(order[(len(order) - 1) // 2])


def longest(starts: Whole, ends: Whole) -> list[int]:
    """Return the places of the longest stretches, MAX_SLICES at most, in the order they began."""
    order = np.argsort(starts - ends, kind="stable")[:MAX_SLICES]
    kept = order[(ends - starts)[order] > 0]
    found: list[int] = kept[np.argsort(starts[kept], kind="stable")].tolist()
    return found


def slices_of(pieces: Iterable[Piece], *, kernels: Sequence[Kernel]) -> tuple[Slice, ...]:
    """Return the pieces with the places of their kernels in `kernels`."""
    places = {(kernel.name, kernel.shapes): place for place, kernel in enumerate(kernels)}
    return tuple(
        Slice(
            start_s=piece.start_ns / NS_PER_S,
            duration_s=piece.duration_ns / NS_PER_S,
            lane=piece.lane,
            kernel=places[piece.tally.name, piece.tally.shapes],
        )
        for piece in pieces
    )

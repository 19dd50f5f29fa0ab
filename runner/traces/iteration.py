"""What was found in a trace, before it becomes records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compile_hud.db.records.kernels import KINDS
from compile_hud.runner.traces._merge_traces_strip import Piece
from compile_hud.runner.traces.intervals import Intervals, shares_ns
from compile_hud.runner.traces.kernel_rows import NS_PER_S, Tally

# Where several kernels run at once the time goes to what computes, then to what moves data: what
# is left for communication is what nothing hides.
PRIORITY = (
    *(kind for kind in KINDS if kind not in ("copy", "communication", "dispatch")),
    "copy",
    "communication",
    "dispatch",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The rows of a trace and who had the time of its iterations.

    `owners` are the times of each kind, `rest` the name of what none of them has, `windows` the
    times of the iterations. `overlap_ns` is time in which a second kernel ran beside a first,
    summed over all such kernels. `busy` and `is_graph_replay` are as in Profile, `strip` becomes
    the one there.
    """

    tallies: tuple[Tally, ...]
    owners: Mapping[str, Intervals]
    rest: str
    windows: Intervals
    num_iterations: int
    overlap_ns: int
    busy: float | None = None
    is_graph_replay: bool = False
    strip: tuple[Piece, ...] = ()

    @property
    def iteration_ns(self) -> float:
        """Return how long an iteration lasted; iterations that overlap share their time."""
        return self.windows.covered_ns / self.num_iterations

    def parts(self) -> dict[str, float]:
        """Return the seconds of an iteration by kind and the rest, which add up to it."""
        ordered = {kind: self.owners[kind] for kind in PRIORITY if kind in self.owners}
        shares = shares_ns(ordered, windows=self.windows)
        shares[self.rest] = self.windows.covered_ns - sum(shares.values())
        return {name: share / self.num_iterations / NS_PER_S for name, share in shares.items()}

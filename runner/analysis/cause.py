"""Whose fault a step is, as far as what was measured in the same runs tells."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from runner.analysis.detector import SUSTAINED_POINTS
from runner.analysis.shift import Shift, Track

UNKNOWN = "unknown"
COMPILER = "compiler"
EAGER_OR_MACHINE = "eager_or_machine"
# A witness that moved by half of the step explains it; one that moved by less than a quarter
# (noise, mostly) is no part of it. In between nothing is said.
EXPLAINING_SHARE = 0.5
INNOCENT_SHARE = 0.25

_LATENCIES = ("latency_s", "latency_cpu_s")
_COMPILE_TIMES = ("compile_cold_s", "compile_warm_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Who made the step, and how that is known."""

    kind: str = UNKNOWN
    text: str = ""


def wall_clock_is_alone(shift: Shift, track: Track, siblings: Mapping[str, Track]) -> bool:
    """Return whether this is a CPU's wall clock that moved while its CPU time did not."""
    if track.header.metric != "latency_s" or track.header.case.device != "cpu":
        return False
    moved = _change_of(siblings.get("latency_cpu_s"), shift)
    return moved is not None and _share(moved, shift) < EXPLAINING_SHARE


def cause_of(shift: Shift, track: Track, siblings: Mapping[str, Track]) -> Cause:
    """Return who made the step, by the eager iterations interleaved with the variant's."""
    metric = track.header.metric
    if metric not in (*_LATENCIES, *_COMPILE_TIMES, "speedup"):
        return Cause()
    if track.header.case.mode == "eager":
        return Cause(kind=EAGER_OR_MACHINE, text="nothing is compiled in an eager case")
    clock = "eager_latency_cpu_s" if "eager_latency_cpu_s" in siblings else "eager_latency_s"
    moved = _change_of(siblings.get(clock), shift)
    if moved is None:
        return Cause()
    # Adding 0.0 makes a plus of the minus that rounding leaves before a zero.
    told = f"eager latency in the same processes moved by {round(100 * moved, 1) + 0.0:+.1f} %"
    # A faster eager lowers the speedup; a slower one slows the machine's compilations too.
    share = _share(-moved if metric == "speedup" else moved, shift)
    if share >= EXPLAINING_SHARE:
        return Cause(kind=EAGER_OR_MACHINE, text=f"{told}: not the compiler")
    if abs(share) < INNOCENT_SHARE:
        return Cause(kind=COMPILER, text=f"{told}: compiler side")
    return Cause(text=told)


def _share(moved: float, shift: Shift) -> float:
    change = shift.cost_change
    return moved / change if change else 0.0


def _change_of(witness: Track | None, shift: Shift) -> float | None:
    """Return the relative change of `witness` over the runs on both sides of `shift`."""
    if witness is None:
        return None
    values = {point.run_id: point.median for point in witness.points}
    sides = []
    for places in (shift.old, shift.new):
        runs = [shift.points[place].run_id for place in places]
        found = [values[run] for run in runs if run in values]
        if len(found) < SUSTAINED_POINTS:
            return None
        sides.append(statistics.median(found))
    return sides[1] / sides[0] - 1 if sides[0] > 0 else None

"""Whose fault a step is, as far as what was measured in the same runs tells."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.analysis.detector import SUSTAINED_POINTS
from runner.analysis.machine import KINDS, MachineChange, level_change
from runner.analysis.shift import Shift, Track

UNKNOWN = "unknown"
COMPILER = "compiler"
EAGER = "eager"
MACHINE = "machine"
EAGER_OR_MACHINE = "eager_or_machine"
# A witness that moved by half of the step explains it; one that moved by less than a quarter
# (noise, mostly) is no part of it. In between nothing is said.
EXPLAINING_SHARE = 0.5
INNOCENT_SHARE = 0.25

# Runs on each side of a step in which a reference case must have moved: with more, one that moved
# another week would count.
NUM_RUNS_AT_ONSET = 7

_LATENCIES = ("latency_s", "latency_cpu_s")
_COMPILE_TIMES = ("compile_cold_s", "compile_cold_cpu_s", "compile_warm_s")


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


def cause_of(
    shift: Shift,
    track: Track,
    siblings: Mapping[str, Track],
    references: Sequence[Track] = (),
) -> Cause:
    """Return who made the step: compiler, eager or machine.

    The witnesses are the eager iterations interleaved with the variant's, and `references`, the
    tracks of the reference cases in the same runs.
    """
    metric = track.header.metric
    if metric not in (*_LATENCIES, *_COMPILE_TIMES, "speedup"):
        return Cause()
    if track.header.case.is_reference:
        return Cause(kind=MACHINE, text=_reference_text(track, shift.change or 0.0))
    if track.header.case.mode == "eager":
        return _beyond_compiler(shift, references, told="nothing is compiled in an eager case")
    clock = "eager_latency_cpu_s" if "eager_latency_cpu_s" in siblings else "eager_latency_s"
    moved = _change_of(siblings.get(clock), shift)
    if moved is None:
        return Cause()
    # Adding 0.0 makes a plus of the minus that rounding leaves before a zero.
    told = f"eager latency in the same processes moved by {round(100 * moved, 1) + 0.0:+.1f} %"
    # A faster eager lowers the speedup; a slower one slows the machine's compilations too.
    share = _share(-moved if metric == "speedup" else moved, shift)
    if share >= EXPLAINING_SHARE:
        if metric == "speedup":
            # A ratio within one process: a machine moves both of its sides.
            return Cause(kind=EAGER_OR_MACHINE, text=f"{told}: not the compiler")
        return _beyond_compiler(shift, references, told=f"{told}: not the compiler")
    if abs(share) < INNOCENT_SHARE:
        return Cause(kind=COMPILER, text=f"{told}: compiler side")
    return Cause(text=told)


def _beyond_compiler(shift: Shift, references: Sequence[Track], *, told: str) -> Cause:
    """Return whether eager torch or the machine made the step, by the reference cases."""
    changes = [(track, _reference_change(track, shift)) for track in references]
    known = [(track, change) for track, change in changes if change is not None]
    for track, change in sorted(known, key=lambda item: -_share(item[1].change or 0.0, shift)):
        share = _share(change.change or 0.0, shift)
        if share >= EXPLAINING_SHARE and _leaves_out_no_change(change):
            text = _reference_text(track, change.change or 0.0)
            return Cause(kind=MACHINE, text=f"{text}; {told}")
    if known and all(abs(_share(item.change or 0.0, shift)) < INNOCENT_SHARE for _, item in known):
        return Cause(kind=EAGER, text=f"{told}; the reference cases stayed: eager side")
    return Cause(kind=EAGER_OR_MACHINE, text=told)


def _reference_text(track: Track, change: float) -> str:
    model = track.header.case.model
    shown = f"{round(100 * change, 1) + 0.0:+.1f} %"
    return f"machine side: {model} ({KINDS.get(model, model)}) moved {shown}"


def _leaves_out_no_change(change: MachineChange) -> bool:
    return change.low is not None and change.high is not None and not change.low <= 0 <= change.high


def _reference_change(track: Track, shift: Shift) -> MachineChange | None:
    """Return how a reference case moved from just before the step to just after it."""
    values = {point.run_id: point.median for point in track.points if point.median > 0}
    sides = [
        [values[run] for run in runs if run in values]
        for runs in (
            [shift.points[place].run_id for place in shift.old[-NUM_RUNS_AT_ONSET:]],
            [shift.points[place].run_id for place in shift.new[:NUM_RUNS_AT_ONSET]],
        )
    ]
    if min(map(len, sides)) < SUSTAINED_POINTS:
        return None
    case = track.header.case
    return level_change(
        case.model, sides[0], sides[1], metric=track.header.metric, device=case.device
    )


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

"""Attribute a step to compiler, eager, machine or measurement, by controls of the same runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compile_hud.db.shared.text import signed_percent
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.judging.cost_step import Shift, Track
from compile_hud.runner.analysis.judging.machine_state import (
    ABSOLUTE_METRICS,
    KINDS,
    MachineChange,
    level_change,
)

UNKNOWN = "unknown"
COMPILER = "compiler"
EAGER = "eager"
MACHINE = "machine"
EAGER_OR_MACHINE = "eager_or_machine"
MEASUREMENT = "measurement"
# A control that changed by this share of the step explains it.
EXPLAINING_SHARE = 0.5
# A control that changed by less (noise, mostly) is unrelated. In between the cause stays open.
INNOCENT_SHARE = 0.25

# Runs on each side of a step in which a reference case must have changed: with more, one that
# changed another week would count.
NUM_RUNS_AT_ONSET = 7

# If the nights' own intervals are this much wider than before, and wider than the step, they were
# measured worse: they are no evidence of a change.
NOISE_GROWTH = 2.0

# A busy machine affects these timed metrics; sizes and counts are unaffected.
TIMED_METRICS = (*ABSOLUTE_METRICS, "speedup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The cause of a step, and the evidence for it."""

    kind: str = UNKNOWN
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlMetrics:
    """The changes of controls of `metric`, whose cost changed by `change`; above 0 is slower.

    `eager` is None without interleaved eager iterations. With `ran_in_turn` both sides ran
    interleaved on one machine, which is then no part of the change.
    """

    metric: str
    change: float
    eager: float | None = None
    references: Sequence[MachineChange] = ()
    ran_in_turn: bool = False

    def share(self, change: float) -> float:
        """Return the change of a control as a share of the metric's."""
        return change / self.change if self.change else 0.0


def wall_clock_is_alone(shift: Shift, track: Track, siblings: Mapping[str, Track]) -> bool:
    """Return whether this is a CPU's wall clock that changed while its CPU time did not."""
    if track.header.metric != "latency_s" or track.header.case.device != "cpu":
        return False
    changed, change = _change_of(siblings.get("latency_cpu_s"), shift), shift.cost_change
    return changed is not None and (not change or changed / change < EXPLAINING_SHARE)


def cause_of(
    shift: Shift,
    track: Track,
    siblings: Mapping[str, Track],
    references: Sequence[Track] = (),
) -> Cause:
    """Return the cause of the step: compiler, eager, machine or measurement.

    The controls are the eager iterations interleaved with the variant's, and `references`, the
    tracks of the reference cases in the same runs.
    """
    metric, case = track.header.metric, track.header.case
    if metric not in TIMED_METRICS:
        return Cause()
    if case.is_reference:
        return Cause(kind=MACHINE, text=_reference_text(case.model, shift.change or 0.0))
    if grown := _grown_noise(shift):
        return Cause(kind=MEASUREMENT, text=grown)
    clock = "eager_latency_cpu_s" if "eager_latency_cpu_s" in siblings else "eager_latency_s"
    changes = [_reference_change(reference, shift) for reference in references]
    controls = ControlMetrics(
        metric=metric,
        change=shift.cost_change or 0.0,
        eager=_change_of(siblings.get(clock), shift),
        references=[change for change in changes if change is not None],
    )
    return attribute_cause(controls, is_eager=case.is_eager)


def attribute_cause(controls: ControlMetrics, *, is_eager: bool) -> Cause:
    """Return the cause of a change of a time, of an eager case or of a compiled one."""
    if is_eager:
        return _beyond_compiler(controls, eager_text="nothing is compiled in an eager case")
    change = controls.eager
    if change is None:
        return Cause()
    text = f"eager latency in the same processes moved by {signed_percent(change)}"
    # A faster eager lowers the speedup; a slower one slows the machine's compilations too.
    share = controls.share(-change if controls.metric == "speedup" else change)
    if share >= EXPLAINING_SHARE:
        if controls.metric == "speedup" and not controls.ran_in_turn:
            # A ratio within one process: a machine slows both of its sides, so that a reference
            # case that changed explains nothing.
            return _acquitted(controls, eager_text=f"{text}: not the compiler")
        return _beyond_compiler(controls, eager_text=f"{text}: not the compiler")
    if abs(share) < INNOCENT_SHARE:
        return Cause(kind=COMPILER, text=f"{text}: compiler side")
    return Cause(text=text)


def _beyond_compiler(controls: ControlMetrics, *, eager_text: str) -> Cause:
    """Return whether eager torch, the model or the machine made the change."""
    if controls.ran_in_turn:
        return Cause(kind=EAGER, text=f"{eager_text}; both sides ran in turn: eager side")
    known = controls.references
    for reference in sorted(known, key=lambda item: -controls.share(item.change or 0.0)):
        share = controls.share(reference.change or 0.0)
        if share >= EXPLAINING_SHARE and _leaves_out_no_change(reference):
            text = _reference_text(reference.model, reference.change or 0.0)
            return Cause(kind=MACHINE, text=f"{text}; {eager_text}")
    return _acquitted(controls, eager_text=eager_text)


def _acquitted(controls: ControlMetrics, *, eager_text: str) -> Cause:
    """Return the cause eager if all reference cases were stable, else leave it open."""
    known = controls.references
    if known and all(abs(controls.share(item.change or 0.0)) < INNOCENT_SHARE for item in known):
        return Cause(kind=EAGER, text=f"{eager_text}; the reference cases stayed: eager side")
    return Cause(kind=EAGER_OR_MACHINE, text=eager_text)


def _reference_text(model: str, change: float) -> str:
    return f"machine side: {model} ({KINDS.get(model, model)}) moved {signed_percent(change)}"


def _leaves_out_no_change(change: MachineChange) -> bool:
    return change.low is not None and change.high is not None and not change.low <= 0 <= change.high


def _grown_noise(shift: Shift) -> str:
    """Return the reason if the nights since the step are too noisy to show one, else empty."""
    before, after = (_half_width(shift, indices) for indices in (shift.old, shift.new))
    change = abs(shift.cost_change or 0.0)
    if before <= 0 or after < NOISE_GROWTH * before or after < change:
        return ""
    return (
        f"the interval of a night's result grew from +-{100 * before:.1f} % to"
        f" +-{100 * after:.1f} %, more than the step itself: measurement side"
    )


def _half_width(shift: Shift, indices: range) -> float:
    """Return the median half-width of the nights' own intervals, relative to their values."""
    points = [shift.points[index] for index in indices]
    return statistics.median((point.high - point.low) / (2 * point.median) for point in points)


def _reference_change(track: Track, shift: Shift) -> MachineChange | None:
    """Return the change of a reference case from just before the step to just after it."""
    values = {point.run_id: point.median for point in track.points if point.median > 0}
    sides = [
        [values[run] for run in runs if run in values]
        for runs in (
            [shift.points[index].run_id for index in shift.old[-NUM_RUNS_AT_ONSET:]],
            [shift.points[index].run_id for index in shift.new[:NUM_RUNS_AT_ONSET]],
        )
    ]
    if min(map(len, sides)) < DEFAULT_CONFIG.sustained_points:
        return None
    case = track.header.case
    return level_change(
        case.model, sides[0], sides[1], metric=track.header.metric, device=case.device
    )


def _change_of(control: Track | None, shift: Shift) -> float | None:
    """Return the relative change of `witness` over the runs on both sides of `shift`."""
    if control is None:
        return None
    values = {point.run_id: point.median for point in control.points}
    sides = []
    for indices in (shift.old, shift.new):
        runs = [shift.points[index].run_id for index in indices]
        known = [values[run] for run in runs if run in values]
        if len(known) < DEFAULT_CONFIG.sustained_points:
            return None
        sides.append(statistics.median(known))
    return sides[1] / sides[0] - 1 if sides[0] > 0 else None

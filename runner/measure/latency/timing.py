"""Samples of the latency: eager and variant interleaved, round by round, in one process.

Method: a round times each side once, k iterations back to back. k makes a sample last SAMPLE_S. The
first side alternates, so that a drift of the machine affects both alike
(docs/explanation/measurement.md). Warm-up rounds run until the level is steady. If it drops later,
the rounds before the drop were warm-ups too; they are stored and flagged. This module imports no
torch.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from compile_hud.db.records.metrics import CPU_TIME
from compile_hud.runner.measure.latency.steady_state import (
    MIN_DROP_ROUNDS,
    begins_to_drop,
    is_steady,
    last_level_drop,
    relative_half_width,
)
from compile_hud.runner.protocol.messages import MeasureSettings

# 5 ms: a timer call costs 50 ns, a scheduler tick 1-4 ms; shorter samples are mostly luck.
SAMPLE_S = 0.005
# A first guess from one call might use a call that was preempted, or compiled something.
CALIBRATION_TRIES = 3
# Samples of half to twice SAMPLE_S are as good; beyond that k is recalibrated.
CALIBRATION_TOLERANCE = 2.0
MIN_ROUNDS = 5
MAX_WARMUP_ROUNDS = 12
# After fewer calls of a side in one launch, a late compilation may still come: no stopping early.
MIN_CALLS = 50
# A level that drops more often than this during sampling is not steady.
MAX_LEVEL_DROPS = 3
# The interval within a launch may be half the target between launches: it then adds an eighth.
WITHIN_LAUNCH_SHARE = 0.5

Step = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds for one iteration; `cpu_s` is the thread's CPU time, None if it is not meaningful.

    `host_share` is the share of the time in which the host still enqueued work for the device, None
    on a CPU.
    """

    wall_s: float
    cpu_s: float | None
    host_share: float | None = None

    @property
    def least_noisy_s(self) -> float:
        """Return the CPU time where there is one, which a busy machine does not stretch."""
        return self.wall_s if self.cpu_s is None else self.cpu_s


class Timer(Protocol):
    """A timer of iterations: a device, or a script in a test."""

    def time_iterations(self, call: Step, *, num_iterations: int) -> Timing:
        """Return the mean time of `num_iterations` calls."""
        ...


@dataclass(slots=True)
class Side:
    """One function under measurement with its samples so far."""

    name: str
    step: Step
    num_iterations: int = 1
    num_calls: int = 0
    samples: list[Timing] = field(default_factory=list)
    warmups: list[Timing] = field(default_factory=list)

    def time(self, device: Timer, *, num_iterations: int | None = None) -> Timing:
        """Return the time of one sample, which is counted but not recorded."""
        count = num_iterations or self.num_iterations
        self.num_calls += count
        return device.time_iterations(self.step, num_iterations=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSummary:
    """A summary of the sampling of a launch.

    `stopped_by` is `rounds` (all were taken), `interval` (narrow enough) or `budget`. `num_falls`
    is the number of level drops after warming up, and `is_settled` means that the last level was
    steady.
    """

    stopped_by: str
    num_falls: int
    is_settled: bool


@contextmanager
def quiet_interpreter() -> Iterator[None]:
    """Collect earlier garbage, then pause the collector during the samples."""
    gc.collect()
    with garbage_collection_paused():
        yield


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause the garbage collector; after a compilation, a collection takes longer than a step."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def calibrate(side: Side, *, device: Timer) -> None:
    """Set how many iterations of `side` make a sample of SAMPLE_S."""
    num_iterations = 1
    while True:
        sample_s = _shortest_s(side, device=device, num_iterations=num_iterations)
        if sample_s >= SAMPLE_S:
            break
        num_iterations *= 2
    side.num_iterations = _iterations_for(sample_s / num_iterations)


def _shortest_s(side: Side, *, device: Timer, num_iterations: int) -> float:
    shortest_s = math.inf
    for _ in range(CALIBRATION_TRIES):
        timing = side.time(device, num_iterations=num_iterations)
        shortest_s = min(shortest_s, timing.wall_s * num_iterations)
        # Too short is certain at once; only too long may have been an accident.
        if shortest_s < SAMPLE_S:
            break
    return shortest_s


def _iterations_for(iteration_s: float) -> int:
    return max(1, math.ceil(SAMPLE_S / iteration_s))


def recalibrate(side: Side, *, level_s: float) -> bool:
    """Recalibrate k for iterations of `level_s`; return whether it changed."""
    count = _iterations_for(level_s)
    ratio = count / side.num_iterations
    if 1 / CALIBRATION_TOLERANCE <= ratio <= CALIBRATION_TOLERANCE:
        return False
    side.num_iterations = count
    return True


def warm_up(sides: Sequence[Side], *, device: Timer, deadline_s: float) -> bool:
    """Run rounds until every side has settled; return whether they did.

    `deadline_s` is a time of `time.perf_counter()` after which no further round starts.
    """
    for side in sides:
        calibrate(side, device=device)
    is_settled = False
    while not is_settled and len(sides[0].warmups) < MAX_WARMUP_ROUNDS:
        for side in sides:
            side.warmups.append(side.time(device))
        is_settled = all(is_steady(_times(side.warmups)) for side in sides)
        if time.perf_counter() > deadline_s:
            break
    for side in sides:
        # The calibration may have used the first calls of a model that warms up late.
        recalibrate(side, level_s=min(timing.wall_s for timing in side.warmups[-3:]))
    return is_settled


def take_samples(
    sides: Sequence[Side],
    *,
    device: Timer,
    settings: MeasureSettings,
    between_rounds: Callable[[], None] | None = None,
    speed_probe: Side | None = None,
) -> SamplingSummary:
    """Append `settings.num_rounds` samples to each side; return a summary.

    There are at least MIN_ROUNDS. There are fewer samples when `budget_s` is spent first, or when
    the samples of this launch agree much better than launches need to. `between_rounds` is called
    after every round, outside every timer. `speed_probe` is timed once a round and has a sample for
    each remaining round.
    """
    deadline_s = time.perf_counter() + settings.budget_s
    num_falls = num_rounds = num_extra = 0
    while True:
        stopped_by = _stop_reason(sides, settings=settings, deadline_s=deadline_s)
        if (
            stopped_by in ("rounds", "interval")
            and num_extra < MIN_DROP_ROUNDS
            and _begins_to_drop(sides)
        ):
            num_extra += 1
        elif stopped_by is not None:
            if num_falls > MAX_LEVEL_DROPS or not _discard_before_drop(sides):
                break
            num_falls += 1
            continue
        for side in sides if num_rounds % 2 == 0 else list(reversed(sides)):
            side.samples.append(side.time(device))
        if speed_probe is not None:
            speed_probe.samples.append(speed_probe.time(device))
        num_rounds += 1
        if between_rounds is not None:
            between_rounds()
    if speed_probe is not None:
        # Rounds that turned out to be warm-ups were the first ones.
        del speed_probe.samples[: len(speed_probe.samples) - len(sides[0].samples)]
    return SamplingSummary(
        stopped_by=stopped_by, num_falls=num_falls, is_settled=num_falls <= MAX_LEVEL_DROPS
    )


def _stop_reason(
    sides: Sequence[Side], *, settings: MeasureSettings, deadline_s: float
) -> str | None:
    num_rounds = len(sides[0].samples)
    if num_rounds >= settings.num_rounds:
        return "rounds"
    if num_rounds >= MIN_ROUNDS and time.perf_counter() > deadline_s:
        return "budget"
    target = settings.target_interval * WITHIN_LAUNCH_SHARE
    has_seen_enough = min(side.num_calls for side in sides) >= MIN_CALLS
    if has_seen_enough and relative_half_width(headline(sides)) < target:
        return "interval"
    return None


def _begins_to_drop(sides: Sequence[Side]) -> bool:
    return any(begins_to_drop(_times(side.samples)) for side in sides)


def _discard_before_drop(sides: Sequence[Side]) -> bool:
    """Flag the rounds before the last drop of any side as warm-ups; return whether there was one.

    Both sides lose the same rounds, so that the remaining ones are pairs. If k must change for the
    now faster iterations, the rounds after the drop were too short and are removed as well.
    """
    fall = max(last_level_drop(_times(side.samples)) for side in sides)
    if fall == 0:
        return False
    levels_s = [float(np.median([t.wall_s for t in side.samples[fall:]])) for side in sides]
    has_changed = [
        recalibrate(side, level_s=level_s) for side, level_s in zip(sides, levels_s, strict=True)
    ]
    for side in sides:
        end = len(side.samples) if any(has_changed) else fall
        side.warmups += side.samples[:end]
        del side.samples[:end]
    return True


def headline(sides: Sequence[Side]) -> list[float]:
    """Return, round by round, the least noisy number: eager over variant, or the time of one side.

    It is on the CPU clock if every sample has it, else on wall time.
    """
    on_cpu_clock = has_cpu_clock(sides)
    times = [
        [timing.least_noisy_s if on_cpu_clock else timing.wall_s for timing in side.samples]
        for side in sides
    ]
    if len(times) == 1:
        return times[0]
    eager, variant = times
    return [left / right for left, right in zip(eager, variant, strict=True)]


def has_cpu_clock(sides: Sequence[Side]) -> bool:
    """Return whether every sample of every side has CPU time."""
    return all(timing.cpu_s for side in sides for timing in side.samples)


def clock_name(sides: Sequence[Side]) -> str:
    """Return the clock of ratios of `sides`: that of their threads where there is one."""
    return f"thread {CPU_TIME}" if has_cpu_clock(sides) else "wall time"


def _times(timings: Sequence[Timing]) -> list[float]:
    return [timing.least_noisy_s for timing in timings]


def sampling_details(sides: Sequence[Side], course: SamplingSummary) -> dict[str, Any]:
    """Return the details about the sampling of this launch, as JSON values."""
    return {
        "stopped_by": course.stopped_by,
        "num_falls": course.num_falls,
        "is_settled": course.is_settled,
        "num_rounds": len(sides[0].samples),
        "num_warmup_rounds": len(sides[0].warmups),
        "iterations_per_sample": {side.name: side.num_iterations for side in sides},
    }

"""Samples of the latency: eager and variant interleaved, round by round, in one process.

Method: a round times each side once, k iterations back to back, k chosen so that a sample lasts
SAMPLE_S; which side goes first alternates, so that a drift of the machine hits both alike
(docs/methodology.md). Warm-up rounds run until the variant's time settles; they are kept, flagged.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from runner.measure.device import Device, Timing
from runner.protocol import MeasureSettings

# 5 ms: a timer call costs 50 ns, a scheduler tick 1-4 ms; shorter samples are mostly luck.
SAMPLE_S = 0.005
MIN_ROUNDS = 5
MAX_WARMUP_ROUNDS = 12
# Three successive warm-up rounds within 5 % of each other: the level has settled.
SETTLED_SPREAD = 0.05
SETTLED_ROUNDS = 3

Step = Callable[[], object]


@dataclass(slots=True)
class Side:
    """One function under measurement with its samples so far."""

    name: str
    step: Step
    num_iterations: int = 1
    samples: list[Timing] = field(default_factory=list)
    warmups: list[Timing] = field(default_factory=list)


@contextmanager
def quiet_python() -> Iterator[None]:
    """Keep the garbage collector out of the samples."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def calibrate(side: Side, *, device: Device) -> None:
    """Set how many iterations of `side` make a sample of SAMPLE_S."""
    num_iterations = 1
    while True:
        sample_s = (
            device.time_iterations(side.step, num_iterations=num_iterations).wall_s * num_iterations
        )
        if sample_s >= SAMPLE_S:
            break
        num_iterations *= 2
    side.num_iterations = max(1, math.ceil(num_iterations * SAMPLE_S / sample_s))


def warm_up(sides: Sequence[Side], *, device: Device, deadline_s: float) -> bool:
    """Run rounds until every side has settled; return False when they never did.

    `deadline_s` is a time of `time.perf_counter()` after which no further round starts.
    """
    for side in sides:
        calibrate(side, device=device)
    for _ in range(MAX_WARMUP_ROUNDS):
        for side in sides:
            side.warmups.append(
                device.time_iterations(side.step, num_iterations=side.num_iterations)
            )
        if all(has_settled([timing.steadiest_s for timing in side.warmups]) for side in sides):
            return True
        if time.perf_counter() > deadline_s:
            break
    return False


def has_settled(times_s: Sequence[float]) -> bool:
    """Return whether the last SETTLED_ROUNDS times lie within SETTLED_SPREAD of each other."""
    if len(times_s) < SETTLED_ROUNDS:
        return False
    last = times_s[-SETTLED_ROUNDS:]
    return max(last) <= min(last) * (1 + SETTLED_SPREAD)


def take_samples(
    sides: Sequence[Side],
    *,
    device: Device,
    settings: MeasureSettings,
    between_rounds: Callable[[], None] | None = None,
) -> None:
    """Append `settings.num_rounds` samples to each side, fewer when `budget_s` is spent first.

    `between_rounds` is called after every round, outside every timer.
    """
    deadline_s = time.perf_counter() + settings.budget_s
    for round_number in range(settings.num_rounds):
        order = sides if round_number % 2 == 0 else list(reversed(sides))
        for side in order:
            side.samples.append(
                device.time_iterations(side.step, num_iterations=side.num_iterations)
            )
        if between_rounds is not None:
            between_rounds()
        if round_number + 1 >= MIN_ROUNDS and time.perf_counter() > deadline_s:
            break

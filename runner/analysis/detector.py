"""Find the nights from which on a series has another level.

Method: a sequential rule. The current level's baseline is the median of its last 14 points. Three
points in a row that all lie beyond the trigger on one side, with a median beyond three times the
level's own noise (robust sd of all its points), start a new level, upwards or
downwards, and everything before it is forgotten. A step is reported while its change is no more
than a standard error short of the floor: the trigger sits below the floor so that a change of just
that size is found in noise, and the points that follow decide. docs/judging.md has the scores.
Assumptions: one point a night, nights independent of each other; noise multiplicative; no NaN.
Consequences: a step shows on its third night; blips of one or two nights never do; a drift slower
than the trigger in 14 points is absorbed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from runner.analysis.history import MEDIAN_INEFFICIENCY, checked
from runner.analysis.stats import CONFIDENCE, robust_sd, student_quantile

BASELINE_POINTS = 14
# Fewer points give no usable noise.
MIN_BASELINE_POINTS = 6
# One-night and two-night blips are common on shared machines and gone when one looks.
SUSTAINED_POINTS = 3
DEFAULT_FLOOR = 0.05
# 3.5 % for a floor of 5 %: with the trigger at the floor itself half of the steps of just that size
# stay below it, and a rule of "three nights above 5 %" finds every fifth of them.
TRIGGER_OF_FLOOR = 0.7
# The median of three points strays three sd of one point in about one of 10^5 nights.
NOISE_MULTIPLE = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A place where the level changes, with what is known of both sides.

    `start` is the first point of the old level, `index` of the new one, `end` one past its last.
    `change` is after over before less 1, `error` its standard error, `low` and `high` its 95 %
    interval, `noise` the relative sd of the old level.
    """

    start: int
    index: int
    end: int
    before: float
    after: float
    noise: float
    change: float
    error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Level:
    previous: int
    start: int
    before: float
    noise: float
    num_before: int


def find_steps(values: np.ndarray, *, floor: float = DEFAULT_FLOOR) -> list[tuple[int, float]]:
    """Return index and relative change of every step in `values`, oldest first."""
    return [(step.index, step.change) for step in describe_steps(values, floor=floor)]


def describe_steps(values: np.ndarray, *, floor: float = DEFAULT_FLOOR) -> list[Step]:
    """Return every step in `values` with both levels and the interval of the change.

    Raises ValueError unless all values are finite and above 0: changes are ratios.
    """
    numbers = checked(values)
    levels = _find_levels(numbers, trigger=floor * TRIGGER_OF_FLOOR)
    ends = [*(level.start for level in levels), numbers.size][1:]
    steps = [_describe(numbers, level, end) for level, end in zip(levels, ends, strict=True)]
    return [step for step in steps if abs(step.change) + step.error >= floor]


def _find_levels(numbers: np.ndarray, *, trigger: float) -> list[_Level]:
    # Plain lists: medians of at most 14 numbers are taken at every point of every prefix.
    points: list[float] = numbers.tolist()
    levels: list[_Level] = []
    start = 0
    for stop in range(SUSTAINED_POINTS, len(points) + 1):
        tail = stop - SUSTAINED_POINTS
        if tail - start < MIN_BASELINE_POINTS:
            continue
        baseline = points[max(start, tail - BASELINE_POINTS) : tail]
        before = _median(baseline)
        recent = points[tail:stop]
        if not _all_beyond(recent, before, trigger):
            continue
        noise = robust_sd(numbers[start:tail]) / before
        if abs(_median(recent) / before - 1) > NOISE_MULTIPLE * noise:
            levels.append(_Level(start, tail, before, noise, len(baseline)))
            start = tail
    return levels


def _median(points: list[float]) -> float:
    ordered = sorted(points)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2


def _all_beyond(points: list[float], before: float, trigger: float) -> bool:
    return min(points) > before * (1 + trigger) or max(points) < before * (1 - trigger)


def _describe(numbers: np.ndarray, level: _Level, end: int) -> Step:
    side = numbers[level.start : end]
    after = float(np.median(side))
    # Three points do not tell their own noise; until there are more, the old level's stands in.
    has_noise = side.size >= MIN_BASELINE_POINTS
    noise_after = robust_sd(side) / after if has_noise else level.noise
    error = _standard_error(level, noise_after, side.size)
    margin = error * student_quantile((1 + CONFIDENCE) / 2, degrees=level.num_before - 1)
    ratio = after / level.before
    return Step(
        start=level.previous,
        index=level.start,
        end=end,
        before=level.before,
        after=after,
        noise=level.noise,
        change=ratio - 1,
        error=error,
        low=ratio * math.exp(-margin) - 1,
        high=ratio * math.exp(margin) - 1,
    )


def _standard_error(level: _Level, noise_after: float, num_after: int) -> float:
    variance = level.noise**2 / level.num_before + noise_after**2 / num_after
    return MEDIAN_INEFFICIENCY * math.sqrt(variance)

"""Find the nights on which the level of a series changes.

Method: sequential_test.py follows the history night by night and locates new levels: a sequential
test of the evidence for a step, given the noise of the series itself (evidence.py). A step is
reported while the interval of its change reaches the floor: later points decide.
docs/explanation/detection.md has the rule. Assumptions: one point a night; noise
multiplicative, of any distribution, depending on the night before at most; no NaN. Consequences: a
step shows on its third night at the earliest, and later if it is small in its noise. Blips of two
nights never show. A slow drift is absorbed (drift.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG, DetectorConfig
from compile_hud.runner.analysis.detection.history import checked_history
from compile_hud.runner.analysis.detection.sequential_test import ChangePoint, find_change_points
from compile_hud.runner.analysis.stats.estimates import (
    CONFIDENCE,
    MEDIAN_INEFFICIENCY,
    robust_sd,
    student_quantile,
)

DEFAULT_FLOOR = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change of the level, with the estimates of both sides.

    `start` is the first point of the old level, `index` of the new one, `end` one past its last.
    `change` is after over before less 1, `low` and `high` its 95 % interval. `is_return` means that
    the old level lasted for two weeks at most and the new one is the one before it.
    """

    start: int
    index: int
    end: int
    before: float
    after: float
    change: float
    low: float
    high: float
    is_return: bool = False


def find_steps(
    values: np.ndarray, *, floor: float = DEFAULT_FLOOR, config: DetectorConfig = DEFAULT_CONFIG
) -> list[tuple[int, float]]:
    """Return index and relative change of every step in `values`, oldest first.

    The way back after two weeks at most is no step of its own. Numbers of 0 or below have no
    relative change and are left out, like a missing night. Raises ValueError on others that are
    not finite.
    """
    numbers = np.asarray(values, dtype=float)
    indices = np.flatnonzero(~(numbers <= 0) | np.isinf(numbers))
    steps = describe_steps(numbers[indices], floor=floor, config=config)
    return [(int(indices[step.index]), step.change) for step in steps if not step.is_return]


def describe_steps(
    values: np.ndarray, *, floor: float = DEFAULT_FLOOR, config: DetectorConfig = DEFAULT_CONFIG
) -> list[Step]:
    """Return every step in `values` with both levels and the interval of the change.

    Raises ValueError unless all values are finite and above 0: changes are ratios.
    """
    numbers = checked_history(values)
    change_points = find_change_points(np.log(numbers) / math.log1p(floor), config=config)
    bounds = [0, *(point.index for point in change_points), numbers.size]
    steps = [
        _describe(numbers, point, start=start, end=end, config=config)
        for point, start, end in zip(change_points, bounds, bounds[2:], strict=False)
        if point.is_step
    ]
    return [step for step in steps if step.high >= floor or step.low <= -floor]


def _describe(
    numbers: np.ndarray, point: ChangePoint, *, start: int, end: int, config: DetectorConfig
) -> Step:
    old, new = numbers[start : point.index], numbers[point.index : end]
    baseline = old[-config.baseline_points :]
    before, after = float(np.median(baseline)), float(np.median(new))
    noise = robust_sd(old) / before
    # Three points do not show their own noise; until there are more, the old level's is used.
    noise_after = robust_sd(new) / after if new.size >= config.min_baseline_points else noise
    variance = noise**2 / baseline.size + noise_after**2 / new.size
    error = MEDIAN_INEFFICIENCY * math.sqrt(variance)
    margin = error * student_quantile((1 + CONFIDENCE) / 2, degrees=baseline.size - 1)
    ratio = after / before
    return Step(
        start=start,
        index=point.index,
        end=end,
        before=before,
        after=after,
        change=ratio - 1,
        low=ratio * math.exp(-margin) - 1,
        high=ratio * math.exp(margin) - 1,
        is_return=point.is_return,
    )

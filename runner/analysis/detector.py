"""Find the nights from which on a series has another level.

Method: watch.py follows the history night by night and says where a level begins: a sequential test
of the evidence for a step against the noise that the series itself has shown (evidence.py). A step
is reported while the interval of its change reaches the floor: the points that follow decide.
docs/judging.md has every rule, and the scores.
Assumptions: one point a night; noise multiplicative, of any distribution, depending on the night
before at most; no NaN. Consequences: a step shows on its third night at the earliest and the later
the smaller it is in its noise; blips of two nights never do; a slow drift is absorbed (drift.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.detection.constants import (
    BASELINE_POINTS,
    MEDIAN_INEFFICIENCY,
    MIN_BASELINE_POINTS,
    checked,
)
from compile_hud.runner.analysis.detection.sequential_test import Onset, find_onsets
from compile_hud.runner.analysis.stats.estimates import CONFIDENCE, robust_sd, student_quantile

DEFAULT_FLOOR = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A place where the level changes, with what is known of both sides.

    `start` is the first point of the old level, `index` of the new one, `end` one past its last.
    `change` is after over before less 1, `low` and `high` its 95 % interval. `is_return` where the
    old level lasted for two weeks at most and the new one is the one before it.
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


def find_steps(values: np.ndarray, *, floor: float = DEFAULT_FLOOR) -> list[tuple[int, float]]:
    """Return index and relative change of every step in `values`, oldest first.

    The way back after two weeks at most is no step of its own. Numbers of 0 or below have no
    relative change and are left out, like a missing night. Raises ValueError on others that are
    not finite.
    """
    numbers = np.asarray(values, dtype=float)
    places = np.flatnonzero(~(numbers <= 0) | np.isinf(numbers))
    steps = describe_steps(numbers[places], floor=floor)
    return [(int(places[step.index]), step.change) for step in steps if not step.is_return]


def describe_steps(values: np.ndarray, *, floor: float = DEFAULT_FLOOR) -> list[Step]:
    """Return every step in `values` with both levels and the interval of the change.

    Raises ValueError unless all values are finite and above 0: changes are ratios.
    """
    numbers = checked(values)
    onsets = find_onsets(np.log(numbers) / math.log1p(floor))
    bounds = [0, *(onset.index for onset in onsets), numbers.size]
    steps = [
        _describe(numbers, onset, start=start, end=end)
        for onset, start, end in zip(onsets, bounds, bounds[2:], strict=False)
        if onset.is_step
    ]
    return [step for step in steps if step.high >= floor or step.low <= -floor]


def _describe(numbers: np.ndarray, onset: Onset, *, start: int, end: int) -> Step:
    old, new = numbers[start : onset.index], numbers[onset.index : end]
    baseline = old[-BASELINE_POINTS:]
    before, after = float(np.median(baseline)), float(np.median(new))
    noise = robust_sd(old) / before
    # Three points do not tell their own noise; until there are more, the old level's stands in.
    noise_after = robust_sd(new) / after if new.size >= MIN_BASELINE_POINTS else noise
    variance = noise**2 / baseline.size + noise_after**2 / new.size
    error = MEDIAN_INEFFICIENCY * math.sqrt(variance)
    margin = error * student_quantile((1 + CONFIDENCE) / 2, degrees=baseline.size - 1)
    ratio = after / before
    return Step(
        start=start,
        index=onset.index,
        end=end,
        before=before,
        after=after,
        change=ratio - 1,
        low=ratio * math.exp(-margin) - 1,
        high=ratio * math.exp(margin) - 1,
        is_return=onset.is_return,
    )

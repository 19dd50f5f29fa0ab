"""Find the nights from which on a series has another noise.

Method: each point's deviation is its distance from the median of the 15 points up to it, on
logarithms; its square root has a nearly normal distribution, whatever the tails of the noise. The
noise has changed when the mean of these roots over the last 21 or 42 points lies 4 standard errors
from that of the points before (at most 60, at least 14), and the robust sd about the level by a
factor of 1.7 or more. It changed where two Laplace distributions fit best; from there on the noise
is another one, and what was before is forgotten.
Assumptions: those of detector.py. Nothing is compared across `breaks`, the steps that are known:
the level of a stretch is one, or drifts slowly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from runner.analysis.history import checked, parts
from runner.analysis.stats import CONFIDENCE, robust_sd, student_quantile

LEVEL_POINTS = 15
AFTER_POINTS = (21, 42)
BEFORE_POINTS = 60
MIN_AROUND_POINTS = 7
MIN_BEFORE_POINTS = 14
# Two windows are looked at every night for years.
MIN_ERRORS = 4.0
# Below that nobody would act on it, and every step is found a night later at most.
MIN_FACTOR = 1.7
# Relative error of a robust sd of n normal values, times the root of n.
ROBUST_SD_ERROR = 1.0
# Numbers that repeat exactly have no noise, and no factor: a thousandth stands for none.
LEAST_SD = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseChange:
    """A place where the noise changes.

    `start` is the first point of the old noise, `index` of the new one, `end` one past its last.
    `before` and `after` are the relative robust sd on both sides, `factor` after over before, `low`
    and `high` its 95 % interval.
    """

    start: int
    index: int
    end: int
    before: float
    after: float
    factor: float
    low: float
    high: float

    @property
    def grew(self) -> bool:
        """Return whether the new noise is the larger one."""
        return self.factor > 1


def find_noise_changes(values: np.ndarray, *, breaks: Iterable[int] = ()) -> list[NoiseChange]:
    """Return every lasting change of the noise of `values`, oldest first.

    `breaks` are the first points of new levels (the steps that were found): nothing is compared
    across one. Raises ValueError unless all values are finite and above 0.
    """
    found = []
    for first, numbers in parts(checked(values), breaks=breaks):
        # The first points have no level yet.
        shift = first + LEVEL_POINTS - 1
        for change in _changes(np.log(numbers)):
            found.append(
                replace(
                    change,
                    start=first + change.start + (LEVEL_POINTS - 1 if change.start else 0),
                    index=shift + change.index,
                    end=shift + change.end,
                )
            )
    return found


def _changes(logs: np.ndarray) -> list[NoiseChange]:
    if logs.size < LEVEL_POINTS:
        return []
    rest = logs[LEVEL_POINTS - 1 :] - np.median(sliding_window_view(logs, LEVEL_POINTS), axis=1)
    starts = [0]
    while (index := _first_change(rest, start=starts[-1])) is not None:
        starts.append(index)
    ends = [*starts[2:], rest.size]
    places = zip(starts, starts[1:], ends, strict=False)
    return [_describe(rest, start=start, index=index, end=end) for start, index, end in places]


def _first_change(rest: np.ndarray, *, start: int) -> int | None:
    """Return the first point of the noise after the one that begins at `start`, if there is one."""
    roots = np.sqrt(np.abs(rest[start:]))
    found = []
    for num_after in AFTER_POINTS:
        for stop in np.flatnonzero(_errors_apart(roots, num_after) >= MIN_ERRORS).tolist():
            index = start + stop - num_after
            before = rest[max(start, index - BEFORE_POINTS) : index]
            factor = _sd(rest[index : start + stop]) / _sd(before)
            if max(factor, 1 / factor) >= MIN_FACTOR:
                begin = index - before.size
                found.append((stop, begin + _best_split(rest[begin : start + stop])))
                break
    return min(found)[1] if found else None


def _best_split(rest: np.ndarray) -> int:
    """Return where the noise most likely changes, were it Laplace's, 7 points from either end."""
    sums = np.cumsum(np.maximum(np.abs(rest), LEAST_SD))
    num_before = np.arange(MIN_AROUND_POINTS, rest.size - MIN_AROUND_POINTS + 1)
    num_after = rest.size - num_before
    before = sums[num_before - 1]
    misfit = num_before * np.log(before / num_before)
    misfit += num_after * np.log((sums[-1] - before) / num_after)
    return int(num_before[np.argmin(misfit)])


def _errors_apart(roots: np.ndarray, num_after: int) -> np.ndarray:
    """Return, for each number of points seen, by how many standard errors the last ones differ."""
    sums, squares = _sums(roots), _sums(roots**2)
    products = _sums(np.concatenate([[0.0], roots[1:] * roots[:-1]]))
    apart = np.zeros(sums.size)
    stops = np.arange(MIN_BEFORE_POINTS + num_after, sums.size)
    splits = stops - num_after
    begins = np.maximum(0, splits - BEFORE_POINTS)
    num_before = splits - begins
    before = (sums[splits] - sums[begins]) / num_before
    after = (sums[stops] - sums[splits]) / num_after
    explained = num_before * before**2 + num_after * after**2
    within = np.maximum(squares[stops] - squares[begins] - explained, 1e-30)
    follow = np.clip((products[stops] - products[begins + 1] - explained) / within, 0.0, 0.9)
    # Points that follow each other tell less than independent ones.
    variance = within / (stops - begins - 2) * (1 + follow) / (1 - follow)
    apart[stops] = np.abs(after - before) / np.sqrt(variance * (1 / num_before + 1 / num_after))
    return apart


def _sums(numbers: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(numbers)])


def _sd(rest: np.ndarray) -> float:
    return max(LEAST_SD, robust_sd(rest))


def _describe(rest: np.ndarray, *, start: int, index: int, end: int) -> NoiseChange:
    first, last = rest[max(start, index - BEFORE_POINTS) : index], rest[index:end]
    before, after = _sd(first), _sd(last)
    error = ROBUST_SD_ERROR * math.sqrt(1 / first.size + 1 / last.size)
    degrees = first.size + last.size - 2
    margin = student_quantile((1 + CONFIDENCE) / 2, degrees=degrees) * error
    factor = after / before
    return NoiseChange(
        start=start,
        index=index,
        end=end,
        before=before,
        after=after,
        factor=factor,
        low=factor * math.exp(-margin),
        high=factor * math.exp(margin),
    )

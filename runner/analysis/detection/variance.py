"""Find the nights from which on a series has another noise.

Method: each point's distance is that from the median of the 15 points up to it, on logarithms; the
root of a distance is nearly normal, whatever the tails of the noise. The noise has changed when the
mean root over the last 21 or 30 points lies 3.1 standard errors from that of those before (at most
180, at least 30), and the roots of the distances from one point to the next lie 2.4 standard
errors away as well. The errors allow for points that follow each other: n of them are worth
n / (1 + 2 (r1 + r2 + ...)), r being the correlations of the roots one, two ... points apart (as in
Geyer, Practical Markov Chain Monte Carlo, Statistical Science 7, 1992). A second mode that holds
for days is far from the median whenever it comes, but far from the point before on one night only:
without the second test it would be a new noise each time. The noise changed where two Laplace
distributions fit best; from there on it is another one, and what was before is forgotten.
Assumptions: those of detector.py. Nothing is compared across `breaks`, the steps that are known:
the level of a stretch is one, or drifts slowly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri, stdtr

from compile_hud.runner.analysis.detection.constants import checked, parts
from compile_hud.runner.analysis.stats.estimates import (
    CONFIDENCE,
    sliding_medians,
    student_quantile,
)

LEVEL_POINTS = 15
# Twice the noise shows in 30 points if at all, more than that in 21.
AFTER_POINTS = (21, 30)
BEFORE_POINTS = 180
MIN_BEFORE_POINTS = 30
MIN_AROUND_POINTS = 7
# Two windows are looked at every night for years: one quiet year in thirty has a false one.
MIN_ERRORS = 3.1
# A noise that only comes in bursts, as modes do, falls short of that from point to point.
MIN_ERRORS_BETWEEN = 2.4
# Below that nobody would act on it, and every step is found a night later at most.
MIN_FACTOR = 1.5
# Times the mean root: 6 sd of normal values. Farther outliers count no more.
MAX_ROOT = 3.0
# Modes hold for days; farther apart, correlations of a hundred points are chance.
MAX_LAG = 10
# Mean root of the distances of normal values with sd 1: 2^(1/4) gamma(3/4) / sqrt(pi).
NORMAL_ROOT = 0.8222
# Numbers that repeat exactly have no noise, and no factor: a thousandth stands for none.
LEAST_SD = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseChange:
    """A place where the noise changes.

    `start` is the first point of the old noise, `index` of the new one, `end` one past its last.
    `before` and `after` are the relative sd on both sides, of normal values with the same mean root
    of their distances, `factor` after over before, `low` and `high` its 95 % interval by Student
    with `degrees` of freedom.
    """

    start: int
    index: int
    end: int
    before: float
    after: float
    factor: float
    low: float
    high: float
    degrees: float

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
    if logs.size < LEVEL_POINTS + MIN_BEFORE_POINTS + min(AFTER_POINTS):
        return []
    rest = logs[LEVEL_POINTS - 1 :] - sliding_medians(logs, LEVEL_POINTS)
    roots = _roots(rest)
    between = _roots(np.diff(logs)[LEVEL_POINTS - 2 :])
    starts = [0]
    while (index := _first_change(roots, between, start=starts[-1])) is not None:
        starts.append(index)
    ends = [*starts[2:], roots.size]
    places = zip(starts, starts[1:], ends, strict=False)
    return [_describe(roots, start=start, index=index, end=end) for start, index, end in places]


def _roots(distances: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.maximum(np.abs(distances), NORMAL_ROOT**2 * LEAST_SD)))


def _first_change(roots: np.ndarray, between: np.ndarray, *, start: int) -> int | None:
    """Return the first point of the noise after the one that begins at `start`, if there is one."""
    found = []
    for num_after in AFTER_POINTS:
        for stop in _stops_of_note(roots[start:], num_after):
            index = start + stop - num_after
            begin = max(start, index - BEFORE_POINTS)
            if _has_changed(roots, between, bounds=(begin, index, start + stop)):
                found.append((stop, begin + _best_split(roots[begin : start + stop] ** 2)))
                break
    return min(found)[1] if found else None


def _stops_of_note(roots: np.ndarray, num_after: int) -> list[int]:
    """Return the numbers of points seen whose last ones may have changed, were all independent."""
    sums, squares = _sums(roots), _sums(roots**2)
    stops = np.arange(MIN_BEFORE_POINTS + num_after, sums.size)
    splits = stops - num_after
    begins = np.maximum(0, splits - BEFORE_POINTS)
    ratios = (sums[stops] - sums[splits]) * (splits - begins)
    ratios /= (sums[splits] - sums[begins]) * num_after
    least = math.sqrt(MIN_FACTOR)
    far = np.flatnonzero((ratios >= least) | (ratios <= 1 / least))
    stops, splits, begins, ratios = stops[far], splits[far], begins[far], ratios[far]
    # Most series end here: what follows costs ten times as much.
    num_before = splits - begins
    before = (sums[splits] - sums[begins]) / num_before
    rest = (squares[splits] - squares[begins]) / before**2 - num_before
    rest += (squares[stops] - squares[splits]) / (ratios * before) ** 2 - num_after
    variance = rest / (stops - begins - 2) * (1 / num_before + 1 / num_after)
    is_apart = np.log(ratios) ** 2 >= MIN_ERRORS**2 * variance
    has_outlier = roots.max(initial=0.0) > MAX_ROOT * before
    return [int(stop) for stop in stops[is_apart | has_outlier]]


def _sums(numbers: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(numbers)])


def _has_changed(roots: np.ndarray, between: np.ndarray, *, bounds: tuple[int, int, int]) -> bool:
    begin, index, stop = bounds
    errors = _errors_apart(roots[begin:index], roots[index:stop])
    if abs(errors) < MIN_ERRORS:
        return False
    # The distance to the first point comes from the noise before.
    others = _errors_apart(between[begin:index], between[index + 1 : stop])
    return math.copysign(1.0, errors) * others >= MIN_ERRORS_BETWEEN


def _errors_apart(before: np.ndarray, after: np.ndarray) -> float:
    """Return how far apart both means are, outliers as near as others."""
    most = MAX_ROOT * float(before.mean())
    return _ratio(np.minimum(before, most), np.minimum(after, most)).errors


@dataclass(frozen=True, slots=True)
class _Ratio:
    """The logarithm of a ratio of two means, its standard error and the degrees of freedom."""

    log: float
    error: float
    degrees: float

    @property
    def errors(self) -> float:
        """Return how many errors it lies from 0, as normal errors of the same probability."""
        tail = float(stdtr(self.degrees, -abs(self.log) / self.error))
        return math.copysign(float(-ndtri(tail)), self.log)


def _ratio(before: np.ndarray, after: np.ndarray) -> _Ratio:
    """Return the ratio of the mean of `after` to that of `before`."""
    means = float(before.mean()), float(after.mean())
    rest = np.concatenate([before / means[0], after / means[1]]) - 1
    squares = max(float(rest @ rest), LEAST_SD**2)
    worth = 1.0
    for lag in range(1, MAX_LAG + 1):
        follow = float(rest[lag:] @ rest[:-lag]) / squares
        # All of the first, and the others while they exceed what chance makes of none.
        if lag > 1 and follow <= 1 / math.sqrt(rest.size):
            break
        worth += 2 * max(0.0, follow)
    variance = squares / (rest.size - 2) * worth * (1 / before.size + 1 / after.size)
    degrees = max(2.0, rest.size / worth - 2)
    return _Ratio(math.log(means[1] / means[0]), math.sqrt(variance), degrees)


def _best_split(distances: np.ndarray) -> int:
    """Return where the noise most likely changes, were it Laplace's, 7 points from either end."""
    sums = np.cumsum(distances)
    num_before = np.arange(MIN_AROUND_POINTS, distances.size - MIN_AROUND_POINTS + 1)
    num_after = distances.size - num_before
    before = sums[num_before - 1]
    misfit = num_before * np.log(before / num_before)
    misfit += num_after * np.log((sums[-1] - before) / num_after)
    return int(num_before[np.argmin(misfit)])


def _describe(roots: np.ndarray, *, start: int, index: int, end: int) -> NoiseChange:
    first, last = roots[max(start, index - BEFORE_POINTS) : index], roots[index:end]
    found = _ratio(first, last)
    # A distance is the square of its root: the logarithm counts twice.
    quantile = student_quantile((1 + CONFIDENCE) / 2, degrees=found.degrees)
    factor, margin = math.exp(2 * found.log), 2 * quantile * found.error
    before = (float(first.mean()) / NORMAL_ROOT) ** 2
    return NoiseChange(
        start=start,
        index=index,
        end=end,
        before=before,
        after=factor * before,
        factor=factor,
        low=factor * math.exp(-margin),
        high=factor * math.exp(margin),
        degrees=found.degrees,
    )

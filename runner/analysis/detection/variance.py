"""Find the nights from which on a series has another noise.

Method: the distance of a point is that from the median of the 15 points up to it, on logarithms.
The root of a distance is nearly normal for noise with any tails. The noise has changed if two tests
agree. The mean root over the last 21 or 30 points lies 3.1 standard errors from that of the points
before (at most 180, at least 30). The roots of the distances from one point to the next lie 2.4
standard errors away as well.

The errors allow for points that depend on each other: n of them are worth n / (1 + 2 (r1 + r2 +
...)), r being the correlations of the roots one, two ... points apart (as in Geyer, Practical
Markov Chain Monte Carlo, Statistical Science 7, 1992). A second mode that lasts for days is far
from the median each time, but far from the point before on one night only: without the second test
it would be a new noise each time. The noise changed where two Laplace distributions fit best. From
there on the new noise applies, and earlier points are ignored.
Assumptions: those of detector.py. Nothing is compared across `breaks`, the known steps: the level
of a stretch is constant, or drifts slowly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG, DetectorConfig
from compile_hud.runner.analysis.detection.history import checked_history
from compile_hud.runner.analysis.stats.estimates import (
    CONFIDENCE,
    sliding_medians,
    student_quantile,
)

# Mean root of the distances of normal values with sd 1: 2^(1/4) gamma(3/4) / sqrt(pi).
NORMAL_ROOT = 0.8222
# Numbers that repeat exactly have no noise, and no factor: a thousandth is used instead.
MIN_SD = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseChange:
    """A change of the noise.

    `start` is the first point of the old noise, `index` of the new one, `end` one past its last.
    `before` and `after` are the relative sd on both sides: that of normal values with the same mean
    root of their distances. `factor` is after over before; `low` and `high` are its 95 % interval
    by Student with `degrees` of freedom.
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


def find_noise_changes(
    values: np.ndarray, *, breaks: Iterable[int] = (), config: DetectorConfig = DEFAULT_CONFIG
) -> list[NoiseChange]:
    """Return every lasting change of the noise of `values`, oldest first.

    `breaks` are the first points of new levels, the known steps: nothing is compared across one.
    Raises ValueError unless all values are finite and above 0.
    """
    # The first points have no level yet.
    num_without_level = config.noise_level_points - 1
    changes = []
    for first, numbers in _segments(checked_history(values), breaks=breaks):
        shift = first + num_without_level
        for change in _changes(np.log(numbers), config=config):
            changes.append(
                replace(
                    change,
                    start=first + change.start + (num_without_level if change.start else 0),
                    index=shift + change.index,
                    end=shift + change.end,
                )
            )
    return changes


def _segments(numbers: np.ndarray, *, breaks: Iterable[int]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield start and values of each segment between `breaks`, the first points of new levels."""
    bounds = [0, *sorted(breaks), numbers.size]
    for first, last in zip(bounds, bounds[1:], strict=False):
        yield first, numbers[first:last]


def _changes(logs: np.ndarray, *, config: DetectorConfig) -> list[NoiseChange]:
    num = config.noise_level_points
    if logs.size < num + config.noise_min_before_points + min(config.noise_after_points):
        return []
    roots = _roots(logs[num - 1 :] - sliding_medians(logs, num))
    between = _roots(np.diff(logs)[num - 2 :])
    starts = [0]
    while (index := _first_change(roots, between, start=starts[-1], config=config)) is not None:
        starts.append(index)
    stops = [*starts[2:], roots.size]
    return [
        _describe(roots, start=start, index=index, end=end, config=config)
        for start, index, end in zip(starts, starts[1:], stops, strict=False)
    ]


def _roots(distances: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.maximum(np.abs(distances), NORMAL_ROOT**2 * MIN_SD)))


def _first_change(
    roots: np.ndarray, between: np.ndarray, *, start: int, config: DetectorConfig
) -> int | None:
    """Return the first point of the noise after the one that begins at `start`, if there is one."""
    candidates = []
    for num_after in config.noise_after_points:
        for stop in _stops_of_note(roots[start:], num_after, config=config):
            index = start + stop - num_after
            begin = max(start, index - config.noise_before_points)
            bounds = (begin, index, start + stop)
            if _has_changed(roots, between, bounds=bounds, config=config):
                distances = roots[begin : start + stop] ** 2
                split = _best_split(distances, min_edge=config.noise_min_edge_points)
                candidates.append((stop, begin + split))
                break
    return min(candidates)[1] if candidates else None


def _stops_of_note(roots: np.ndarray, num_after: int, *, config: DetectorConfig) -> list[int]:
    """Return the numbers of points seen whose last ones may have changed, were all independent."""
    sums, squares = _sums(roots), _sums(roots**2)
    stops = np.arange(config.noise_min_before_points + num_after, sums.size)
    splits = stops - num_after
    begins = np.maximum(0, splits - config.noise_before_points)
    ratios = (sums[stops] - sums[splits]) * (splits - begins)
    ratios /= (sums[splits] - sums[begins]) * num_after
    min_ratio = math.sqrt(config.noise_min_factor)
    far = np.flatnonzero((ratios >= min_ratio) | (ratios <= 1 / min_ratio))
    stops, splits, begins, ratios = stops[far], splits[far], begins[far], ratios[far]
    # Most series end here; the rest costs ten times as much.
    num_before = splits - begins
    before = (sums[splits] - sums[begins]) / num_before
    rest = (squares[splits] - squares[begins]) / before**2 - num_before
    rest += (squares[stops] - squares[splits]) / (ratios * before) ** 2 - num_after
    variance = rest / (stops - begins - 2) * (1 / num_before + 1 / num_after)
    is_apart = np.log(ratios) ** 2 >= config.noise_min_errors**2 * variance
    has_outlier = roots.max(initial=0.0) > config.noise_max_root * before
    return [int(stop) for stop in stops[is_apart | has_outlier]]


def _sums(numbers: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(numbers)])


def _has_changed(
    roots: np.ndarray,
    between: np.ndarray,
    *,
    bounds: tuple[int, int, int],
    config: DetectorConfig,
) -> bool:
    begin, index, stop = bounds
    errors = _errors_apart(roots[begin:index], roots[index:stop], config=config)
    if abs(errors) < config.noise_min_errors:
        return False
    # The distance to the first point comes from the noise before.
    others = _errors_apart(between[begin:index], between[index + 1 : stop], config=config)
    return math.copysign(1.0, errors) * others >= config.noise_min_errors_between


def _errors_apart(before: np.ndarray, after: np.ndarray, *, config: DetectorConfig) -> float:
    """Return the distance of both means in errors, with outliers limited."""
    most = config.noise_max_root * float(before.mean())
    before, after = np.minimum(before, most), np.minimum(after, most)
    return _ratio(before, after, max_lag=config.noise_max_lag).errors


@dataclass(frozen=True, slots=True)
class _Ratio:
    """The logarithm of a ratio of two means, its standard error and the degrees of freedom."""

    log: float
    error: float
    degrees: float

    @property
    def errors(self) -> float:
        """Return the distance from 0 in errors, as normal errors of the same probability."""
        # The import is here, since most commands import this module and few judge.
        from scipy.special import ndtri, stdtr

        tail = float(stdtr(self.degrees, -abs(self.log) / self.error))
        return math.copysign(float(-ndtri(tail)), self.log)


def _ratio(before: np.ndarray, after: np.ndarray, *, max_lag: int) -> _Ratio:
    """Return the ratio of the mean of `after` to that of `before`."""
    means = float(before.mean()), float(after.mean())
    rest = np.concatenate([before / means[0], after / means[1]]) - 1
    squares = max(float(rest @ rest), MIN_SD**2)
    worth = 1.0
    for lag in range(1, max_lag + 1):
        follow = float(rest[lag:] @ rest[:-lag]) / squares
        # The first correlation counts in full, the others while they exceed chance.
        if lag > 1 and follow <= 1 / math.sqrt(rest.size):
            break
        worth += 2 * max(0.0, follow)
    variance = squares / (rest.size - 2) * worth * (1 / before.size + 1 / after.size)
    degrees = max(2.0, rest.size / worth - 2)
    return _Ratio(math.log(means[1] / means[0]), math.sqrt(variance), degrees)


def _best_split(distances: np.ndarray, *, min_edge: int) -> int:
    """Return the most likely index of a change of Laplace noise, `min_edge` from either end."""
    sums = np.cumsum(distances)
    num_before = np.arange(min_edge, distances.size - min_edge + 1)
    num_after = distances.size - num_before
    before = sums[num_before - 1]
    misfit = num_before * np.log(before / num_before)
    misfit += num_after * np.log((sums[-1] - before) / num_after)
    return int(num_before[np.argmin(misfit)])


def _describe(
    roots: np.ndarray, *, start: int, index: int, end: int, config: DetectorConfig
) -> NoiseChange:
    first, last = roots[max(start, index - config.noise_before_points) : index], roots[index:end]
    ratio = _ratio(first, last, max_lag=config.noise_max_lag)
    # A distance is the square of its root: the logarithm counts twice.
    quantile = student_quantile((1 + CONFIDENCE) / 2, degrees=ratio.degrees)
    factor, margin = math.exp(2 * ratio.log), 2 * quantile * ratio.error
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
        degrees=ratio.degrees,
    )

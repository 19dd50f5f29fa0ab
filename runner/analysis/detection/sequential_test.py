"""Follow a history night by night and find the nights on which its level changes.

Method: a sequential test in two stages. A cumulative sum (Page, Biometrika, 1954) of each night's
excess over half the floor detects an **excursion**; the level is frozen during it. evidence.py
weighs every night of an excursion of three nights or more. A new level begins if
- the evidence for a step exceeds the threshold; and
- it exceeds each alternative hypothesis by that hypothesis's lead; and
- nine tenths of the threshold are exceeded from the night on at which two medians fit best; and
- no line fits better than those medians: that would be a drift.
The threshold is higher if few nights describe the noise or the level, if the noise has modes, and
after a level that came back.
The fits minimise the sum of absolute distances, which outliers influence little.
The new level begins on the most likely night.
An excursion of more than 20 nights without these is a change too small to report: a new level, but
no step. The noise consists of the distances of the level's points, ended excursions included. It
also has the distances of earlier points from their own levels, a level that came back included.
A repeated call with more nights costs only the new nights: the state after each night depends only
on the nights so far, and each thread stores the state of its last history. Stretches of nights near
their levels are processed at once: there the level is a sliding median, which numpy computes fast.
Assumptions: those of detector.py. Values are logarithms in units of the floor.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG, DetectorConfig
from compile_hud.runner.analysis.detection.evidence import EvidenceThreshold, Scales
from compile_hud.runner.analysis.stats.estimates import (
    MEDIAN_INEFFICIENCY,
    sliding_medians,
    sorted_median,
)

# Shorter quiet stretches are as fast night by night, and the search takes as long as this many
# nights, which must exceed `level_points`. Both numbers affect speed only.
MIN_QUIET_NIGHTS = 10
MIN_NIGHTS_TO_SEARCH = 80
# Sums of absolute distances that differ by less are equal.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """The first point of a new level; `is_step` unless the change is too small to report.

    `is_return` if the level before it lasted for two weeks at most and this is the one before.
    """

    index: int
    is_step: bool = True
    is_return: bool = False


@dataclass(slots=True)
class CusumState:
    """A cumulative sum of the nights' excess over the allowance, on one side of the level."""

    sign: int
    config: DetectorConfig
    total: float = 0.0
    first: int = -1
    scales: Scales | None = None

    def add(self, night: int, distance: float) -> bool:
        """Add a night at `distance` from the level; return whether it added to the sum."""
        excess = self.sign * distance - self.config.allowance
        if self.total <= 0.0:
            self.first, self.scales = night, None
        limit = self.config.max_increment
        self.total = max(0.0, self.total + max(-limit, min(limit, excess)))
        return excess > 0.0


@dataclass(frozen=True, slots=True)
class _RecentStep:
    """A step that may turn out to be a short one: its location, and the level before."""

    index: int
    level: float
    sign: int
    points: list[float]
    num_past: int


class SequentialDetector:
    """The state of the sequential test after the nights so far."""

    def __init__(self, config: DetectorConfig = DEFAULT_CONFIG) -> None:
        self.config = config
        # Later nights may be among them already.
        self.values = np.empty(0)
        self.change_points: list[ChangePoint] = []
        self.start = 0
        # The points of the level, oldest first, and the last of them in order of size.
        self.points: list[float] = []
        self.ordered: list[float] = []
        # Distances of points from levels that they no longer belong to.
        self.past: list[float] = []
        # Lengths of both lists when the level began.
        self.num_points_at_start = 0
        self.num_past_at_start = 0
        # The level before each night.
        self.levels: list[float] = []
        self.excursions = (CusumState(1, config), CusumState(-1, config))
        self.recent_step: _RecentStep | None = None
        self.factor = 1.0

    def is_prefix_of(self, values: np.ndarray) -> bool:
        """Return whether `values` begin with the values so far."""
        return np.array_equal(self.values, values[: len(self.levels)])

    def extend(self, values: np.ndarray) -> None:
        """Process the new ones of `values`, which must begin with the earlier values."""
        # The caller may write to its array afterwards.
        self.values = values.copy()
        num_new = values.size - len(self.levels)
        quiet = QuietNights(values, config=self.config) if num_new >= MIN_NIGHTS_TO_SEARCH else None
        numbers = values.tolist()
        while (night := len(self.levels)) < values.size:
            if quiet is not None and self._is_settled(night):
                end = quiet.end(night)
                if end - night >= MIN_QUIET_NIGHTS:
                    self._extend_quiet(night, quiet.levels(night, end))
                    continue
            self.update(night, numbers[night])

    def update(self, night: int, value: float) -> None:
        """Process the value of one more night."""
        level = self._record(value)
        distance = value - level
        allowance = self.config.allowance
        up, down = self.excursions
        # Most nights are near a level that nothing departs from.
        if (up.total > 0.0 or distance > allowance) and self._departs(up, night, value):
            return
        if (down.total > 0.0 or distance < -allowance) and self._departs(down, night, value):
            return
        self._append(value, level)
        if self.recent_step is not None:
            self._check_early_return(self.recent_step, night)

    def _is_settled(self, night: int) -> bool:
        """Return whether the level is of successive nights before `night` and none departs from it.

        At this point `_check_early_return` no longer applies to a level that a step began.
        """
        up, down = self.excursions
        is_full = night - self.start >= self.config.level_points
        return is_full and up.total <= 0.0 and down.total <= 0.0

    def _extend_quiet(self, night: int, levels: np.ndarray) -> None:
        """Process a stretch of nights from `night` on, all of them near their `levels`."""
        end, num = night + levels.size, self.config.level_points
        self.levels += levels.tolist()
        self.points += self.values[night:end].tolist()
        self.past += (self.values[night - num : end - num] - levels).tolist()
        self.ordered = sorted(self.points[-num:])

    def _check_early_return(self, last: _RecentStep, night: int) -> None:
        """Resume the level before if nights are back before the new level has enough points.

        Until then no night departs from the new level, and both would be one level.
        """
        config = self.config
        index = night + 1 - config.sustained_points
        if not config.sustained_points <= index - last.index < config.min_baseline_points:
            return
        change = float(np.median(self.values[last.index : index])) - last.level
        distances = np.abs(self.values[index : night + 1] - last.level)
        if bool((distances < min(1.0, config.recovery_share * abs(change))).all()):
            self._return(last, index, night)

    def _return(self, last: _RecentStep, index: int, night: int) -> None:
        self.recent_step = None
        self.change_points.append(ChangePoint(index=index, is_return=True))
        self.factor = 1 + self.config.extra_after_return
        self._resume(last, index, night)

    def _departs(self, excursion: CusumState, night: int, value: float) -> bool:
        config = self.config
        is_open = excursion.total > 0.0
        if not is_open and (
            len(self.points) < self._min_level_points()
            or len(self.past) + len(self.points) < config.min_noise_points
        ):
            return False
        level = self.levels[excursion.first if is_open else night]
        is_beyond = excursion.add(night, value - level)
        num_nights = night + 1 - excursion.first
        is_long = num_nights >= config.sustained_points
        if is_beyond and excursion.total > config.min_excursion_sum and is_long:
            index = self._first_of_step(excursion, night)
            if index is not None:
                self._begin(index, night, sign=excursion.sign)
                return True
        if excursion.total > 0.0 and num_nights > config.max_excursion_points:
            self._restart(excursion.first, night)
            self.change_points.append(ChangePoint(index=excursion.first, is_step=False))
            self.recent_step = None
            return True
        return False

    def _min_level_points(self) -> int:
        """Return the number of points without which nothing departs from the level.

        After a step the noise is that of the level before, so a young level needs no more points
        than a step does.
        """
        config = self.config
        is_after_step = self.recent_step is not None
        return config.min_points_after_step if is_after_step else config.min_baseline_points

    def _first_of_step(self, excursion: CusumState, night: int) -> int | None:
        """Return the first night of the step in `excursion`, None if there is none."""
        first, sign = excursion.first, excursion.sign
        if excursion.scales is None:
            excursion.scales = self._scales(first, sign=sign)
        distances = self._distances(first, night, sign=sign)
        threshold = self._threshold(first)
        evidence = excursion.scales.weigh(distances, min_nights=self.config.sustained_points)
        if not threshold.is_step(evidence):
            return None
        best, likeliest = self._best_index(first, night), first + evidence.offset
        if self._is_drift(best, night):
            return None
        if best == likeliest:
            return likeliest
        distances = self._distances(best, night, sign=sign)
        evidence = self._scales(best, sign=sign).weigh(distances, min_nights=distances.size)
        is_confirmed = threshold.is_exceeded(evidence, share=self.config.remaining_evidence_share)
        return likeliest if is_confirmed else None

    def _threshold(self, first: int) -> EvidenceThreshold:
        num_level = min(self.config.level_points, self._num_points(first))
        return EvidenceThreshold(
            num_noise=self._num_past(first) + num_level,
            num_level=num_level,
            factor=self.factor,
            config=self.config,
        )

    def _distances(self, first: int, night: int, *, sign: int) -> np.ndarray:
        return sign * (self.values[first : night + 1] - self.levels[first])

    def _scales(self, first: int, *, sign: int) -> Scales:
        """Return the densities for the nights from `first` on, from the noise before."""
        config = self.config
        now = self._distances_before(first)
        stop = self._num_past(first)
        past = self.past[max(0, stop + len(now) - config.noise_points) : stop]
        excess = 1 / len(now) - 1 / config.level_points
        return Scales(
            sign * np.array(past + now),
            level_error=MEDIAN_INEFFICIENCY**2 * excess,
            config=config,
        )

    def _distances_before(self, first: int) -> list[float]:
        """Return the distances of the level's points from it, before the night `first`."""
        level = self.levels[first]
        return [value - level for value in self._points_before(first)]

    def _points_before(self, night: int) -> list[float]:
        stop = self._num_points(night)
        return self.points[max(0, stop - self.config.level_points) : stop]

    def _best_index(self, first: int, night: int) -> int:
        """Return the night from which on a second median fits best, in absolute distances."""
        config = self.config
        # A level that came back has points enough before its first week is over.
        earliest = self.start + config.min_baseline_points
        low = min(first, max(earliest, first - config.look_back_points))
        begin = max(self.start, low - config.level_points)
        points = self.values[begin : night + 1].tolist()
        high = night + 1 - config.sustained_points - begin
        return begin + best_median_split(points, low=low - begin, high=high)

    def _is_drift(self, index: int, night: int) -> bool:
        """Return whether one line fits better than two medians, in absolute distances."""
        begin = max(self.start, index - self.config.level_points)
        return is_line_better(self.values[begin : night + 1], split=index - begin)

    def _begin(self, index: int, night: int, *, sign: int) -> None:
        old, last = self.levels[index], self.recent_step
        new = float(np.median(self.values[index : night + 1]))
        self.recent_step = None
        if last is not None and self._is_return(last, index=index, old=old, new=new, sign=sign):
            self._return(last, index, night)
            return
        self.change_points.append(ChangePoint(index=index))
        points, num_past = self._points_before(index), self._num_past(index)
        self.recent_step = _RecentStep(index, old, sign, points, num_past)
        self._restart(index, night)

    def _is_return(
        self, last: _RecentStep, *, index: int, old: float, new: float, sign: int
    ) -> bool:
        is_soon = sign == -last.sign and index - last.index <= self.config.return_points
        is_near = abs(new - last.level) < self.config.return_share * abs(old - last.level)
        return is_soon and is_near

    def _restart(self, index: int, night: int) -> None:
        """Begin a new level at `index`: the points of the level before are noise of the past."""
        self.past = self.past[: self._num_past(index)] + self._distances_before(index)
        self._begin_level(index, night, points=[])

    def _resume(self, last: _RecentStep, index: int, night: int) -> None:
        """Resume the level before `last`: the nights between were noise."""
        between = self.values[last.index : index] - last.level
        self.past = self.past[: last.num_past] + between.tolist()
        self._begin_level(index, night, points=last.points)

    def _begin_level(self, index: int, night: int, *, points: list[float]) -> None:
        self.start = index
        self.points = list(points)
        self.ordered = sorted(points)
        self.excursions = (CusumState(1, self.config), CusumState(-1, self.config))
        self.num_points_at_start, self.num_past_at_start = len(points), len(self.past)
        del self.levels[index:]
        for value in self.values[index : night + 1].tolist():
            self._append(value, self._record(value))

    def _num_points(self, night: int) -> int:
        """Return the number of points of the level before `night`: each night adds one."""
        return self.num_points_at_start + night - self.start

    def _num_past(self, night: int) -> int:
        """Return the number of past distances before `night`."""
        num_left = max(0, self._num_points(night) - self.config.level_points)
        return self.num_past_at_start + num_left

    def _record(self, value: float) -> float:
        """Record and return the level before the night of `value`."""
        level = sorted_median(self.ordered) if self.ordered else value
        self.levels.append(level)
        return level

    def _append(self, value: float, level: float) -> None:
        self.points.append(value)
        insort(self.ordered, value)
        num = self.config.level_points
        if len(self.ordered) > num:
            oldest = self.points[-num - 1]
            self.past.append(oldest - level)
            del self.ordered[bisect_left(self.ordered, oldest)]


class _LastDetector(threading.local):
    """The detector of the history that this thread passed in last."""

    detector: SequentialDetector | None = None


_last = _LastDetector()


def find_change_points(
    values: np.ndarray, *, config: DetectorConfig = DEFAULT_CONFIG
) -> list[ChangePoint]:
    """Return the first point of every level but the first in `values`, oldest first.

    `values` are logarithms in units of the floor. If they begin with the last history of this
    thread, its state is extended.
    """
    detector = _last.detector
    if detector is None or detector.config is not config or not detector.is_prefix_of(values):
        detector = _last.detector = SequentialDetector(config)
    detector.extend(values)
    return list(detector.change_points)


class QuietNights:
    """The nights of `values` near their level, the median of `level_points` nights before."""

    def __init__(self, values: np.ndarray, *, config: DetectorConfig = DEFAULT_CONFIG) -> None:
        self._num = config.level_points
        self._levels = sliding_medians(values[:-1], self._num)
        distances = np.abs(values[self._num :] - self._levels)
        self._far = (np.flatnonzero(distances > config.allowance) + self._num).tolist()
        self._far.append(values.size)

    def end(self, night: int) -> int:
        """Return the first night from `night` on that is far from its level, or past the last."""
        return self._far[bisect_left(self._far, night)]

    def levels(self, first: int, end: int) -> np.ndarray:
        """Return the level of each night from `first` up to `end`, which is excluded."""
        return self._levels[first - self._num : end - self._num]


def best_median_split(points: list[float], *, low: int, high: int) -> int:
    """Return the index in `points`, `low` to `high`, from which on a second median fits best.

    The last of equal ones counts: the fewer nights are slow, the better.
    """
    before = _misfits(points[:high], num_first=low)
    after = _misfits(points[: low - 1 : -1], num_first=len(points) - high)[::-1]
    both = [old + new for old, new in zip(before, after, strict=True)]
    min_misfit = min(both) + ROUNDING
    return max(low + index for index, misfit in enumerate(both) if misfit <= min_misfit)


def is_line_better(points: np.ndarray, *, split: int) -> bool:
    """Return whether one line fits better than the medians before and from `split` on."""
    nights = np.arange(points.size) - (points.size - 1) / 2
    slope = float(nights @ points) / float(nights @ nights)
    old, new = points[:split].tolist(), points[split:].tolist()
    line = sorted((points - slope * nights).tolist())
    return _misfit(line) < _misfit(sorted(old)) + _misfit(sorted(new))


def _misfits(points: list[float], *, num_first: int) -> list[float]:
    """Return the sums of distances from the median of the first `num_first` points, and of more."""
    ordered = sorted(points[:num_first])
    misfits = [_misfit(ordered)]
    for point in points[num_first:]:
        insort(ordered, point)
        misfits.append(_misfit(ordered))
    return misfits


def _misfit(ordered: list[float]) -> float:
    half = len(ordered) // 2
    return sum(ordered[-half:]) - sum(ordered[:half])

"""Follow a history night by night and find the nights on which its level changes.

Method: a sequential test in two stages. A cumulative sum (Page, Biometrika, 1954) of each night's
excess over half the floor detects an **excursion**; the level is frozen during it. evidence.py
weighs every night of an excursion of three nights or more. A new level begins if
- the evidence for a step exceeds the threshold, which is higher where few nights describe the noise
  or the level, where the noise has modes, and after a level that came back; and
- it exceeds each alternative hypothesis by that hypothesis's lead; and
- nine tenths of the threshold are exceeded from the night on at which two medians fit best; and
- no line fits better than those medians: that would be a drift.
The fits minimise the sum of absolute distances, which outliers influence little.
The new level begins on the most likely night.
An excursion of more than 20 nights without these is a change too small to report: a new level, but
no step. The noise consists of the distances of the level's points, those of ended excursions
included, and of the distances of earlier points from their own levels, including those of a level
that came back.
A repeated call with more nights costs only the new nights: the state after each night depends only
on the nights so far, and each thread keeps the state of its last history. Stretches of nights near
their levels are taken in at once: there the level is a sliding median, which numpy computes fast.
Assumptions: those of detector.py. Values are logarithms in units of the floor.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.detection.constants import (
    BACK_SHARE,
    LEVEL_POINTS,
    MEDIAN_INEFFICIENCY,
    MIN_BASELINE_POINTS,
    SUSTAINED_POINTS,
    middle,
)
from compile_hud.runner.analysis.detection.evidence import Demand, Scales
from compile_hud.runner.analysis.stats.estimates import sliding_medians

# Fewer points say nothing of the noise.
MIN_NOISE_POINTS = 8
NOISE_POINTS = 60
# A night counts for what it lies beyond half the floor, up to 4 floors.
ALLOWANCE = 0.5
MAX_INCREMENT = 4.0
# A sum that a step of the floor reaches in two nights and noise seldom does.
NOTICED = 1.0
MAX_EXCURSION = 20
# The share of what is needed that must be left at the place that fits best.
LEFT_EVIDENCE = 0.9
# A level that lasts for two weeks and goes back is part of what the series does.
RETURN_POINTS = 14
RETURN_SHARE = 0.25
MORE_AFTER_RETURN = 1.0
# How far before an excursion its change may lie.
LOOK_BACK = 20
# Fewer nights near their levels are as soon taken in one by one, and to look for them takes as long
# as to take in so many, which must be more than LEVEL_POINTS.
MIN_NEAR = 10
MIN_TO_LOOK = 80
# Sums of absolute distances that differ by less are equal.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """The first point of a new level; `is_step` unless the change is too small to report.

    `is_return` where the level before it lasted for two weeks at most and this is the one before.
    """

    index: int
    is_step: bool = True
    is_return: bool = False


@dataclass(slots=True)
class _Excursion:
    """A cumulative sum of what nights lie beyond the allowance, on one side of the level."""

    sign: int
    total: float = 0.0
    first: int = -1
    scales: Scales | None = None

    def add(self, night: int, distance: float) -> bool:
        """Add a night at `distance` from the level; return whether it added to the sum."""
        beyond = self.sign * distance - ALLOWANCE
        if self.total <= 0.0:
            self.first, self.scales = night, None
        self.total = max(0.0, self.total + max(-MAX_INCREMENT, min(MAX_INCREMENT, beyond)))
        return beyond > 0.0


@dataclass(frozen=True, slots=True)
class _Departure:
    """A step that may turn out to be a short one: where it was, and what was before."""

    index: int
    level: float
    sign: int
    points: list[float]
    num_past: int


class Follower:
    """What is known after the nights so far."""

    def __init__(self) -> None:
        # Those of nights to come may be among them already.
        self.values = np.empty(0)
        self.onsets: list[Onset] = []
        self.start = 0
        # The points of the level, oldest first, and the last of them in order of size.
        self.points: list[float] = []
        self.ordered: list[float] = []
        # Distances of points from levels that they are not counted to any more.
        self.past: list[float] = []
        # How many of both there were when the level began.
        self.num_points_at_start = 0
        self.num_past_at_start = 0
        # As it was before each night.
        self.levels: list[float] = []
        self.excursions = (_Excursion(1), _Excursion(-1))
        self.departure: _Departure | None = None
        self.factor = 1.0

    def is_begin_of(self, values: np.ndarray) -> bool:
        """Return whether `values` begin with those that were followed, all of which were seen."""
        return np.array_equal(self.values, values[: len(self.levels)])

    def follow(self, values: np.ndarray) -> None:
        """Take in those of `values` that were not seen yet, which must begin with the others."""
        # Whoever asks may write to theirs afterwards.
        self.values = values.copy()
        num_new = values.size - len(self.levels)
        near = NearNights(values, allowance=ALLOWANCE) if num_new >= MIN_TO_LOOK else None
        numbers = values.tolist()
        while (night := len(self.levels)) < values.size:
            if near is not None and self._is_settled(night):
                end = near.end(night)
                if end - night >= MIN_NEAR:
                    self._see_near(night, near.levels(night, end))
                    continue
            self.see(night, numbers[night])

    def see(self, night: int, value: float) -> None:
        """Take in the value of one more night."""
        level = self._record(value)
        distance = value - level
        up, down = self.excursions
        # Most nights are near a level that nothing departs from.
        if (up.total > 0.0 or distance > ALLOWANCE) and self._departs(up, night, value):
            return
        if (down.total > 0.0 or distance < -ALLOWANCE) and self._departs(down, night, value):
            return
        self._keep(value, level)
        if self.departure is not None:
            self._end_soon(self.departure, night)

    def _is_settled(self, night: int) -> bool:
        """Return whether nothing departs from the level, which nights in a row before `night` tell.

        By then a level that a step began no longer comes back as `_end_soon` would have it.
        """
        up, down = self.excursions
        return night - self.start >= LEVEL_POINTS and up.total <= 0.0 and down.total <= 0.0

    def _see_near(self, night: int, levels: np.ndarray) -> None:
        """Take in as many nights from `night` on as there are `levels`, all of them near those."""
        end = night + levels.size
        self.levels += levels.tolist()
        self.points += self.values[night:end].tolist()
        self.past += (self.values[night - LEVEL_POINTS : end - LEVEL_POINTS] - levels).tolist()
        self.ordered = sorted(self.points[-LEVEL_POINTS:])

    def _end_soon(self, last: _Departure, night: int) -> None:
        """Go on with the level before, where nights are back before the new one has points enough.

        Until then no night departs from it, and what came and went would be one level.
        """
        index = night + 1 - SUSTAINED_POINTS
        if not SUSTAINED_POINTS <= index - last.index < MIN_BASELINE_POINTS:
            return
        away = float(np.median(self.values[last.index : index])) - last.level
        back = np.abs(self.values[index : night + 1] - last.level)
        if bool((back < min(1.0, BACK_SHARE * abs(away))).all()):
            self._return(last, index, night)

    def _return(self, last: _Departure, index: int, night: int) -> None:
        self.departure = None
        self.onsets.append(Onset(index=index, is_return=True))
        self.factor = 1 + MORE_AFTER_RETURN
        self._resume(last, index, night)

    def _departs(self, excursion: _Excursion, night: int, value: float) -> bool:
        is_open = excursion.total > 0.0
        if not is_open and (
            len(self.points) < MIN_BASELINE_POINTS
            or len(self.past) + len(self.points) < MIN_NOISE_POINTS
        ):
            return False
        level = self.levels[excursion.first if is_open else night]
        is_beyond = excursion.add(night, value - level)
        num_nights = night + 1 - excursion.first
        if is_beyond and excursion.total > NOTICED and num_nights >= SUSTAINED_POINTS:
            index = self._first_of_step(excursion, night)
            if index is not None:
                self._begin(index, night, sign=excursion.sign)
                return True
        if excursion.total > 0.0 and num_nights > MAX_EXCURSION:
            self._restart(excursion.first, night)
            self.onsets.append(Onset(index=excursion.first, is_step=False))
            self.departure = None
            return True
        return False

    def _first_of_step(self, excursion: _Excursion, night: int) -> int | None:
        """Return the first night of the step that `excursion` is, None when it is none."""
        first, sign = excursion.first, excursion.sign
        if excursion.scales is None:
            excursion.scales = self._scales(first, sign=sign)
        distances = self._distances(first, night, sign=sign)
        demand = self._demand(first)
        found = excursion.scales.weigh(distances, min_nights=SUSTAINED_POINTS)
        if not demand.is_step(found):
            return None
        place, likeliest = self._best_place(first, night), first + found.offset
        if self._is_drift(place, night):
            return None
        if place == likeliest:
            return likeliest
        distances = self._distances(place, night, sign=sign)
        found = self._scales(place, sign=sign).weigh(distances, min_nights=distances.size)
        return likeliest if demand.is_met(found, share=LEFT_EVIDENCE) else None

    def _demand(self, first: int) -> Demand:
        num_level = min(LEVEL_POINTS, self._num_points(first))
        num_noise = self._num_past(first) + num_level
        return Demand(factor=self.factor, num_noise=num_noise, num_level=num_level)

    def _distances(self, first: int, night: int, *, sign: int) -> np.ndarray:
        return sign * (self.values[first : night + 1] - self.levels[first])

    def _scales(self, first: int, *, sign: int) -> Scales:
        """Return what weighs the nights from `first` on against what was noise before."""
        now = self._distances_before(first)
        stop = self._num_past(first)
        past = self.past[max(0, stop + len(now) - NOISE_POINTS) : stop]
        more = 1 / len(now) - 1 / LEVEL_POINTS
        return Scales(sign * np.array(past + now), level_error=MEDIAN_INEFFICIENCY**2 * more)

    def _distances_before(self, first: int) -> list[float]:
        """Return how far the points of the level lay from it before the night `first`."""
        stop = self._num_points(first)
        level = self.levels[first]
        return [value - level for value in self.points[max(0, stop - LEVEL_POINTS) : stop]]

    def _best_place(self, first: int, night: int) -> int:
        """Return the night from which on a second median fits best, in absolute distances."""
        # A level that came back has points enough before its first week is over.
        low = min(first, max(self.start + MIN_BASELINE_POINTS, first - LOOK_BACK))
        begin = max(self.start, low - LEVEL_POINTS)
        points = self.values[begin : night + 1].tolist()
        high = night + 1 - SUSTAINED_POINTS - begin
        return begin + best_split(points, low=low - begin, high=high)

    def _is_drift(self, place: int, night: int) -> bool:
        """Return whether one line fits better than two medians, in absolute distances."""
        begin = max(self.start, place - LEVEL_POINTS)
        return fits_line(self.values[begin : night + 1], place=place - begin)

    def _begin(self, index: int, night: int, *, sign: int) -> None:
        old, last = self.levels[index], self.departure
        new = float(np.median(self.values[index : night + 1]))
        self.departure = None
        if last is not None and _is_return(last, index=index, old=old, new=new, sign=sign):
            self._return(last, index, night)
            return
        self.onsets.append(Onset(index=index))
        stop = self._num_points(index)
        points = self.points[max(0, stop - LEVEL_POINTS) : stop]
        self.departure = _Departure(index, old, sign, points, self._num_past(index))
        self._restart(index, night)

    def _restart(self, index: int, night: int) -> None:
        """Begin a new level at `index`: the points of the level before are noise of the past."""
        self.past = self.past[: self._num_past(index)] + self._distances_before(index)
        self._begin_level(index, night, points=[])

    def _resume(self, last: _Departure, index: int, night: int) -> None:
        """Go on with the level before `last`: what lay between was noise."""
        between = self.values[last.index : index] - last.level
        self.past = self.past[: last.num_past] + between.tolist()
        self._begin_level(index, night, points=last.points)

    def _begin_level(self, index: int, night: int, *, points: list[float]) -> None:
        self.start = index
        self.points = list(points)
        self.ordered = sorted(points)
        self.excursions = (_Excursion(1), _Excursion(-1))
        self.num_points_at_start, self.num_past_at_start = len(points), len(self.past)
        del self.levels[index:]
        for value in self.values[index : night + 1].tolist():
            self._keep(value, self._record(value))

    def _num_points(self, night: int) -> int:
        """Return how many points the level had before `night`: each night adds one."""
        return self.num_points_at_start + night - self.start

    def _num_past(self, night: int) -> int:
        """Return how many distances of the past there were before `night`."""
        return self.num_past_at_start + max(0, self._num_points(night) - LEVEL_POINTS)

    def _record(self, value: float) -> float:
        """Note what is known before the night of `value`; return the level."""
        level = middle(self.ordered) if self.ordered else value
        self.levels.append(level)
        return level

    def _keep(self, value: float, level: float) -> None:
        self.points.append(value)
        insort(self.ordered, value)
        if len(self.ordered) > LEVEL_POINTS:
            oldest = self.points[-LEVEL_POINTS - 1]
            self.past.append(oldest - level)
            del self.ordered[bisect_left(self.ordered, oldest)]


class _Last(threading.local):
    """Who followed the history that this thread asked about last."""

    follower: Follower | None = None


_last = _Last()


def find_onsets(values: np.ndarray) -> list[Onset]:
    """Return the first point of every level but the first in `values`, oldest first.

    `values` are logarithms in units of the floor. What begins with the history that this thread
    asked about last is followed on from there.
    """
    follower = _last.follower
    if follower is None or not follower.is_begin_of(values):
        follower = _last.follower = Follower()
    follower.follow(values)
    return list(follower.onsets)


def _is_return(last: _Departure, *, index: int, old: float, new: float, sign: int) -> bool:
    is_soon = sign == -last.sign and index - last.index <= RETURN_POINTS
    return is_soon and abs(new - last.level) < RETURN_SHARE * abs(old - last.level)


def best_split(points: list[float], *, low: int, high: int) -> int:
    """Return from which of `points` on, `low` to `high`, a second median fits best.

    Measured by the sum of absolute distances from both medians. The last of equals counts: the
    fewer nights are slow, the better.
    """
    before = _misfits(points[:high], num_first=low)
    after = _misfits(points[: low - 1 : -1], num_first=len(points) - high)[::-1]
    both = [old + new for old, new in zip(before, after, strict=True)]
    least = min(both) + ROUNDING
    return max(low + place for place, misfit in enumerate(both) if misfit <= least)


def fits_line(points: np.ndarray, *, place: int) -> bool:
    """Return whether one line fits better than the medians before and from `place` on."""
    nights = np.arange(points.size) - (points.size - 1) / 2
    slope = float(nights @ points) / float(nights @ nights)
    old, new = points[:place].tolist(), points[place:].tolist()
    line = sorted((points - slope * nights).tolist())
    return _misfit(line) < _misfit(sorted(old)) + _misfit(sorted(new))


def _misfits(points: list[float], *, num_first: int) -> list[float]:
    """Return how far the first of `points` lie from their median in all, for more of them each."""
    ordered = sorted(points[:num_first])
    misfits = [_misfit(ordered)]
    for point in points[num_first:]:
        insort(ordered, point)
        misfits.append(_misfit(ordered))
    return misfits


def _misfit(ordered: list[float]) -> float:
    half = len(ordered) // 2
    return sum(ordered[-half:]) - sum(ordered[:half])


class NearNights:
    """What is known of the nights of `values` that have LEVEL_POINTS before them."""

    def __init__(self, values: np.ndarray, *, allowance: float) -> None:
        """Find those that lie farther from their level than `allowance`."""
        self._levels = sliding_medians(values[:-1], LEVEL_POINTS)
        distances = np.abs(values[LEVEL_POINTS:] - self._levels)
        self._far = (np.flatnonzero(distances > allowance) + LEVEL_POINTS).tolist()
        self._far.append(values.size)

    def end(self, night: int) -> int:
        """Return the first night from `night` on that is far from its level, or past the last."""
        return self._far[bisect_left(self._far, night)]

    def levels(self, first: int, end: int) -> np.ndarray:
        """Return the level of each night from `first` up to `end`, which is left out."""
        return self._levels[first - LEVEL_POINTS : end - LEVEL_POINTS]

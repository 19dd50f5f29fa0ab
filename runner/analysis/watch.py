"""Follow a history night by night and say where its level changes.

Method: a sequential test in two stages. A cumulative sum (Page, Biometrika, 1954) of what each
night lies beyond half the floor notices an **excursion**; the level is frozen meanwhile. On every
night of an excursion of three nights or more, evidence.py weighs it. A new level begins when
- a step is likelier than no change by 12 (natural logarithm): more while few nights tell the noise
  and after a level that came back, less when a step hardly stands out but lasts; and
- 2 likelier than its rivals; and
- both still hold for the night at which two medians fit best, give or take a tenth.
An excursion of more than 20 nights without that is a change too small to report: a new level, but
no step. Distances from former levels stay known as noise, those of an excursion that ended and of
a level that came back too.
Assumptions: those of detector.py. Values are logarithms in units of the floor.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from runner.analysis.evidence import Evidence, weigh
from runner.analysis.history import MIN_BASELINE_POINTS, SUSTAINED_POINTS, middle

# Points whose median is the level: more would lag behind a drift, fewer err more.
LEVEL_POINTS = 42
# With fewer points of the level, a distance from it says little of the noise.
MIN_DISTANCE_POINTS = 4
# Fewer say nothing of it at all.
MIN_DISTANCES = 4
NOISE_POINTS = 60
# A night counts for what it lies beyond half the floor, up to 4 floors.
ALLOWANCE = 0.5
MAX_INCREMENT = 4.0
# A sum that a step of the floor reaches in two nights and noise seldom does.
NOTICED = 1.0
MAX_EXCURSION = 20
NEEDED_EVIDENCE = 12.0
NEEDED_ADVANTAGE = 2.0
# The share of both that must be left at the place that fits best.
LEFT_EVIDENCE = 0.9
# A second mode stands out from the noise and comes back soon. What lies within 1.7 sd and lasts for
# more than three nights needs less for each of them, for five at most.
LOW_CONTRAST = 1.7
LESS_A_NIGHT = 1.0
MAX_NIGHTS_LESS = 5
LITTLE_NOISE = 30
MORE_FOR_LITTLE_NOISE = 0.15
# A level that lasts for two weeks and goes back is part of what the series does.
RETURN_POINTS = 14
RETURN_SHARE = 0.25
MORE_AFTER_RETURN = 0.6
# How far before an excursion its change may lie.
LOOK_BACK = 20
# Variance of a median of n normal values: pi / 2 times that of a mean.
_MEDIAN_VARIANCE = np.pi / 2


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

    def add(self, night: int, distance: float) -> bool:
        """Add a night at `distance` from the level; return whether it added to the sum."""
        beyond = self.sign * distance - ALLOWANCE
        if self.total <= 0.0:
            self.first = night
        self.total = max(0.0, self.total + max(-MAX_INCREMENT, min(MAX_INCREMENT, beyond)))
        return beyond > 0.0


@dataclass(frozen=True, slots=True)
class _Departure:
    """A step that may turn out to be a short one: where it was, and what was before."""

    index: int
    level: float
    sign: int
    num_noise: int
    start: int


class _Watch:
    """What is known after the nights so far."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.onsets: list[Onset] = []
        self.start = 0
        # The points of the level, oldest first and in order of size.
        self.recent: list[float] = []
        self.ordered: list[float] = []
        self.noise: list[float] = []
        # As they were before each night: the level, and how many points and distances told it.
        self.levels: list[float] = []
        self.num_recent: list[int] = []
        self.num_noise: list[int] = []
        self.excursions = (_Excursion(1), _Excursion(-1))
        self.departure: _Departure | None = None
        self.needed = NEEDED_EVIDENCE

    def see(self, night: int, value: float) -> None:
        """Take in the value of one more night."""
        level = middle(self.ordered) if self.ordered else value
        self.levels.append(level)
        self.num_recent.append(len(self.recent))
        self.num_noise.append(len(self.noise))
        for excursion in self.excursions:
            is_near = excursion.sign * (value - level) <= ALLOWANCE
            # Most nights are near a level that nothing departs from.
            if (excursion.total > 0.0 or not is_near) and self._departs(excursion, night, value):
                return
        self._keep(value, level)

    def _departs(self, excursion: _Excursion, night: int, value: float) -> bool:
        is_open = excursion.total > 0.0
        if not is_open and (
            len(self.recent) < MIN_BASELINE_POINTS or len(self.noise) < MIN_DISTANCES
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
        first = excursion.first
        needed = self._needed(first)
        found = self._weigh(first, night, sign=excursion.sign, num_last=SUSTAINED_POINTS)
        if not _is_enough(found, needed, num_nights=night + 1 - first - found.offset):
            return None
        place = self._best_place(first, night)
        if place == first + found.offset:
            return place
        num_nights = night + 1 - place
        found = self._weigh(place, night, sign=excursion.sign, num_last=num_nights)
        is_left = _is_enough(found, LEFT_EVIDENCE * needed, num_nights=num_nights)
        return place if is_left else None

    def _needed(self, first: int) -> float:
        missing = max(0.0, 1 - self.num_noise[first] / LITTLE_NOISE)
        return self.needed + NEEDED_EVIDENCE * MORE_FOR_LITTLE_NOISE * missing

    def _weigh(self, first: int, night: int, *, sign: int, num_last: int) -> Evidence:
        num_noise = self.num_noise[first]
        noise = np.array(self.noise[max(0, num_noise - NOISE_POINTS) : num_noise])
        more = 1 / self.num_recent[first] - 1 / LEVEL_POINTS
        return weigh(
            sign * (self.values[first : night + 1] - self.levels[first]),
            noise=sign * noise,
            level_error=_MEDIAN_VARIANCE * max(0.0, more),
            min_nights=num_last,
        )

    def _best_place(self, first: int, night: int) -> int:
        """Return the night from which on a second median fits best, in absolute distances."""
        low = max(self.start + MIN_BASELINE_POINTS, first - LOOK_BACK)
        begin = max(self.start, low - LEVEL_POINTS)
        places = range(low, night + 2 - SUSTAINED_POINTS)
        points = self.values[begin : night + 1]
        misfits = [
            _misfit(points[: place - begin]) + _misfit(points[place - begin :]) for place in places
        ]
        # The last of equals: the fewer nights are slow, the better.
        return places[len(misfits) - 1 - int(np.argmin(misfits[::-1]))]

    def _begin(self, index: int, night: int, *, sign: int) -> None:
        old, last = self.levels[index], self.departure
        new = float(np.median(self.values[index : night + 1]))
        self.departure = None
        if last is not None and _is_return(last, index=index, old=old, new=new, sign=sign):
            self.onsets.append(Onset(index=index, is_return=True))
            self.needed = NEEDED_EVIDENCE * (1 + MORE_AFTER_RETURN)
            self._resume(last, index, night)
            return
        self.onsets.append(Onset(index=index))
        self.departure = _Departure(index, old, sign, self.num_noise[index], self.start)
        self._restart(index, night)

    def _restart(self, index: int, night: int) -> None:
        """Forget the level before `index`, but not its noise."""
        new = self.values[index : night + 1]
        del self.noise[self.num_noise[index] :]
        if new.size >= MIN_BASELINE_POINTS:
            self.noise += (new - np.median(new)).tolist()
        self._set_level(new.tolist(), start=index)

    def _resume(self, last: _Departure, index: int, night: int) -> None:
        """Go on with the level before `last`: what lay between was noise."""
        del self.noise[last.num_noise :]
        self.noise += (self.values[last.index : night + 1] - last.level).tolist()
        before = self.values[max(last.start, last.index - LEVEL_POINTS) : last.index]
        self._set_level([*before.tolist(), *self.values[index : night + 1].tolist()], start=index)

    def _set_level(self, points: list[float], *, start: int) -> None:
        self.start = start
        self.recent = points[-LEVEL_POINTS:]
        self.ordered = sorted(self.recent)
        self.excursions = (_Excursion(1), _Excursion(-1))

    def _keep(self, value: float, level: float) -> None:
        if len(self.recent) >= MIN_DISTANCE_POINTS:
            self.noise.append(value - level)
        self.recent.append(value)
        insort(self.ordered, value)
        if len(self.recent) > LEVEL_POINTS:
            del self.ordered[bisect_left(self.ordered, self.recent.pop(0))]


def find_onsets(values: np.ndarray) -> list[Onset]:
    """Return the first point of every level but the first in `values`, oldest first.

    `values` are logarithms in units of the floor.
    """
    watch = _Watch(values)
    for night, value in enumerate(values.tolist()):
        watch.see(night, value)
    return watch.onsets


def _is_enough(found: Evidence, needed: float, *, num_nights: int) -> bool:
    if found.contrast < LOW_CONTRAST:
        needed -= LESS_A_NIGHT * min(MAX_NIGHTS_LESS, num_nights - SUSTAINED_POINTS)
    return found.step > needed and found.step - found.rival > NEEDED_ADVANTAGE


def _is_return(last: _Departure, *, index: int, old: float, new: float, sign: int) -> bool:
    is_soon = sign == -last.sign and index - last.index <= RETURN_POINTS
    return is_soon and abs(new - last.level) < RETURN_SHARE * abs(old - last.level)


def _misfit(points: np.ndarray) -> float:
    return float(np.abs(points - middle(np.sort(points).tolist())).sum())

"""A step in a series for the judge: in costs, of which less is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from compile_hud.db.records.point_columns import PointColumns
from compile_hud.db.records.summaries import Point, SeriesHeader
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A series on one machine in one toolchain, oldest point first."""

    header: SeriesHeader
    machine: str
    toolchain: str
    points: PointColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A change of level at `new.start`; costs are the values, inverted where higher is better.

    `old` and `new` are the ranges whose medians are `before` and `after`. `interval` is that of the
    relative change of the cost, None without one. With `ideal`, a cost is the distance from it.
    `sign` is 1 or -1 where values may be 0 or below, and the factor from costs to them. There is no
    relative change then without an `interval`, and `least` is the least relevant absolute one.
    """

    points: Sequence[Point]
    costs: tuple[float, ...]
    old: range
    new: range
    before: float
    after: float
    interval: tuple[float, float] | None
    floor: float
    num_points_to_return: int
    is_inverted: bool
    ideal: float | None = None
    sign: int = 0
    least: float = 0.0

    @property
    def is_regression(self) -> bool:
        """Return whether the cost went up."""
        return self.after > self.before

    @property
    def cost_change(self) -> float | None:
        """Return the relative change of the cost, None from 0."""
        return None if self.sign else relative(self.after, to=self.before)

    @property
    def change(self) -> float | None:
        """Return the relative change of the metric itself, None from 0 and below, or to below."""
        if self.sign and self.interval is None:
            return None
        return relative(self.shown(self.after), to=self.shown(self.before))

    @property
    def interval_pct(self) -> tuple[float, float] | None:
        """Return the interval of the metric's own change in percent, low end first."""
        if self.interval is None:
            return None
        low, high = self.interval
        if self.ideal is not None:
            best = self.shown(self.before)
            changes = [self.shown(self.before * (1 + end)) / best - 1 for end in (low, high)]
            low, high = min(changes), max(changes)
        elif self.is_inverted:
            low, high = 1 / (1 + high) - 1, 1 / (1 + low) - 1
        return 100 * low, 100 * high

    @property
    def is_significant(self) -> bool:
        """Return whether the interval leaves out no change; a count's change always does."""
        return self.interval is None or not self.interval[0] <= 0 <= self.interval[1]

    @property
    def is_relevant(self) -> bool:
        """Return whether the change reaches the metric's floor."""
        change = self.change if self.ideal is None else self.cost_change
        return change is None or abs(change) >= self.floor

    @property
    def limit(self) -> float:
        """Return the cost that separates the old level from the new one."""
        change = self.after - self.before
        least = max(self.floor * abs(self.before), self.least)
        margin = min(least, DEFAULT_CONFIG.recovery_share * abs(change))
        return self.before + math.copysign(margin, change)

    def shown(self, cost: float) -> float:
        """Return `cost` as a value of the metric."""
        if self.ideal is not None:
            return self.ideal - cost
        if self.sign:
            # Adding 0.0 turns a minus zero into a zero.
            return self.sign * cost + 0.0
        return 1 / cost if self.is_inverted else abs(cost)

    def is_back(self, cost: float) -> bool:
        """Return whether `cost` is as good as before a regression, or as bad as before a gain."""
        return cost <= self.limit if self.is_regression else cost >= self.limit

    def is_end_of(self, earlier: Shift) -> bool:
        """Return whether this is the return from `earlier`, a regression, to its old level."""
        if self.is_regression or earlier.is_back(self.before):
            return False
        return earlier.is_back(self.after) and self.after >= 2 * earlier.before - earlier.limit

    def return_index(self) -> int | None:
        """Return the index from which the costs are back for long enough, None if they never are.

        A level that the costs approach slowly begins before they reach it. That is no return.
        """
        reached = self._first_stay(self.new.start, end=self.new.stop, is_back=False)
        return self._first_stay(self.new.start if reached is None else reached, is_back=True)

    def relapse_index(self, returned: int) -> int | None:
        """Return the index after `returned` from which the costs are away again, None if never."""
        return self._first_stay(returned, is_back=False)

    def _first_stay(self, start: int, *, end: int | None = None, is_back: bool) -> int | None:
        num_points = 0
        for index in range(start, len(self.costs) if end is None else end):
            num_points = num_points + 1 if self.is_back(self.costs[index]) is is_back else 0
            if num_points == self.num_points_to_return:
                return index - num_points + 1
        return None


def relative(value: float, *, to: float) -> float | None:
    """Return value / to - 1, None when `to` is 0."""
    return value / to - 1 if to else None

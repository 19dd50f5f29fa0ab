"""The points of a series in columns: ten thousand histories are read and judged in seconds.

A point becomes a record only when it is read. Making three and a half million records would take
longer than everything else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, overload

import numpy as np

from compile_hud.db.records.summaries import Point
from compile_hud.db.shared.quantities import LARGEST, SMALLEST


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRun:
    """The fields of a point that describe its run."""

    run_id: str
    revision: str
    at: datetime
    machine: str
    toolchain: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRuns:
    """The runs of points, oldest first; `scopes` has a number for the scope of each run.

    A scope is a machine with a toolchain; its number is its index in `names`.
    """

    runs: Sequence[PointRun]
    names: Sequence[tuple[str, str]]
    scopes: np.ndarray


def point_runs(runs: Sequence[PointRun]) -> PointRuns:
    """Return `runs`, oldest first, with their scopes."""
    names = list(dict.fromkeys((run.machine, run.toolchain) for run in runs))
    numbers = {name: number for number, name in enumerate(names)}
    scopes = np.array([numbers[run.machine, run.toolchain] for run in runs], dtype=np.int32)
    return PointRuns(runs=runs, names=names, scopes=scopes)


class PointColumns(Sequence[Point]):
    """Points of one series, oldest first; `run_numbers` are the indices of their runs in `runs`."""

    __slots__ = ("_highs", "_key", "_lows", "_medians", "_run_numbers", "_runs")

    def __init__(self, key: str, runs: PointRuns, *, columns: Sequence[np.ndarray]) -> None:
        """Take run numbers, medians, lows and highs, in this order."""
        self._key = key
        self._runs = runs
        self._run_numbers, self._medians, self._lows, self._highs = columns

    @property
    def medians(self) -> np.ndarray:
        """Return the value of each point, in the metric's unit."""
        return self._medians

    def by_scope(self) -> dict[tuple[str, str], PointColumns]:
        """Return the points of each machine and toolchain, in the order of their first runs."""
        scopes = self._runs.scopes[self._run_numbers]
        if scopes.size and (scopes == scopes[0]).all():
            return {self._runs.names[scopes[0]]: self}
        numbers, firsts = np.unique(scopes, return_index=True)
        return {
            self._runs.names[number]: self._taken(scopes == number)
            for number in numbers[np.argsort(firsts)]
        }

    def above_zero(self) -> PointColumns:
        """Return the points with a value above 0 that a measurement can have."""
        is_above = (self._medians >= SMALLEST) & (self._medians <= LARGEST)
        return self if is_above.all() else self._taken(is_above)

    def in_range(self) -> PointColumns:
        """Return the points with a value that a measurement can have."""
        sizes = np.abs(self._medians)
        is_in_range = (sizes == 0) | ((sizes >= SMALLEST) & (sizes <= LARGEST))
        return self if is_in_range.all() else self._taken(is_in_range)

    def without_runs(self, run_ids: Collection[str]) -> PointColumns:
        """Return the points of other runs than those in `run_ids`."""
        numbers = [
            number for number, run in enumerate(self._runs.runs) if run.run_id in set(run_ids)
        ]
        return self._taken(~np.isin(self._run_numbers, numbers)) if numbers else self

    def values_of(self, other: PointColumns) -> np.ndarray:
        """Return the values of `other` in the run of each point here, NaN without one."""
        if other._runs is not self._runs:
            medians = {point.run_id: point.median for point in other}
            return np.array([medians.get(point.run_id, np.nan) for point in self], dtype=float)
        indices = np.searchsorted(other._run_numbers, self._run_numbers)
        indices = np.minimum(indices, len(other) - 1)
        is_there = other._run_numbers[indices] == self._run_numbers
        return np.where(is_there, other._medians[indices], np.nan)

    def scaled(self, factors: np.ndarray) -> PointColumns:
        """Return the points with each value, and its interval, times its factor."""
        numbers = [column * factors for column in (self._medians, self._lows, self._highs)]
        return PointColumns(self._key, self._runs, columns=[self._run_numbers, *numbers])

    def __len__(self) -> int:
        return int(self._medians.size)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> PointColumns: ...
    def __getitem__(self, index: int | slice) -> Point | PointColumns:
        if isinstance(index, slice):
            return self._taken(index)
        run = self._runs.runs[self._run_numbers[index]]
        return Point(
            series_key=self._key,
            run_id=run.run_id,
            revision=run.revision,
            at=run.at,
            machine=run.machine,
            toolchain=run.toolchain,
            fingerprint=run.fingerprint,
            median=float(self._medians[index]),
            low=float(self._lows[index]),
            high=float(self._highs[index]),
        )

    def __iter__(self) -> Iterator[Point]:
        return (self[index] for index in range(len(self)))

    def _taken(self, which: Any) -> PointColumns:
        columns = (self._run_numbers, self._medians, self._lows, self._highs)
        return PointColumns(self._key, self._runs, columns=[column[which] for column in columns])


def points_at(key: str, points: Sequence[Point], *, scope: tuple[str, str]) -> Sequence[Point]:
    """Return the points above 0 of one machine and toolchain, oldest first."""
    columns = point_columns(key, points).by_scope().get(scope)
    return () if columns is None else columns.above_zero()


def point_columns(key: str, points: Sequence[Point]) -> PointColumns:
    """Return `points`, oldest first, in columns."""
    if isinstance(points, PointColumns):
        return points
    runs = [
        PointRun(
            run_id=point.run_id,
            revision=point.revision,
            at=point.at,
            machine=point.machine,
            toolchain=point.toolchain,
            fingerprint=point.fingerprint,
        )
        for point in points
    ]
    numbers = np.array([(point.median, point.low, point.high) for point in points]).reshape(-1, 3)
    return PointColumns(
        key, point_runs(runs), columns=[np.arange(len(points), dtype=np.int32), *numbers.T]
    )

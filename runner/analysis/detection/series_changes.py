"""Find the changes of one series, on one machine in one toolchain, without causes or alerts.

Method: steps, drifts and changes of the noise on costs (values, inverted where higher is better, or
distances from the ideal); counts by a rule of their own, since they have no noise and may be 0: a
value outside the range of the last 14 points is a change at once. Imported series with a level of 0
or below have no ratios: of these only steps are detected, by their absolute change
(absolute_steps.py).
Assumptions: those of detector.py, drift.py and variance.py; points are ordered by their runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from compile_hud.db.records.alerts import DRIFT
from compile_hud.db.records.metrics import Direction, Metric
from compile_hud.db.records.point_columns import PointColumns
from compile_hud.runner.analysis.detection.absolute_steps import (
    AbsoluteStep,
    find_absolute_steps,
    has_absolute_levels,
)
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.drift import NUM_BLOCKS, Drift, find_drifts
from compile_hud.runner.analysis.detection.false_discovery import (
    interval_p_value,
    step_p_value,
)
from compile_hud.runner.analysis.detection.variance import (
    NoiseChange,
    find_noise_changes,
)
from compile_hud.runner.analysis.detector import Step, describe_steps
from compile_hud.runner.analysis.judging.attribution import TIMED_METRICS
from compile_hud.runner.analysis.judging.cost_step import Shift, Track, relative

STEP = "step"
VARIANCE = "variance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change in a series, from after the point `last_good` to the point `first`.

    They are neighbours except for a drift, which begins at the one and is detected at the other.
    `last_good` is -1 without an earlier point. Only a change of the noise has a `noise`; its shift
    is that from the old noise to the new one.
    """

    kind: str
    shift: Shift
    last_good: int
    first: int
    p_value: float | None
    noise: NoiseChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Costs:
    """The judged part of a track: points with a cost above 0."""

    points: PointColumns
    values: np.ndarray
    floor: float
    metric: Metric

    def shift(self, *, old: range, new: range, level_change: Step | Drift) -> Shift:
        return Shift(
            points=self.points,
            costs=tuple(self.values.tolist()),
            old=old,
            new=new,
            before=level_change.before,
            after=level_change.after,
            interval=(level_change.low, level_change.high),
            floor=self.floor,
            num_points_to_return=DEFAULT_CONFIG.sustained_points,
            is_inverted=self.metric.direction is Direction.HIGHER_IS_BETTER,
            ideal=self.metric.ideal,
        )


def find_changes(track: Track, metric: Metric, *, floor: float) -> list[Change]:
    """Return the changes of `track`; a return from a regression is its end and no change."""
    if metric.is_exact:
        return _without_returns(_count_changes(track, metric))
    if metric.has_zero_level and has_absolute_levels(track.points.medians):
        return _without_returns(list(_absolute_changes(track, metric, floor=floor)))
    costs = _costs(track, metric, floor=floor)
    steps = describe_steps(costs.values, floor=floor)
    step_changes = list(_step_changes(costs, steps))
    changes = _without_returns(step_changes)
    drifts = find_drifts(costs.values, floor=floor, breaks=_breaks(steps, step_changes))
    changes += [_drift_change(costs, drift) for drift in drifts]
    if metric.name in TIMED_METRICS:
        breaks = [step.index for step in steps]
        changes += [
            _noise_change(costs, change)
            for change in find_noise_changes(costs.values, breaks=breaks)
            if change.grew
        ]
    return changes


def _breaks(steps: Sequence[Step], changes: Sequence[Change]) -> list[int]:
    """Return the first points of the levels that a drift has to fit better than.

    A step that no run can accept (false_discovery.py) and no later look can improve hides no drift.
    """
    rejected = {
        change.first
        for change in changes
        if change.p_value is not None and change.p_value > DEFAULT_CONFIG.false_discovery_rate
    }
    end = steps[-1].end if steps else 0
    last_look = DEFAULT_CONFIG.look_points[-1]
    return [
        step.index
        for step in steps
        if step.index not in rejected or (step.end == end and end - step.index < last_look)
    ]


def _without_returns(changes: Sequence[Change]) -> list[Change]:
    """Return `changes` without those that end an earlier regression where it began."""
    others: list[Change] = []
    for change in changes:
        if not any(change.shift.is_end_of(earlier.shift) for earlier in others):
            others.append(change)
    return others


def _costs(track: Track, metric: Metric, *, floor: float) -> _Costs:
    if metric.ideal is not None:
        points = track.points
        values = np.maximum(abs(metric.ideal - points.medians), metric.resolution)
    else:
        # A number of 0 or below has no relative change.
        points = track.points.above_zero()
        is_inverted = metric.direction is Direction.HIGHER_IS_BETTER
        values = 1 / points.medians if is_inverted else points.medians
    return _Costs(points=points, values=values, floor=floor, metric=metric)


def _step_change(costs: _Costs, step: Step) -> Change:
    old = range(max(step.start, step.index - DEFAULT_CONFIG.baseline_points), step.index)
    values = costs.values
    return Change(
        kind=STEP,
        shift=costs.shift(old=old, new=range(step.index, step.end), level_change=step),
        last_good=step.index - 1,
        first=step.index,
        p_value=step_p_value(values[step.start : step.index], values[step.index : step.end]),
    )


def _step_changes(costs: _Costs, steps: Sequence[Step]) -> Iterator[Change]:
    """Yield each step, and after one that was a short one each relapse to its level."""
    indices = [step.index for step in steps]
    for number, step in enumerate(steps):
        if step.is_return:
            continue
        change = _step_change(costs, step)
        yield change
        if number + 1 < len(steps) and steps[number + 1].is_return:
            yield from _relapses(costs, change, step_indices=indices)


def _relapses(costs: _Costs, step: Change, *, step_indices: Sequence[int]) -> Iterator[Change]:
    """Yield the returns of the level of `step` that the detector does not report yet.

    A level that lasted for two weeks at most is noise to the detector, which then requires more
    evidence for the next step. A reader of the first alert needs to know that the level is back.
    """
    shift, sustained = step.shift, DEFAULT_CONFIG.sustained_points
    while (returned := shift.return_index()) is not None:
        relapse = shift.relapse_index(returned)
        if relapse is None or any(abs(relapse - index) < sustained for index in step_indices):
            return
        if any(returned + sustained <= index < relapse for index in step_indices):
            # Another level lies between: it has changes of its own.
            return
        shift = dataclasses.replace(
            shift, old=range(returned, relapse), new=range(relapse, len(shift.costs))
        )
        end = shift.return_index()
        after = float(np.median(costs.values[relapse:end]))
        shift = dataclasses.replace(shift, after=after)
        # The first step was accepted or rejected, and this one is with it.
        yield dataclasses.replace(step, shift=shift, last_good=relapse - 1, first=relapse)


def _drift_change(costs: _Costs, drift: Drift) -> Change:
    block = max(1, (drift.end - drift.start) // NUM_BLOCKS)
    old = range(drift.start, drift.start + block)
    new = range(drift.end - block, drift.end)
    p_value = interval_p_value(
        math.log1p(drift.change),
        low=math.log1p(drift.low),
        high=math.log1p(drift.high),
        degrees=max(1, drift.end - drift.start - 2),
    )
    return Change(
        kind=DRIFT,
        shift=costs.shift(old=old, new=new, level_change=drift),
        last_good=drift.start,
        first=drift.index,
        # One for each length of window.
        p_value=min(1.0, len(DEFAULT_CONFIG.drift_block_points) * p_value),
    )


def _noise_change(costs: _Costs, change: NoiseChange) -> Change:
    p_value = interval_p_value(
        math.log(change.factor),
        low=math.log(change.low),
        high=math.log(change.high),
        degrees=change.degrees,
    )
    shift = Shift(
        points=costs.points,
        costs=tuple(costs.values.tolist()),
        old=range(change.start, change.index),
        new=range(change.index, change.end),
        before=change.before,
        after=change.after,
        interval=(change.low - 1, change.high - 1),
        floor=0.0,
        num_points_to_return=DEFAULT_CONFIG.sustained_points,
        is_inverted=False,
    )
    return Change(
        kind=VARIANCE,
        shift=shift,
        last_good=change.index - 1,
        first=change.index,
        p_value=min(1.0, len(DEFAULT_CONFIG.noise_after_points) * p_value),
        noise=change,
    )


def _absolute_changes(track: Track, metric: Metric, *, floor: float) -> Iterator[Change]:
    sign = 1 if metric.direction is Direction.LOWER_IS_BETTER else -1
    costs = sign * track.points.medians
    for step in find_absolute_steps(costs, floor=floor):
        if step.is_return:
            continue
        begin = max(step.start, step.index - DEFAULT_CONFIG.baseline_points)
        shift = Shift(
            points=track.points,
            costs=tuple(costs.tolist()),
            old=range(begin, step.index),
            new=range(step.index, step.end),
            before=step.before,
            after=step.after,
            interval=_relative_interval(step, sign * costs[begin : step.index], sign=sign),
            floor=floor,
            num_points_to_return=DEFAULT_CONFIG.sustained_points,
            is_inverted=False,
            sign=sign,
            least=step.unit,
        )
        yield Change(
            kind=STEP,
            shift=shift,
            last_good=step.index - 1,
            first=step.index,
            p_value=_absolute_p_value(costs, step),
        )


def _relative_interval(
    step: AbsoluteStep, old: np.ndarray, *, sign: int
) -> tuple[float, float] | None:
    """Return the interval of the relative change from the values `old`, None without one."""
    before, after = sign * step.before, sign * step.after
    if before == 0 or after < 0 or old.min() < 0:
        return None
    low, high = sorted((sign * step.low / before, sign * step.high / before))
    return low, high


def _absolute_p_value(costs: np.ndarray, step: AbsoluteStep) -> float | None:
    """Return the p-value of `step`, None for an old level of 0 without noise."""
    if not step.noise and not step.before:
        return None
    old, new = costs[step.start : step.index], costs[step.index : step.end]
    return step_p_value(old, new, min_sd=step.noise)


def _count_changes(track: Track, metric: Metric) -> list[Change]:
    values = track.points.medians
    if values.size == 0 or (values == values[0]).all():
        return []
    sign = 1.0 if metric.direction is Direction.LOWER_IS_BETTER else -1.0
    costs = tuple((sign * values).tolist())
    changes = []
    for index in range(1, len(costs)):
        old = range(max(0, index - DEFAULT_CONFIG.baseline_points), index)
        recent = costs[old.start : index]
        if min(recent) <= costs[index] <= max(recent):
            continue
        change = relative(costs[index], to=costs[index - 1])
        shift = Shift(
            points=track.points,
            costs=costs,
            old=old,
            new=range(index, len(costs)),
            before=costs[index - 1],
            after=costs[index],
            interval=None if change is None else (change, change),
            floor=0.0,
            num_points_to_return=1,
            is_inverted=False,
        )
        changes.append(
            Change(kind=STEP, shift=shift, last_good=index - 1, first=index, p_value=None)
        )
    return changes

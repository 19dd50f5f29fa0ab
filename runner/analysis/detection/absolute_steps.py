"""Find the nights on which a level of 0 or below changes, or a level becomes one.

Method: such levels have no ratios, so sequential_test.py follows the values themselves, in units of
the least relevant change. That is the floor's share of the level or, if larger, the change that
the floor is to ordinary noise: 2.5 standard deviations. Both are learnt from the first nights of
each level. The noise is the mean distance from night to night without the three largest: a step is
one of these, a blip two. A level that repeats exactly at 0 has no noise, and any lasting change of
it is a step. Its blips are left out.
Detection begins anew with each level, since its noise may be another. A level of fewer than eight
nights has no noise yet: it ends by a step in the noise before that is larger than the noise after.
Assumptions: those of detector.py, with noise that is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG, DetectorConfig
from compile_hud.runner.analysis.detection.sequential_test import find_change_points
from compile_hud.runner.analysis.stats.estimates import (
    CONFIDENCE,
    MEDIAN_INEFFICIENCY,
    robust_sd,
    student_quantile,
)

# A step is one of the differences from night to night, a blip two of them.
_NUM_TRIMMED = 3
# Mean absolute difference of two normal values of sd 1: 2 / sqrt(pi).
_NORMAL_DIFFERENCE = 2 / math.sqrt(math.pi)
# A level without noise at 0 has no scale: this share of its smallest change is the unit.
_SHARE_OF_CHANGE = 0.1
# Other tools write single negative numbers for failures.
_MAX_NEGATIVE_SHARE = 0.1
# Farther nights count no more, and their squares stay finite.
_MAX_UNITS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsoluteStep:
    """A change of the level, in the unit of the values.

    `start` is the first point of the old level, `index` of the new one, `end` one past its last.
    `low` and `high` are the 95 % interval of after less before. `unit` is the least relevant
    change, `noise` the standard deviation of the old level, 0 without noise. `is_return` means that
    the old level lasted for two weeks at most and the new one is the one before it.
    """

    start: int
    index: int
    end: int
    before: float
    after: float
    low: float
    high: float
    unit: float
    noise: float
    is_return: bool = False


def has_absolute_levels(values: np.ndarray, *, config: DetectorConfig = DEFAULT_CONFIG) -> bool:
    """Return whether `values` have a level of 0 or below, or one that is negative now and then.

    Single zeros and negative values are missing nights of other tools.
    """
    if (values < 0).sum() > _MAX_NEGATIVE_SHARE * values.size:
        return True
    num = 0
    for is_low in (values <= 0).tolist():
        num = num + 1 if is_low else 0
        if num == config.sustained_points:
            return True
    return False


def find_absolute_steps(
    values: np.ndarray, *, floor: float, config: DetectorConfig = DEFAULT_CONFIG
) -> list[AbsoluteStep]:
    """Return every step in `values`, oldest first, with both levels and the interval of the change.

    `floor` is the least relevant change as a share of the level.
    """
    levels = [_scale(values, start=0, floor=floor, config=config)]
    while new := _next_levels(values, levels[-1], floor=floor, config=config):
        levels += new
    steps: list[AbsoluteStep] = []
    ends = [*(level.start for level in levels[2:]), values.size]
    for old, level, end in zip(levels, levels[1:], ends, strict=False):
        last = steps[-1] if steps and steps[-1].index == old.start else None
        step = _describe(values, old, index=level.start, end=end, last=last, config=config)
        if step.high >= step.unit or step.low <= -step.unit:
            steps.append(step)
    return steps


@dataclass(frozen=True, slots=True)
class _AbsoluteLevel:
    """The first point of a level, its value and noise, and the least relevant change of it."""

    start: int
    value: float
    noise: float
    unit: float


def _next_levels(
    values: np.ndarray, level: _AbsoluteLevel, *, floor: float, config: DetectorConfig
) -> list[_AbsoluteLevel]:
    """Return the next level after `level`, and those that follow it too soon to begin anew."""
    own = values[level.start :]
    if not level.noise:
        own = _without_blips(own, level.value, config=config)
    units = np.clip(own / level.unit, -_MAX_UNITS, _MAX_UNITS)
    points = find_change_points(units, config=config)
    starts = [level.start + point.index for point in points if point.is_step]
    levels: list[_AbsoluteLevel] = []
    for start in starts:
        new = _scale(values, start=start, floor=floor, config=config)
        if levels and not _is_soon_after(levels[-1], new, values, config=config):
            break
        levels.append(new)
    return levels


def _is_soon_after(
    old: _AbsoluteLevel, new: _AbsoluteLevel, values: np.ndarray, *, config: DetectorConfig
) -> bool:
    """Return whether `new` ends a level too short to have a noise, by more than its own noise."""
    num_points = new.start - old.start
    if num_points >= config.first_level_points:
        return False
    after = values[new.start : new.start + num_points]
    change = float(np.median(after)) - float(np.median(values[old.start : new.start]))
    return abs(change) >= new.unit


def _scale(
    values: np.ndarray, *, start: int, floor: float, config: DetectorConfig
) -> _AbsoluteLevel:
    """Return the level that begins at `start`."""
    points = values[start : start + config.level_points]
    differences = np.sort(np.abs(np.diff(points)))
    ordinary = differences[: max(1, differences.size - _NUM_TRIMMED)]
    noise = float(ordinary.mean()) / _NORMAL_DIFFERENCE if ordinary.size else 0.0
    first = points[: config.first_level_points]
    level = float(np.median(first)) if first.size else 0.0
    unit = max(floor * abs(level), noise / config.prior_sd)
    if not unit:
        sizes = np.abs(values[start:][values[start:] != 0])
        unit = _SHARE_OF_CHANGE * float(sizes.min()) if sizes.size else 1.0
    return _AbsoluteLevel(start, level, noise, unit)


def _without_blips(values: np.ndarray, level: float, *, config: DetectorConfig) -> np.ndarray:
    """Return `values` with each departure that ended too soon for a step replaced by the level.

    If all other nights are equal, a blip would be the only noise and hide the next step.
    """
    cleaned = values.copy()
    begin: int | None = None
    for index, is_apart in enumerate((values != level).tolist()):
        if is_apart:
            begin = index if begin is None else begin
            continue
        if begin is not None and index - begin < config.sustained_points:
            cleaned[begin:index] = level
        begin = None
    return cleaned


def _describe(
    values: np.ndarray,
    level: _AbsoluteLevel,
    *,
    index: int,
    end: int,
    last: AbsoluteStep | None,
    config: DetectorConfig,
) -> AbsoluteStep:
    old, new = values[level.start : index], values[index:end]
    baseline = old[-config.baseline_points :]
    before, after = float(np.median(baseline)), float(np.median(new))
    noise = max(level.noise, robust_sd(old))
    noise_after = robust_sd(new) if new.size >= config.min_baseline_points else noise
    variance = noise**2 / baseline.size + noise_after**2 / new.size
    quantile = student_quantile((1 + CONFIDENCE) / 2, degrees=max(1, baseline.size - 1))
    margin = MEDIAN_INEFFICIENCY * math.sqrt(variance) * quantile
    return AbsoluteStep(
        start=level.start,
        index=index,
        end=end,
        before=before,
        after=after,
        low=after - before - margin,
        high=after - before + margin,
        unit=level.unit,
        noise=level.noise,
        is_return=last is not None
        and index - last.index <= config.return_points
        and abs(after - last.before) < config.return_share * abs(before - last.before),
    )

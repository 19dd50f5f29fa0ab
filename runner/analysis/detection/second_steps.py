"""Second steps within the first nights of a new level, which the sequential test takes for it.

Method: a level needs `min_baseline_points` before the test looks for a departure from it. An
earlier second step so becomes a part of the new level. The first three to five points of a
described level are therefore compared with the next two weeks. They are a level of their own if
their distance from the range of the rest is at least its width and the floor. A step right behind
those points is moved to the point from which on the new level fits better.
Assumptions: noise of the rest that its own first two weeks show.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compile_hud.runner.analysis.detection.config import DetectorConfig
from compile_hud.runner.analysis.detection.sequential_test import ChangePoint, best_median_split


def with_second_steps(
    values: np.ndarray, change_points: Sequence[ChangePoint], *, config: DetectorConfig
) -> list[ChangePoint]:
    """Return `change_points` and the second steps.

    `values` are logarithms in units of the floor.
    """
    completed: list[ChangePoint] = []
    points = list(change_points)
    while points:
        point = points.pop(0)
        end = next((later.index for later in points if later.is_step), values.size)
        completed.append(_moved(point, completed, values, end=end, config=config))
        if not point.is_step or point.is_return:
            continue
        start = completed[-1].index
        num_first = _num_first(values[start:end], config=config)
        if num_first:
            second = start + num_first
            completed.append(ChangePoint(index=second))
            # The test began anew where the second step had confused it.
            restart = second + config.min_baseline_points
            while points and not points[0].is_step and points[0].index <= restart:
                points.pop(0)
    return completed


def _num_first(level: np.ndarray, *, config: DetectorConfig) -> int:
    """Return the number of first points of `level` that are one of their own, 0 for none."""
    least, most = config.sustained_points, config.min_baseline_points - 1
    if level.size < most + config.min_baseline_points:
        return 0
    points = level[: most + config.baseline_points]
    split = best_median_split(points.tolist(), low=least, high=most)
    first, rest = points[:split], points[split:]
    low, high = float(rest.min()), float(rest.max())
    margin = max(high - low, 1.0)
    is_apart = first.min() > high + margin or first.max() < low - margin
    return split if is_apart else 0


def _moved(
    point: ChangePoint,
    earlier: Sequence[ChangePoint],
    values: np.ndarray,
    *,
    end: int,
    config: DetectorConfig,
) -> ChangePoint:
    """Return `point`; nearer to the step before it if the test could not look there."""
    if not point.is_step or point.is_return or not earlier or not earlier[-1].is_step:
        return point
    start = earlier[-1].index
    if point.index - start != config.min_baseline_points:
        return point
    least = start + config.sustained_points
    before, after = (
        float(np.median(values[start:least])),
        float(np.median(values[point.index : end])),
    )
    index = point.index
    while index > least and abs(values[index - 1] - after) < abs(values[index - 1] - before):
        index -= 1
    return ChangePoint(index=index)

"""What fits a stretch of nights best: two medians, one after the other, or one line.

Method: the sum of absolute distances, which outliers sway little.
Assumptions: points are one night apart.
"""

from __future__ import annotations

from bisect import insort

import numpy as np

# Sums of absolute distances that differ by less are equal.
ROUNDING = 1e-9


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

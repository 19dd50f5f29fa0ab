"""Find stretches of nights that all lie near their levels, to take each in at once.

Method: where all points that tell the level are of the nights just before, the level is a sliding
median, and numpy has all of them in the time that the loop takes for a few.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from compile_hud.runner.analysis.detection.constants import LEVEL_POINTS
from compile_hud.runner.analysis.stats.estimates import sliding_medians


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

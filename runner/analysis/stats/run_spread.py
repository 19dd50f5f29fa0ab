"""The spread of a series' level from one run to the next, with nothing changed.

Method: half of the mean square of the differences of successive log medians (von Neumann, 1941),
each difference cut at three robust standard deviations. A step is one difference among many, a slow
drift is none, and a single bad night counts as a bad night and no more. If most runs repeat
exactly, the others are steps. Of n normal points it is worth 2 (n - 1)^2 / (3 n - 4) degrees of
freedom.
Assumptions: runs are independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from compile_hud.runner.analysis.stats.estimates import MAD_TO_SD, Spread, robust_sd
from compile_hud.runner.analysis.stats.variance_prior import MIN_SD

# Runs of a history that show a spread: fewer have none of their own.
MIN_RUNS = 5
# Of fewer differences one step is more than the tail that a robust sd leaves out.
MIN_STEPS_WITH_TAILS = 10
# A normal difference lies beyond one time in 370.
CUT_SDS = 3.0
# The mean square of a standard normal value that is cut there.
_CUT_VARIANCE = 0.995


def run_spread(medians: Sequence[float] | np.ndarray) -> Spread | None:
    """Return the relative sd of a run's level by `medians`, oldest first; None for too few.

    Medians that are not above 0 are left out.
    """
    numbers = np.asarray(medians, dtype=float)
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    if numbers.size < MIN_RUNS:
        return None
    steps = np.diff(np.log(numbers))
    cut = CUT_SDS * _typical_step(steps)
    squares = float(np.mean(np.minimum(np.abs(steps), cut) ** 2)) / _CUT_VARIANCE
    n = numbers.size
    return Spread(sd=max(MIN_SD, math.sqrt(squares / 2)), degrees=2 * (n - 1) ** 2 / (3 * n - 4))


def _typical_step(steps: np.ndarray) -> float:
    """Return the sd of the differences without outliers."""
    if steps.size < MIN_STEPS_WITH_TAILS:
        return MAD_TO_SD * float(np.median(np.abs(steps - np.median(steps))))
    return robust_sd(steps)

"""Checks of the samples of launches: a trend, two modes, launches that differ.

Drift: Mann-Kendall's S of each launch, summed over launches; the size is Theil and Sen's slope. Two
modes: the split of a launch's samples into two with the least variance within; Ashman's D, the
distance of the modes over their spread (Ashman, Bird and Zepf, AJ 108, 1994), separates them. It is
2.6 for a normal distribution cut in half. Launches that differ: Student's interval between launches
(estimates.py) and the lower limit of their standard deviation by chi-square, on logarithms.
Assumption: samples are in the order in which they were taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.stats.estimates import CONFIDENCE, student_quantile

# A drift of Mann-Kendall's z above 4 is no chance (1 in 16,000), one above 5 % no trifle.
MIN_DRIFT_Z = 4.0
MIN_DRIFT = 0.05
MIN_DRIFT_SAMPLES = 8
# With 20 samples plain noise stays below D = 6 in 999 of 1000 launches, real modes are above.
MIN_MODE_SAMPLES = 20
MIN_MODE_DISTANCE = 6.0
MIN_MODE_SHARE = 0.2
MIN_MODE_CHANGE = 0.05


def half_width(levels: np.ndarray) -> float:
    """Return the half-width of the 95 % interval over launches, relative to its middle.

    `levels`, one a launch, are above 0. It is infinite for fewer than two launches.
    """
    if levels.size < 2:
        return math.inf
    quantile = student_quantile((1 + CONFIDENCE) / 2, degrees=levels.size - 1)
    return float(quantile * np.std(np.log(levels), ddof=1) / math.sqrt(levels.size))


def min_spread(levels: np.ndarray) -> float:
    """Return the lower bound of the standard deviation between launches, with 95 % confidence.

    It is that of the logarithms of `levels`, which are above 0: about relative. 0 for fewer than
    two launches.
    """
    # The import is here, since every command imports this module and few compute a limit.
    from scipy.special import chdtri

    degrees = levels.size - 1
    if degrees < 1:
        return 0.0
    variance = float(np.var(np.log(levels), ddof=1))
    return math.sqrt(variance * degrees / float(chdtri(degrees, 1 - CONFIDENCE)))


def drift(launches: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return z of a common trend inside the launches, and the median relative change over one."""
    scores, variance, changes = 0.0, 0.0, []
    for samples in launches:
        n = samples.size
        if n < MIN_DRIFT_SAMPLES:
            continue
        first, second = np.triu_indices(n, k=1)
        steps = samples[second] - samples[first]
        scores += float(np.sign(steps).sum())
        variance += n * (n - 1) * (2 * n + 5) / 18
        slope = float(np.median(steps / (second - first)))
        changes.append(slope * (n - 1) / float(np.median(samples)))
    if not changes:
        return 0.0, 0.0
    return scores / math.sqrt(variance), float(np.median(changes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """Two modes: their medians, the share of samples in the upper one, and Ashman's D."""

    low: float
    high: float
    high_share: float
    distance: float


def find_modes(samples: np.ndarray) -> Modes | None:
    """Return the two modes of positive `samples`; None for a single one, or for too few samples."""
    n = samples.size
    if n < MIN_MODE_SAMPLES:
        return None
    ordered = np.sort(samples)
    logs = np.log(ordered)
    fewest = math.ceil(MIN_MODE_SHARE * n)
    splits = range(fewest, n - fewest + 1)
    split = min(splits, key=lambda at: at * logs[:at].var() + (n - at) * logs[at:].var())
    spread = math.sqrt((logs[:split].var(ddof=1) + logs[split:].var(ddof=1)) / 2)
    gap = float(logs[split:].mean() - logs[:split].mean())
    if gap < math.log1p(MIN_MODE_CHANGE) or gap < MIN_MODE_DISTANCE * spread:
        return None
    return Modes(
        low=float(np.median(ordered[:split])),
        high=float(np.median(ordered[split:])),
        high_share=(n - split) / n,
        distance=gap / spread if spread > 0 else math.inf,
    )

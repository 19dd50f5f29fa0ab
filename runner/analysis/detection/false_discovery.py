"""Decide over all series of a run which of its steps to accept.

Method: each step that starts in a run has a p-value, and Benjamini and Hochberg's step-up rule
(Journal of the Royal Statistical Society B 57, 1995) is applied to the run over all its series with
noise, those without a step included. A p-value says how rarely points of the old level would lie as
far on one side as those of the new one: over the number j of points beyond a distance, the smallest
binomial tail P(at least j of n), where one point lies beyond by the tail of Student's distribution
with 4 degrees of freedom plus the share of old points there. It is doubled for the two sides,
multiplied by n for the choice of j. All new points are held against one estimate of the noise,
which may by chance be too small for all of them: where Student's test of the difference of both
medians has the larger p-value, that one counts. It is multiplied by the number of looks, since a
step is looked at again as its later nights arrive.
Assumptions: nights are independent of each other, and tails no heavier than that. Series of one run
may depend on each other as neighbours on a machine do (positively: Benjamini and Yekutieli, Annals
of Statistics 29, 2001). docs/judging.md has the reasons and a verdict worked out by hand.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc, stdtr

from compile_hud.db.records.alerts import Alert
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG, DetectorConfig
from compile_hud.runner.analysis.stats.estimates import (
    MEDIAN_INEFFICIENCY,
    robust_sd,
    student_quantile,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCandidate:
    """An alert before the decision over all series of its run.

    `p_value` is that of all looks together, None for what has no noise (counts, outcomes); `run_id`
    is the run that it is decided with.
    """

    alert: Alert
    run_id: str
    p_value: float | None = None


def step_p_value(
    old: np.ndarray, new: np.ndarray, *, config: DetectorConfig = DEFAULT_CONFIG
) -> float:
    """Return how rarely the points of `old` alone would look like a step to those of `new`.

    Both hold costs above 0, oldest first. The smallest over all LOOKS that `new` has points for,
    times the number of LOOKS.
    """
    looks = [size for size in config.look_points if size <= new.size] or [new.size]
    p_values = (
        max(
            _points_p_value(old, new[:size], config=config),
            _levels_p_value(old, new[:size], config=config),
        )
        for size in looks
    )
    return min(1.0, len(config.look_points) * min(p_values))


def _levels_p_value(old: np.ndarray, new: np.ndarray, *, config: DetectorConfig) -> float:
    """Return the p-value of the difference of both medians by Student's test."""
    levels = float(np.median(old)), float(np.median(new))
    both = np.concatenate([old - levels[0], new - levels[1]])
    # Three new points lie near their own median: they may tell of more noise, not of less.
    sd = max(robust_sd(old), robust_sd(both), config.min_relative_sd * levels[0])
    error = MEDIAN_INEFFICIENCY * sd * math.sqrt(1 / old.size + 1 / new.size)
    degrees = max(1.0, config.degrees_per_point * (both.size - 2))
    return float(2 * stdtr(degrees, -abs(levels[1] - levels[0]) / error))


def _points_p_value(old: np.ndarray, new: np.ndarray, *, config: DetectorConfig) -> float:
    level = float(np.median(old))
    error = MEDIAN_INEFFICIENCY / math.sqrt(old.size)
    sd = max(robust_sd(old), config.min_relative_sd * level) * math.sqrt(1 + error**2)
    degrees = min(config.tail_degrees, old.size / 4)
    best = 1.0
    for side in (1.0, -1.0):
        # The old level is known to an error only, which all new points share.
        distances = np.sort(side * (new - level)) / sd - error
        earlier = np.sort(side * (old - level)) / sd - error
        beyond = 1 - np.searchsorted(earlier, distances, side="left") / earlier.size
        chances = np.minimum(1.0, stdtr(degrees, -distances) + beyond)
        tails = bdtrc(new.size - 1 - np.arange(new.size), new.size, chances)
        best = min(best, float(np.min(tails)))
    return min(1.0, 2 * new.size * best)


def interval_p_value(change: float, *, low: float, high: float, degrees: float) -> float:
    """Return the p-value of a log change whose 95 % interval, by Student, is `low` to `high`."""
    if high <= low:
        return 0.0
    error = (high - low) / (2 * student_quantile(0.975, degrees=degrees))
    return float(2 * stdtr(degrees, -abs(change) / error))


def apply_false_discovery_rate(
    candidates: Iterable[AlertCandidate],
    *,
    num_series: Mapping[str, int],
    confirmed: Collection[str] = (),
) -> list[AlertCandidate]:
    """Return the candidates that become alerts, in their order.

    `num_series` says how many series with noise each run has. What has no noise needs no decision,
    nor do the alerts in `confirmed`.
    """
    alert_candidates = list(candidates)
    by_run: dict[str, list[float]] = defaultdict(list)
    for candidate in alert_candidates:
        if candidate.p_value is not None:
            by_run[candidate.run_id].append(candidate.p_value)
    limits = {
        run_id: _limit(p_values, size=max(num_series.get(run_id, 0), len(p_values)))
        for run_id, p_values in by_run.items()
    }
    return [
        candidate
        for candidate in alert_candidates
        if candidate.p_value is None
        or candidate.alert.id in confirmed
        or candidate.p_value <= limits[candidate.run_id]
    ]


def _limit(p_values: Sequence[float], *, size: int) -> float:
    """Return the largest p-value that Benjamini and Hochberg reject at, below 0 for none."""
    limit = -1.0
    for rank, p_value in enumerate(sorted(p_values), start=1):
        if p_value <= DEFAULT_CONFIG.false_discovery_rate * rank / size:
            limit = p_value
    return limit

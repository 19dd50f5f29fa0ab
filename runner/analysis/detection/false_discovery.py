"""Decide over all series of a run which of its steps to accept.

Method: each step that starts in a run has a p-value. Benjamini and Hochberg's step-up rule (Journal
of the Royal Statistical Society B 57, 1995) is applied to the run over all its series with noise,
those without a step included.

A p-value says how rarely points of the old level would lie as far on one side as the new ones. It
is the smallest binomial tail P(at least j of n) over the number j of points beyond a distance. One
point lies beyond it by the tail of Student's distribution with 4 degrees of freedom plus the share
of old points there. The p-value is doubled for the two sides and multiplied by n for the choice of
j. All new points share one estimate of the noise, which may by chance be too small. If Student's
test of the difference of both medians has the larger p-value, that one counts. It is multiplied by
the number of looks, since a step is tested again as its later nights arrive.

Assumptions: nights are independent of each other, and tails no heavier than that. Series of one run
may depend on each other as neighbours on a machine do (positively: Benjamini and Yekutieli, Annals
of Statistics 29, 2001). docs/explanation/detection.md has a worked example.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

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

    `p_value` covers all looks together; it is None for metrics without noise (counts, outcomes).
    `run_id` is the run of the decision.
    """

    alert: Alert
    run_id: str
    p_value: float | None = None


def step_p_value(
    old: np.ndarray,
    new: np.ndarray,
    *,
    min_sd: float = 0.0,
    config: DetectorConfig = DEFAULT_CONFIG,
) -> float:
    """Return the probability that the points of `old` alone look like a step to those of `new`.

    Both are costs, oldest first. Their noise is `min_sd` at least, which must be above 0 if the
    median of `old` is 0. The result is the smallest p-value over all looks
    (`look_points`) that `new` has points for, times the number of looks.
    """
    looks = [size for size in config.look_points if size <= new.size] or [new.size]
    p_values = (
        max(
            _points_p_value(old, new[:size], min_sd=min_sd, config=config),
            _levels_p_value(old, new[:size], min_sd=min_sd, config=config),
        )
        for size in looks
    )
    return min(1.0, len(config.look_points) * min(p_values))


def _levels_p_value(
    old: np.ndarray, new: np.ndarray, *, min_sd: float, config: DetectorConfig
) -> float:
    """Return the p-value of the difference of both medians by Student's test."""
    # The imports are in functions, since most commands import this module and few judge.
    from scipy.special import stdtr

    levels = float(np.median(old)), float(np.median(new))
    both = np.concatenate([old - levels[0], new - levels[1]])
    # Three new points lie near their own median: they may be evidence of more noise, not of less.
    min_sd = max(min_sd, config.min_relative_sd * abs(levels[0]))
    sd = max(robust_sd(old), robust_sd(both), min_sd)
    error = MEDIAN_INEFFICIENCY * sd * math.sqrt(1 / old.size + 1 / new.size)
    degrees = max(1.0, config.degrees_per_point * (both.size - 2))
    return float(2 * stdtr(degrees, -abs(levels[1] - levels[0]) / error))


def _points_p_value(
    old: np.ndarray, new: np.ndarray, *, min_sd: float, config: DetectorConfig
) -> float:
    from scipy.special import bdtrc, stdtr

    level = float(np.median(old))
    error = MEDIAN_INEFFICIENCY / math.sqrt(old.size)
    min_sd = max(min_sd, config.min_relative_sd * abs(level))
    sd = max(robust_sd(old), min_sd) * math.sqrt(1 + error**2)
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
    from scipy.special import stdtr

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

    `num_series` is the number of series with noise of each run. A candidate without noise, or in
    `confirmed`, needs no decision.
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

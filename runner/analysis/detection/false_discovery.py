"""One decision over all series of a run: which of the steps found in it are believed.

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
from compile_hud.runner.analysis.detection.constants import MEDIAN_INEFFICIENCY
from compile_hud.runner.analysis.stats.estimates import robust_sd, student_quantile

# With nothing changed, an alert in one run of a hundred, however many series it has: fewer than
# four a year of nights. Of what is told after real changes, at most one in a hundred is false.
FALSE_DISCOVERY_RATE = 0.01
# Numbers of points since the step at which it is looked at; later ones change nothing any more.
LOOKS = (3, 4, 6, 9, 14, 21)
# A robust sd of normal values errs as an ordinary one of half as many does.
DEGREES_PER_POINT = 0.5
# Benchmarks on shared machines have outliers that normal tails do not know.
TAIL_DEGREES = 4.0
# Below this share of a level nobody measures anything, and a level that repeats exactly has sd 0.
MIN_RELATIVE_SD = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An alert before the decision over all series of its run.

    `p_value` is that of all looks together, None for what has no noise (counts, outcomes); `run_id`
    is the run that it is decided with.
    """

    alert: Alert
    run_id: str
    p_value: float | None = None


def step_p_value(old: np.ndarray, new: np.ndarray) -> float:
    """Return how rarely the points of `old` alone would look like a step to those of `new`.

    Both hold costs above 0, oldest first. The smallest over all LOOKS that `new` has points for,
    times the number of LOOKS.
    """
    looks = [size for size in LOOKS if size <= new.size] or [new.size]
    found = (max(_by_points(old, new[:size]), _by_levels(old, new[:size])) for size in looks)
    return min(1.0, len(LOOKS) * min(found))


def _by_levels(old: np.ndarray, new: np.ndarray) -> float:
    """Return the p-value of the difference of both medians by Student's test."""
    levels = float(np.median(old)), float(np.median(new))
    both = np.concatenate([old - levels[0], new - levels[1]])
    # Three new points lie near their own median: they may tell of more noise, not of less.
    sd = max(robust_sd(old), robust_sd(both), MIN_RELATIVE_SD * levels[0])
    error = MEDIAN_INEFFICIENCY * sd * math.sqrt(1 / old.size + 1 / new.size)
    degrees = max(1.0, DEGREES_PER_POINT * (both.size - 2))
    return float(2 * stdtr(degrees, -abs(levels[1] - levels[0]) / error))


def _by_points(old: np.ndarray, new: np.ndarray) -> float:
    level = float(np.median(old))
    error = MEDIAN_INEFFICIENCY / math.sqrt(old.size)
    sd = max(robust_sd(old), MIN_RELATIVE_SD * level) * math.sqrt(1 + error**2)
    degrees = min(TAIL_DEGREES, old.size / 4)
    best = 1.0
    for side in (1.0, -1.0):
        # The old level is known to an error only, which all new points share.
        distances = np.sort(side * (new - level)) / sd - error
        seen = np.sort(side * (old - level)) / sd - error
        beyond = 1 - np.searchsorted(seen, distances, side="left") / seen.size
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


def believed(
    claims: Iterable[Claim],
    *,
    num_series: Mapping[str, int],
    confirmed: Collection[str] = (),
) -> list[Claim]:
    """Return the claims to tell people of, in their order.

    `num_series` says how many series with noise each run has. What has no noise needs no decision,
    nor do the alerts of `confirmed`, which measuring again confirmed.
    """
    found = list(claims)
    by_run: dict[str, list[float]] = defaultdict(list)
    for claim in found:
        if claim.p_value is not None:
            by_run[claim.run_id].append(claim.p_value)
    limits = {
        run_id: _limit(p_values, size=max(num_series.get(run_id, 0), len(p_values)))
        for run_id, p_values in by_run.items()
    }
    return [
        claim
        for claim in found
        if claim.p_value is None
        or claim.alert.id in confirmed
        or claim.p_value <= limits[claim.run_id]
    ]


def _limit(p_values: Sequence[float], *, size: int) -> float:
    """Return the largest p-value that Benjamini and Hochberg reject at, below 0 for none."""
    limit = -1.0
    for rank, p_value in enumerate(sorted(p_values), start=1):
        if p_value <= FALSE_DISCOVERY_RATE * rank / size:
            limit = p_value
    return limit

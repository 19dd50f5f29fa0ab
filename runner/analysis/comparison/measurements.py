"""Compare two measurements of one case: the ratio of candidate to baseline.

Method: Student's interval of the difference of mean log launch levels, its variance moderated by
the prior of runner/analysis/stats/launch_noise.py. Its level is divided among all comparisons made
together (Bonferroni). Counts are compared exactly. Bytes, errors and numbers of kernels that are
equal on both sides are unchanged. Significant (the interval excludes 1) and relevant (the interval
reaches the floor, and the ratio comes near it) are two facts; a change needs both. A rule that the
ratio itself must exceed the floor would miss half of all changes of just that size.
Assumptions: those of launch_noise.py, and like conditions on both sides: the interval includes the
difference between two evenings only as far as launch_noise.py knows it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compile_hud.db.records.metrics import METRICS, Direction, Metric
from compile_hud.db.records.results import Measurement, Verdict
from compile_hud.db.shared.text import signed_percent
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.stats.estimates import (
    launch_medians,
    order_statistic_interval,
    student_quantile,
)
from compile_hud.runner.analysis.stats.launch_noise import PRIOR_DEGREES

# Chance that any of all comparisons made together is called significant with nothing changed. 2 %
# rather than the usual 5 %: a gate on every change fails one in fifty for nothing.
FAMILY_ERROR = 0.02
# Half-width of a 95 % interval, in standard deviations.
NORMAL_95 = 1.96
# A larger ratio, or one over it, times 100 is beyond floating point; imports have any numbers.
_MAX_LOG = 700.0
# Units of counted or computed values: no clock gives the same number to all digits.
_COUNTED_UNITS = frozenset({"1", "B"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The ratio candidate / baseline, and the verdict.

    `ratio` is None if it does not exist (a count that was 0, one side missing); `low` and `high`
    are then None too. `is_relevant` means that the ratio is beyond the floor, significant or not.
    """

    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    is_significant: bool
    is_relevant: bool
    reason: str

    @property
    def is_failure(self) -> bool:
        """Return whether this is a significant and relevant change in the bad direction."""
        return self.verdict is Verdict.REGRESSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The strictness of a verdict: the floor, the number of comparisons, the noise.

    The comparisons share the error. `launch_sd` is the prior spread between launches, `run_sd` the
    further spread between two runs.
    """

    floor: float
    num_comparisons: int = 1
    launch_sd: float = 0.05
    run_sd: float = 0.0


def compare_measurements(
    baseline: Measurement,
    *,
    candidate: Measurement,
    judgement: Judgement,
    levels: tuple[np.ndarray, np.ndarray] | None = None,
) -> Comparison:
    """Return the comparison of two measurements; inconclusive with a reason if they do not compare.

    `levels` are those of the launches of both sides, the medians by default.
    """
    metric = METRICS.get(baseline.metric)
    if metric is None or metric.direction is Direction.NEITHER:
        return inconclusive(f"no direction of {baseline.metric} is the better one")
    if (baseline.metric, baseline.unit) != (candidate.metric, candidate.unit):
        return inconclusive(
            f"{baseline.metric} in {baseline.unit} and {candidate.metric} in {candidate.unit}"
            " do not compare"
        )
    if metric.is_exact:
        return _compare_counts(baseline, candidate, metric)
    if min(*baseline.samples, *candidate.samples) <= 0:
        return inconclusive("a sample is 0 or below, so there is no ratio")
    if metric.unit in _COUNTED_UNITS and len({*baseline.samples, *candidate.samples}) == 1:
        return _compare_counts(baseline, candidate, metric)
    before, after = levels or (_launch_medians(baseline), _launch_medians(candidate))
    return compare_logs(
        np.log(before),
        np.log(after),
        within=(_within_sd(baseline), _within_sd(candidate)),
        direction=metric.direction,
        judgement=judgement,
    )


def compare_logs(
    baseline: np.ndarray,
    candidate: np.ndarray,
    *,
    direction: Direction,
    judgement: Judgement,
    within: tuple[float, float] = (0.0, 0.0),
) -> Comparison:
    """Return the comparison of two sides by the logarithms of their launches' levels.

    `within` is the standard error of a launch's level by its own samples, a lower bound of the
    spread between launches.
    """
    difference = float(np.mean(candidate) - np.mean(baseline))
    degrees = PRIOR_DEGREES + len(baseline) + len(candidate) - 2
    squares = float(np.sum((baseline - np.mean(baseline)) ** 2))
    squares += float(np.sum((candidate - np.mean(candidate)) ** 2))
    variance = (PRIOR_DEGREES * judgement.launch_sd**2 + squares) / degrees
    error = math.sqrt(
        max(variance, within[0] ** 2) / len(baseline)
        + max(variance, within[1] ** 2) / len(candidate)
        + 2 * judgement.run_sd**2
    )
    margin = _quantile(judgement, degrees=degrees) * error
    return decide(
        _ratio(difference),
        low=_ratio(difference - margin),
        high=_ratio(difference + margin),
        direction=direction,
        floor=judgement.floor,
    )


def compare_log_ratios(
    differences: np.ndarray,
    *,
    direction: Direction,
    judgement: Judgement,
    prior_degrees: float = PRIOR_DEGREES,
) -> Comparison:
    """Return the comparison of two sides by candidate / baseline of each pair of launches.

    `differences` are the logarithms; `run_sd` is left out, since both sides share the run.
    """
    mean = float(np.mean(differences))
    num = len(differences)
    degrees = prior_degrees + num - 1
    squares = float(np.sum((differences - mean) ** 2))
    # A difference of two launches has twice the variance of one.
    variance = (prior_degrees * 2 * judgement.launch_sd**2 + squares) / degrees
    margin = _quantile(judgement, degrees=degrees) * math.sqrt(variance / num)
    return decide(
        _ratio(mean),
        low=_ratio(mean - margin),
        high=_ratio(mean + margin),
        direction=direction,
        floor=judgement.floor,
    )


def _quantile(judgement: Judgement, *, degrees: float) -> float:
    probability = 1 - FAMILY_ERROR / (2 * max(1, judgement.num_comparisons))
    return student_quantile(probability, degrees=degrees)


def decide(
    ratio: float, *, low: float, high: float, direction: Direction, floor: float
) -> Comparison:
    """Return the verdict on a ratio with its interval."""
    is_significant = not low <= 1 <= high
    is_relevant = _is_relevant(ratio, low=low, high=high, floor=floor)
    if is_significant and is_relevant:
        verdict = _verdict(ratio > 1, direction)
        what = "is beyond" if _size(ratio) > 1 + floor else "does not rule out"
        reason = f"{_percent(ratio)} {what} the floor of {100 * floor:g} % and is outside noise"
    elif max(_size(low), _size(high)) < 1 + floor:
        verdict = Verdict.UNCHANGED
        reason = f"a change of {100 * floor:g} % would have shown"
        if is_significant:
            reason = f"{_percent(ratio)} is outside noise, but not beyond {100 * floor:g} %"
    else:
        verdict = Verdict.INCONCLUSIVE
        reason = (
            f"anything from {_percent(low)} to {_percent(high)} fits:"
            f" more launches are needed to tell {100 * floor:g} %"
        )
    return Comparison(
        ratio=ratio,
        low=low,
        high=high,
        verdict=verdict,
        is_significant=is_significant,
        is_relevant=is_relevant,
        reason=reason,
    )


def inconclusive(reason: str, *, of: Comparison | None = None) -> Comparison:
    """Return an inconclusive comparison, with the numbers of `of` when there are any."""
    return Comparison(
        ratio=None if of is None else of.ratio,
        low=None if of is None else of.low,
        high=None if of is None else of.high,
        verdict=Verdict.INCONCLUSIVE,
        is_significant=False,
        is_relevant=of is not None and of.is_relevant,
        reason=reason,
    )


def _launch_medians(measurement: Measurement) -> np.ndarray:
    return np.asarray(launch_medians(measurement.samples, launches=measurement.launches))


def _within_sd(measurement: Measurement) -> float:
    # Several launches show the complete spread; a single one shows only the error of its own
    # median.
    if len(measurement.launches) > 1:
        return 0.0
    low, high = order_statistic_interval(np.log(measurement.samples).tolist())
    return (high - low) / (2 * NORMAL_95)


def _compare_counts(baseline: Measurement, candidate: Measurement, metric: Metric) -> Comparison:
    # The highest count of any launch: a graph break in one process of three is a graph break.
    before, after = max(baseline.samples), max(candidate.samples)
    ratio = after / before if before else (1.0 if after == before else None)
    changed = after != before
    verdict = _verdict(after > before, metric.direction) if changed else Verdict.UNCHANGED
    text = f"{before:g} -> {after:g}" if changed else f"{before:g} on both sides"
    return Comparison(
        ratio=ratio,
        low=ratio,
        high=ratio,
        verdict=verdict,
        is_significant=changed,
        is_relevant=changed,
        reason=f"{text}; counts have no noise" if metric.is_exact else "the same on both sides",
    )


def _verdict(is_higher: bool, direction: Direction) -> Verdict:
    is_worse = is_higher == (direction is Direction.LOWER_IS_BETTER)
    return Verdict.REGRESSION if is_worse else Verdict.IMPROVEMENT


def _is_relevant(ratio: float, *, low: float, high: float, floor: float) -> bool:
    far = high if ratio > 1 else low
    return _size(ratio) > 1 + DEFAULT_CONFIG.trigger_share * floor and _size(far) >= 1 + floor


def _size(ratio: float) -> float:
    # The floor is the same factor in both directions: 1 / 1.05 reverses 1.05.
    return max(ratio, 1 / ratio)


def _percent(ratio: float) -> str:
    return signed_percent(ratio - 1)


def _ratio(log: float) -> float:
    return math.exp(max(-_MAX_LOG, min(log, _MAX_LOG)))

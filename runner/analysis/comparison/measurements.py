"""Compare two measurements of one case: the ratio of candidate to baseline.

Method: Student's interval of the difference of mean log launch levels, with the noise that
noise_model.py learnt. A change is significant by its p-value against the error that all comparisons
made together share. It is **unchanged** when two one-sided tests rule out a change of the floor
(log_change.py). It is **identical** when all samples of both sides are the same numbers. Counts are
compared exactly. Significant and relevant (a change of the floor is not ruled out, and the ratio
comes near it) are two facts; a verdict of change needs both. A rule that the ratio itself must
exceed the floor would miss half of all changes of just that size.
Assumptions: those of noise_model.py, and like conditions on both sides: the interval includes the
difference between two evenings only as far as the noise model knows it.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from compile_hud.db.records.metrics import METRICS, Direction, Metric
from compile_hud.db.records.results import Measurement, Verdict
from compile_hud.db.shared.quantities import RANGE_TEXT, is_quantity
from compile_hud.db.shared.text import plain, signed_percent, significant
from compile_hud.runner.analysis.comparison.log_change import (
    LogChange,
    bounded_ratio,
    satterthwaite,
)
from compile_hud.runner.analysis.comparison.noise_model import ComparisonNoise, NoiseSource
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.stats.estimates import (
    Spread,
    launch_medians,
    order_statistic_interval,
)
from compile_hud.runner.analysis.stats.variance_prior import moderated

# The false discovery rate of a comparison, and the chance that any change is called significant
# with nothing changed. 2 % rather than the usual 5 %: a gate on every change fails one in fifty for
# nothing.
FAMILY_ERROR = 0.02
# The chance that a change of just the floor is called unchanged.
EQUIVALENCE_ERROR = 0.05
# Half-width of a 95 % interval, in standard deviations.
NORMAL_95 = 1.96
_SAME = "the same on both sides"
# Units of counted or computed values: no clock gives the same number to all digits.
_COUNTED_UNITS = frozenset({"1", "B"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The ratio candidate / baseline, and the verdict.

    `ratio` is None if it does not exist (a count that was 0, one side missing); `low` and `high`
    are then None too, else the 95 % interval. `is_relevant` means that the ratio is beyond the
    floor, significant or not. `change` is the estimate behind the interval, `noise` the source of
    its error, and `q_value` the false discovery rate at which it is significant; None for counts
    and identical samples. `decisive` is the interval at the error that decides.
    `decided_by` is the metric of the row that decides instead of an inconclusive one, "" for none.
    """

    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    is_significant: bool
    is_relevant: bool
    reason: str
    change: LogChange | None = None
    q_value: float | None = None
    noise: NoiseSource | None = None
    decisive: tuple[float, float] | None = None
    decided_by: str = ""

    @property
    def is_failure(self) -> bool:
        """Return whether this is a significant and relevant change in the bad direction."""
        return self.verdict is Verdict.REGRESSION


# The verdicts that a table of changes leaves out by default.
CHANGED = frozenset({Verdict.REGRESSION, Verdict.IMPROVEMENT})
CALM = frozenset({Verdict.UNCHANGED, Verdict.IDENTICAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The strictness of a verdict, and the noise.

    A change is significant at a p-value of `max_p`, and unchanged if the p-value of a change of the
    floor is at most `max_equivalence_p`. `shared_by` names the tests that share the error.
    """

    floor: float
    noise: ComparisonNoise
    max_p: float = FAMILY_ERROR
    max_equivalence_p: float = EQUIVALENCE_ERROR
    shared_by: str = "all comparisons"


def compare_measurements(
    baseline: Measurement,
    *,
    candidate: Measurement,
    judgement: Judgement,
    levels: tuple[np.ndarray, np.ndarray] | None = None,
    machine_ratio: float = 1.0,
) -> Comparison:
    """Return the comparison of two measurements; inconclusive with a reason if they do not compare.

    `levels` are those of the launches of both sides, the medians by default. `machine_ratio` is the
    part of the change that they are normalised by: the ratio is that of the medians without it.
    """
    metric = METRICS.get(baseline.metric)
    if metric is None or metric.direction is Direction.NEITHER:
        return inconclusive(f"no direction of {baseline.metric} is the better one")
    if (baseline.metric, baseline.unit) != (candidate.metric, candidate.unit):
        return inconclusive(
            f"{baseline.metric} in {baseline.unit} and {candidate.metric} in {candidate.unit}"
            " do not compare"
        )
    if baseline.samples == candidate.samples:
        return identical("the same samples on both sides")
    if not all(map(is_quantity, (*baseline.samples, *candidate.samples))):
        return inconclusive(f"a sample is out of range: a measurement can have {RANGE_TEXT}")
    if metric.is_exact:
        return _compare_counts(baseline, candidate, metric)
    if min(*baseline.samples, *candidate.samples) <= 0:
        return inconclusive("a sample is 0 or below, so there is no ratio")
    if metric.unit in _COUNTED_UNITS and len({*baseline.samples, *candidate.samples}) == 1:
        return _compare_counts(baseline, candidate, metric)
    if _is_other_count(baseline, candidate, metric, floor=judgement.floor):
        return _compare_counts(baseline, candidate, metric)
    before, after = levels or (_launch_medians(baseline), _launch_medians(candidate))
    return compare_logs(
        np.log(before),
        np.log(after),
        within=(_within_sd(baseline), _within_sd(candidate)),
        direction=metric.direction,
        judgement=judgement,
        ratio=candidate.median / baseline.median / machine_ratio,
    )


def compare_logs(
    baseline: np.ndarray,
    candidate: np.ndarray,
    *,
    direction: Direction,
    judgement: Judgement,
    within: tuple[float, float] = (0.0, 0.0),
    ratio: float | None = None,
) -> Comparison:
    """Return the comparison of two sides by the logarithms of their launches' levels.

    `within` is the standard error of a launch's level by its own samples, a lower bound of the
    spread between launches. `ratio` is as in `decide_change`.
    """
    return decide_change(
        log_change(baseline, candidate, noise=judgement.noise, within=within),
        direction=direction,
        judgement=judgement,
        ratio=ratio,
    )


def log_change(
    baseline: np.ndarray,
    candidate: np.ndarray,
    *,
    noise: ComparisonNoise,
    within: tuple[float, float] = (0.0, 0.0),
) -> LogChange:
    """Return the change from `baseline` to `candidate`, the logarithms of their launches' levels.

    `within` is as in `compare_logs`.
    """
    degrees = baseline.size + candidate.size - 2
    squares = sum(float(np.sum((side - side.mean()) ** 2)) for side in (baseline, candidate))
    launch = moderated(squares / max(1, degrees), degrees=degrees, prior=noise.launch)
    launch_variance, run_variance = launch.sd**2, noise.run.sd**2
    shares = 1 / baseline.size + 1 / candidate.size
    if noise.launch_share:
        # The run's level has been seen as a whole. A run differs by no less than its launches.
        is_more = run_variance > noise.launch_share * launch_variance
        run_variance = run_variance if is_more else 0.0
        shares -= 2 * noise.launch_share if is_more else 0.0
    parts = ((2 * run_variance, noise.run.degrees), (shares * launch_variance, launch.degrees))
    variance = sum(part for part, _ in parts)
    # The spread of a single launch's own samples is at least that between launches.
    variance += sum(max(0.0, own**2 - variance / 2) for own in within)
    return LogChange(
        log=float(candidate.mean() - baseline.mean()),
        error=math.sqrt(variance),
        degrees=satterthwaite(parts),
        launch_sd=launch.sd,
    )


def compare_log_ratios(
    differences: np.ndarray, *, direction: Direction, judgement: Judgement
) -> Comparison:
    """Return the comparison of two sides by candidate / baseline of each pair of launches.

    `differences` are the logarithms; the noise of runs is left out, since both sides share the run.
    """
    change = mean_log_change(differences, prior=judgement.noise.launch)
    return decide_change(change, direction=direction, judgement=judgement)


def mean_log_change(differences: np.ndarray, *, prior: Spread) -> LogChange:
    """Return the mean of the logarithms of candidate / baseline of pairs of launches."""
    mean = float(np.mean(differences))
    num = len(differences)
    # A difference of two launches has twice the variance of one.
    squares = float(np.sum((differences - mean) ** 2)) / 2
    launch = moderated(squares / max(1, num - 1), degrees=num - 1, prior=prior)
    return LogChange(
        log=mean,
        error=math.sqrt(2 / num) * launch.sd,
        degrees=launch.degrees,
        launch_sd=launch.sd,
        num_pairs=num,
    )


def decide_change(
    change: LogChange, *, direction: Direction, judgement: Judgement, ratio: float | None = None
) -> Comparison:
    """Return the verdict on an estimated change, with its 95 % interval.

    `ratio` is that of the two values which are shown: medians of launches, the estimate is of
    means. The interval covers both, so a single odd launch decides nothing.
    """
    if ratio is not None:
        ratio = bounded_ratio(ratio)
        change = change.covering(ratio)
    floor = judgement.floor
    is_unchanged = change.equivalence_p_value(floor) <= judgement.max_equivalence_p
    is_near_floor = _size(change.ratio) > 1 + DEFAULT_CONFIG.trigger_share * floor
    low, high = change.interval()
    ratio = change.ratio if ratio is None else ratio
    decision = _decided(
        Comparison(
            ratio=ratio,
            low=low,
            high=high,
            verdict=Verdict.INCONCLUSIVE,
            is_significant=change.p_value <= judgement.max_p,
            is_relevant=is_near_floor and not is_unchanged,
            reason="",
        ),
        direction=direction,
        floor=floor,
        is_unchanged=is_unchanged,
    )
    reason = decision.reason
    if decision.verdict is Verdict.INCONCLUSIVE:
        reason = _inconclusive_text(change, judgement)
    elif decision.verdict is Verdict.UNCHANGED and _size(max(high, 1 / low)) > 1 + floor:
        reason = f"{reason}{_equivalence_text(change, judgement)}"
    return dataclasses.replace(
        decision,
        reason=reason,
        change=change,
        noise=judgement.noise.source,
        decisive=change.interval(judgement.max_p),
    )


def is_beyond(change: LogChange, *, floor: float) -> bool:
    """Return whether the 95 % interval lies wholly beyond the floor, on either side."""
    low, high = change.interval()
    return low > 1 + floor or high < 1 / (1 + floor)


def _equivalence_text(change: LogChange, judgement: Judgement) -> str:
    """Return the interval of the two one-sided tests, which lies within the floor."""
    error_rate = 2 * judgement.max_equivalence_p
    low, high = change.interval(error_rate)
    return f": the {100 * (1 - error_rate):.3g} % interval is {_percent(low)} to {_percent(high)}"


def _inconclusive_text(change: LogChange, judgement: Judgement) -> str:
    floor = judgement.floor
    if is_beyond(change, floor=floor):
        return (
            f"p = {_p_value_text(change.p_value)} is above {_p_value_text(judgement.max_p)}, the"
            f" limit that keeps false alarms rare over {judgement.shared_by}:"
            " it takes more launches"
        )
    return f"not shown to be within {100 * floor:g} %"


def decide(
    ratio: float, *, low: float, high: float, direction: Direction, floor: float
) -> Comparison:
    """Return the verdict on a ratio with the interval that decides."""
    return _decided(
        Comparison(
            ratio=ratio,
            low=low,
            high=high,
            verdict=Verdict.INCONCLUSIVE,
            is_significant=not low <= 1 <= high,
            is_relevant=_is_relevant(ratio, low=low, high=high, floor=floor),
            reason=f"anything from {_percent(low)} to {_percent(high)} fits:"
            f" more launches are needed to tell {100 * floor:g} %",
        ),
        direction=direction,
        floor=floor,
        is_unchanged=max(_size(low), _size(high)) < 1 + floor,
    )


def _decided(
    comparison: Comparison, *, direction: Direction, floor: float, is_unchanged: bool
) -> Comparison:
    """Return `comparison` with the verdict that follows; as it is where none does."""
    ratio = comparison.ratio
    assert ratio is not None
    if comparison.is_significant and comparison.is_relevant:
        what = "exceeds" if _size(ratio) > 1 + floor else "may exceed"
        # The floor is a factor, so that of a decrease is a smaller share.
        limit = f"{100 * floor:g} %" if ratio > 1 else _percent(1 / (1 + floor))
        reason = f"{_percent(ratio)} {what} the threshold of {limit} (significant)"
        verdict = _verdict(ratio > 1, direction)
        return dataclasses.replace(comparison, verdict=verdict, reason=reason)
    if not is_unchanged:
        return comparison
    reason = f"a change of {100 * floor:g} % would have shown"
    if comparison.is_significant:
        reason = f"{_percent(ratio)} is outside noise, but not beyond {100 * floor:g} %"
    return dataclasses.replace(comparison, verdict=Verdict.UNCHANGED, reason=reason)


def identical(reason: str) -> Comparison:
    """Return the comparison of what is the same on both sides to the last digit."""
    return Comparison(
        ratio=1.0,
        low=1.0,
        high=1.0,
        verdict=Verdict.IDENTICAL,
        is_significant=False,
        is_relevant=False,
        reason=reason,
    )


def inconclusive(reason: str, *, of: Comparison | None = None, decided_by: str = "") -> Comparison:
    """Return an inconclusive comparison, with the numbers of `of` when there are any."""
    if of is not None:
        return dataclasses.replace(
            of,
            verdict=Verdict.INCONCLUSIVE,
            is_significant=False,
            reason=reason,
            decided_by=decided_by,
        )
    return Comparison(
        ratio=None,
        low=None,
        high=None,
        verdict=Verdict.INCONCLUSIVE,
        is_significant=False,
        is_relevant=False,
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


def _is_other_count(
    baseline: Measurement, candidate: Measurement, metric: Metric, *, floor: float
) -> bool:
    """Return whether a count differs by more than compilations of the same code, and relevantly."""
    before, after = max(baseline.samples), max(candidate.samples)
    least = min(abs(one - other) for one in baseline.samples for other in candidate.samples)
    return 0 < metric.compilation_spread < least and _size(after / before) > 1 + floor


def _compare_counts(baseline: Measurement, candidate: Measurement, metric: Metric) -> Comparison:
    # The highest count of any launch: a graph break in one process of three is a graph break.
    before, after = max(baseline.samples), max(candidate.samples)
    ratio = after / before if before else (1.0 if after == before else None)
    changed = after != before
    text = f"{plain(before)} -> {plain(after)}" if changed else f"{plain(before)} on both sides"
    return Comparison(
        ratio=ratio,
        low=ratio,
        high=ratio,
        verdict=_verdict(after > before, metric.direction) if changed else Verdict.UNCHANGED,
        is_significant=changed,
        is_relevant=changed,
        reason=_count_reason(text, metric) if changed or metric.is_exact else _SAME,
    )


def _count_reason(text: str, metric: Metric) -> str:
    if metric.is_exact:
        return f"{text}; counts have no noise"
    return f"{text}; compilations of the same code differ by {metric.compilation_spread:g}"


def _verdict(is_higher: bool, direction: Direction) -> Verdict:
    is_worse = is_higher == (direction is Direction.LOWER_IS_BETTER)
    return Verdict.REGRESSION if is_worse else Verdict.IMPROVEMENT


def _is_relevant(ratio: float, *, low: float, high: float, floor: float) -> bool:
    far = high if ratio > 1 else low
    return _size(ratio) > 1 + DEFAULT_CONFIG.trigger_share * floor and _size(far) >= 1 + floor


def _p_value_text(p_value: float) -> str:
    return significant(p_value, digits=2)


def _size(ratio: float) -> float:
    # The floor is the same factor in both directions: 1 / 1.05 reverses 1.05.
    return max(ratio, 1 / ratio)


def _percent(ratio: float) -> str:
    return signed_percent(ratio - 1)

"""Compare two sides whose launches were interleaved, pair by pair.

Method: Student's interval of the mean logarithm of candidate / baseline over the calm pairs of
adjacent launches. Its variance is moderated by the prior of launch_noise.py as in measurements.py.
Drift between pairs cancels, so no spread between runs is added, and the CPU time needs no control.
Disturbed pairs are left out. The sum of both sides decides which ones: it is independent of their
difference, so the choice favours neither side.

The data are tested a fixed number of times and measuring may stop at each of them. The error that
decides is divided by that number (Bonferroni; Jennison and Turnbull, Group Sequential Methods,
1999, has sharper ways). Half of it is reserved for the time, on the less noisy of the two clocks.
The interval shown is the 95 % interval of the comparison all the same. The values shown are the
geometric means of the calm launches of each side, so their ratio is the estimate.

Assumptions: the first side of a pair alternates; differences of pairs are independent, and
disturbances hit both sides equally often.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.records.results import CaseResult, Measurement, Verdict
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.cpu_clocks import CPU, WALL, judge_paired_clocks
from compile_hud.runner.analysis.comparison.log_change import LogChange
from compile_hud.runner.analysis.comparison.measurements import (
    EQUIVALENCE_ERROR,
    FAMILY_ERROR,
    Comparison,
    Judgement,
    compare_log_ratios,
    compare_measurements,
    mean_log_change,
)
from compile_hud.runner.analysis.comparison.noise_model import ComparisonNoise, NoiseSource
from compile_hud.runner.analysis.comparison.runs import (
    DEFAULT_FAIL_ABOVE,
    CaseComparison,
    floor_of,
    judged_metrics,
    rows_of,
)
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.stats.cohort import geometric_mean
from compile_hud.runner.analysis.stats.estimates import Spread
from compile_hud.runner.analysis.stats.launch_noise import (
    PAIR_PRIOR_DEGREES,
    PRIOR_DEGREES,
    calm_sd,
)
from compile_hud.runner.analysis.stats.rounds import Pair

# Factor between the numbers of pairs at two looks. Looking after each pair would cost more
# certainty than stopping a pair earlier saves.
LOOK_GROWTH = 1.5
# A pair is calm up to this many widths (from the 5th to the 25th percentile) above the calmest
# quarter: all but 2 % of normal values. The widths come from the calm end, which a neighbour does
# not affect until it disturbs most of the launches.
CALM_WIDTHS = 3.0
CALM_QUANTILES = (0.05, 0.25)
# The share of pairs that count at least: fewer could not show their own spread.
MIN_CALM_SHARE = 1 / 3
MIN_CALM_PAIRS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStandard:
    """The strictness for a pair: the floor and the half-width that is narrow enough.

    The error is divided by the looks and by the cases that are judged together. If the time of
    `num_changed` of them has changed, each may err as much more (multiple_testing.py). In the same
    way `changed_other_p` is the largest p-value of another metric that has changed in some case, 0
    for none.
    """

    fail_above: float = DEFAULT_FAIL_ABOVE
    target_interval: float = 0.02
    num_looks: int = 1
    num_cases: int = 1
    num_changed: int = 1
    changed_other_p: float = 0.0

    @property
    def max_time_p(self) -> float:
        """Return the largest p-value at which the time of a case has changed."""
        return self.num_changed * self.max_other_p

    @property
    def max_other_p(self) -> float:
        """Return the largest p-value at which one of the other metrics of a case has changed."""
        return FAMILY_ERROR / (2 * self.num_looks * self.num_cases)


def looks(min_launches: int, max_launches: int) -> tuple[int, ...]:
    """Return after how many pairs of launches to look; raise ValueError on impossible limits."""
    if not 2 <= min_launches <= max_launches:
        raise ValueError(
            f"cannot measure {min_launches} to {counted(max_launches, 'launch')} a side:"
            " at least 2 are needed, and the second number may not be the smaller one"
        )
    counts = [min_launches]
    while counts[-1] < max_launches:
        counts.append(min(max_launches, math.ceil(counts[-1] * LOOK_GROWTH)))
    return tuple(counts)


def compare_pair(
    baseline: CaseResult, *, candidate: CaseResult, standard: PairStandard
) -> list[CaseComparison]:
    """Return a row for the outcomes and each judged metric of two cases launched side by side."""
    pair = Pair(baseline, candidate)
    names = judged_metrics(pair)
    main = main_metric(pair)
    num_others = sum(not METRICS[name].is_exact for name in names) - 1
    comparisons = {}
    levels = {}
    for name in names:
        share = 1 if name == main else max(1, num_others)
        judgement = Judgement(
            floor=floor_of(name, standard.fail_above),
            noise=_pair_noise(name, device=baseline.case.device),
            max_p=(
                standard.max_time_p
                if name == main
                else max(standard.max_other_p / share, standard.changed_other_p)
            ),
            max_equivalence_p=EQUIVALENCE_ERROR / standard.num_looks,
            shared_by=_shared_by(standard, num_metrics=0 if name == main else share),
        )
        calm = _calm_levels(pair, name)
        if calm is None:
            comparisons[name] = _compare_unpaired(pair, name, judgement)
            continue
        comparisons[name] = compare_log_ratios(
            np.log(calm[1] / calm[0]), direction=METRICS[name].direction, judgement=judgement
        )
        levels[name] = (geometric_mean(calm[0].tolist()), geometric_mean(calm[1].tolist()))
    if baseline.case.device == "cpu":
        comparisons |= judge_paired_clocks(comparisons)
    return [_with_levels(row, levels) for row in rows_of(pair, comparisons)]


def pair_change(pair: Pair, metric: str, *, num_pairs: int) -> LogChange | None:
    """Return the change of `metric` in the first `num_pairs` pairs of launches.

    Returns None unless both sides have it in pairs.
    """
    both = pair.measurements(metric)
    if both is None or METRICS[metric].is_exact or not _are_paired(*both):
        return None
    before, after = (levels[:num_pairs] for levels in pair.launch_levels(metric))
    noise = _pair_noise(metric, device=pair.baseline.case.device)
    return mean_log_change(np.log(after / before), prior=noise.launch)


def _shared_by(standard: PairStandard, *, num_metrics: int) -> str:
    """Return the tests that share the error: `5 looks at 14 metrics of 2 cases`."""
    what = counted(num_metrics, "other metric") if num_metrics else "the time"
    looks_text = counted(standard.num_looks, "look")
    return f"{looks_text} at {what} of {counted(standard.num_cases, 'case')}"


def _with_levels(row: CaseComparison, levels: Mapping[str, tuple[float, float]]) -> CaseComparison:
    """Return `row` with its values of `levels`, which are normalised already."""
    if row.metric not in levels:
        return row
    before, after = levels[row.metric]
    return dataclasses.replace(row, baseline=before, candidate=after, machine_ratio=None)


def _pair_noise(metric: str, *, device: str) -> ComparisonNoise:
    prior = Spread(sd=calm_sd(metric, device=device), degrees=PAIR_PRIOR_DEGREES)
    return ComparisonNoise(launch=prior, source=NoiseSource.PAIRS)


def main_metric(pair: Pair) -> str:
    """Return the time that decides: CPU time where both sides have it, else wall time."""
    return WALL if pair.measurements(CPU) is None else CPU


def is_decided(rows: Sequence[CaseComparison], *, standard: PairStandard) -> bool:
    """Return whether more launches would hardly change the verdict of `rows` on the time."""
    times = {row.metric: row.comparison for row in rows}
    time = times.get(CPU) or times.get(WALL)
    if time is None or time.low is None or time.high is None:
        return True
    trigger = 1 + DEFAULT_CONFIG.trigger_share * standard.fail_above
    is_narrow = math.sqrt(time.high / time.low) <= 1 + standard.target_interval
    low, high = time.decisive or (time.low, time.high)
    return (
        (is_narrow and time.verdict is not Verdict.INCONCLUSIVE)
        or max(high, 1 / low) < trigger
        or max(low, 1 / high) > trigger
    )


def _calm_levels(pair: Pair, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the levels of both sides in the calm pairs of launches; None without pairs."""
    both = pair.measurements(name)
    assert both is not None
    metric = METRICS[name]
    if metric.is_exact or not _are_paired(*both):
        return None
    before, after = pair.launch_levels(name)
    # A ratio alone does not show disturbances; the sum of its two times does.
    times = (before, after)
    if metric.direction is Direction.HIGHER_IS_BETTER:
        times = pair.launch_levels(main_metric(pair))
    if len(times[0]) != len(before):
        return before, after
    calm = calm_pairs(*times)
    return before[calm], after[calm]


def _compare_unpaired(pair: Pair, name: str, judgement: Judgement) -> Comparison:
    both = pair.measurements(name)
    assert both is not None
    prior = dataclasses.replace(judgement.noise.launch, degrees=PRIOR_DEGREES)
    noise = dataclasses.replace(judgement.noise, launch=prior)
    return compare_measurements(
        both[0],
        candidate=both[1],
        judgement=dataclasses.replace(judgement, noise=noise),
        levels=pair.launch_levels(name),
    )


def calm_pairs(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the indices of the undisturbed pairs of times above 0, the calmest first."""
    sums = np.log(before) + np.log(after)
    min_width, quarter = np.quantile(sums, CALM_QUANTILES)
    num_calm = int(np.sum(sums <= quarter + CALM_WIDTHS * (quarter - min_width)))
    min_pairs = min(len(sums), max(MIN_CALM_PAIRS, math.ceil(MIN_CALM_SHARE * len(sums))))
    return np.argsort(sums, kind="stable")[: max(num_calm, min_pairs)]


def _are_paired(baseline: Measurement, right: Measurement) -> bool:
    """Return whether launch i of one side belongs to launch i of the other."""
    return (
        baseline.unit == right.unit
        and len(baseline.launches) == len(right.launches) > 1
        and min(*baseline.launches, *right.launches, *baseline.samples, *right.samples) > 0
    )

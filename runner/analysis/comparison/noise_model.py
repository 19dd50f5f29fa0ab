"""Learn the noise of launches and runs of one build from the history and the other cases.

Method: the spread comes from the first available one of these.
(a) History: the spread of a run's level by the runs of the series (run_spread.py), moderated by
those of all series of the metric (variance_prior.py).
(b) Cases: the spread between runs by the changes of all cases of the metric in the two compared
runs. Most cases are taken to be the same code. The common part of all changes counts as noise up to
half of the floor. A case without a history has the prior of the other histories.
(c) The fixed table of launch_noise.py.
The spread between launches comes from the launches of the case. It is moderated by those of all
cases of the metric in both runs, and by the table if these are too few.
Assumptions: those of variance_prior.py and run_spread.py; in (b), more than half of the cases did
not change by more than the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.point_columns import PointColumns, point_columns
from compile_hud.db.records.summaries import Series
from compile_hud.runner.analysis.judging.machine_speed import normalised_series
from compile_hud.runner.analysis.stats.estimates import Spread, robust_sd
from compile_hud.runner.analysis.stats.launch_levels import SPEED_PROBE
from compile_hud.runner.analysis.stats.launch_noise import (
    PRIOR_DEGREES,
    prior_sd,
    run_sd,
)
from compile_hud.runner.analysis.stats.rounds import Pair
from compile_hud.runner.analysis.stats.run_spread import run_spread
from compile_hud.runner.analysis.stats.variance_prior import MIN_SD, fit_variance_prior, moderated

# A comparison learns from the history of what is judged, and of the speed that normalises times.
NOISE_METRICS = (
    *(name for name, metric in METRICS.items() if metric.is_judged and not metric.is_exact),
    SPEED_PROBE,
)
# Runs of a history that describe the noise, the two compared ones included: two months of nights.
# Older nights hardly describe the current noise.
HISTORY_RUNS = 62
# Cases of the two runs that show a spread between runs: fewer changes show none.
MIN_CASES = 6
# Cases differ in how much runs move them, and each has one change: the spread that they have in
# common says as much about one of them as so many runs of its own.
MAX_CASE_DEGREES = 8.0
# A robust sd of normal values errs as an ordinary one of half as many does.
_DEGREES_PER_CHANGE = 0.5
# A common change of all cases counts as noise of the run up to this many floors.
COMMON_SHARE = 0.5


class NoiseSource(StrEnum):
    """The source of a comparison's spread."""

    HISTORY = "history"
    CASES = "cases"
    TABLE = "table"
    PAIRS = "pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonNoise:
    """The spread of a metric between launches and, beyond it, between runs; both relative.

    The degrees of `launch` are those of a prior: the launches of a comparison come on top. `run` is
    the spread of a whole run's level where `launch_share` is above 0: that share of the variance
    of a launch is in it.
    """

    launch: Spread
    run: Spread = Spread(sd=0.0, degrees=math.inf)
    source: NoiseSource = NoiseSource.TABLE
    launch_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The series that runs are compared with, without the runs in `run_ids`."""

    series: Sequence[Series] = ()
    scope: tuple[str, str] = ("", "")
    run_ids: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseModel:
    """The learnt spreads: by metric and, for runs, by the key of the case."""

    launches: Mapping[tuple[str, str], Spread] = field(default_factory=dict)
    histories: Mapping[tuple[str, str], Spread] = field(default_factory=dict)
    history_priors: Mapping[tuple[str, str], Spread] = field(default_factory=dict)
    runs: Mapping[tuple[str, str], Spread] = field(default_factory=dict)

    def noise(self, pair: Pair, metric: str, *, is_quiet: bool = True) -> ComparisonNoise:
        """Return the noise of `metric` in `pair`, which both sides have."""
        case = pair.baseline.case
        key = (metric, case.device)
        launch = self.launches.get(key)
        own = self.histories.get((case.key, metric))
        level = own or self.history_priors.get(key)
        if level is not None:
            share = _median_share(_num_launches(pair, metric))
            # Single launches tell nothing of themselves: the runs differ by as much as they do.
            launch = launch or Spread(sd=level.sd / math.sqrt(share), degrees=level.degrees)
            source = NoiseSource.CASES if own is None else NoiseSource.HISTORY
            return ComparisonNoise(launch=launch, run=level, source=source, launch_share=share)
        table = Spread(
            sd=prior_sd(metric, device=case.device, is_quiet=is_quiet), degrees=PRIOR_DEGREES
        )
        if key in self.runs:
            return ComparisonNoise(
                launch=launch or Spread(sd=0.0, degrees=math.inf),
                run=self.runs[key],
                source=NoiseSource.CASES,
            )
        return ComparisonNoise(
            launch=launch or table,
            run=Spread(sd=run_sd(metric, device=case.device), degrees=math.inf),
            source=NoiseSource.TABLE if launch is None else NoiseSource.CASES,
        )


def learn_noise(
    pairs: Sequence[Pair],
    *,
    metrics: Collection[str],
    history: History,
    floors: Mapping[str, float],
) -> NoiseModel:
    """Return the noise of `metrics`, which have samples above 0, in the cases of `pairs`.

    `floors` has the floor of each metric.
    """
    noisy = [name for name in metrics if not METRICS[name].is_exact]
    histories = _history_spreads(history, metrics=noisy)
    priors = _history_priors(histories)
    launches = {}
    runs = {}
    for (metric, device), logs in _levels(pairs, metrics=noisy).items():
        launch = _launch_prior(logs)
        if launch is not None:
            launches[metric, device] = launch
        run = _run_spread_of_cases(logs, launch=launch, floor=floors[metric])
        if run is not None:
            runs[metric, device] = run
    return NoiseModel(
        launches=launches,
        histories={
            (key, metric): moderated(spread.sd**2, degrees=spread.degrees, prior=prior)
            if (prior := priors.get((metric, device)))
            else spread
            for (key, metric, device), spread in histories.items()
        },
        history_priors=priors,
        runs=runs,
    )


_Sides = tuple[np.ndarray, np.ndarray]


def _levels(
    pairs: Iterable[Pair], *, metrics: Sequence[str]
) -> dict[tuple[str, str], list[_Sides]]:
    """Return the log levels of the launches of both sides of each case, by metric and device."""
    levels: dict[tuple[str, str], list[_Sides]] = defaultdict(list)
    for pair in pairs:
        for metric in metrics:
            if pair.measurements(metric) is None:
                continue
            before, after = pair.launch_levels(metric)
            bounds = (min(before.min(), after.min()), max(before.max(), after.max()))
            # The mean of two numbers at the end of the floats is infinite.
            if bounds[0] > 0 and np.isfinite(bounds[1]):
                levels[metric, pair.baseline.case.device].append((np.log(before), np.log(after)))
    return levels


def _launch_prior(cases: Sequence[_Sides]) -> Spread | None:
    degrees = [before.size + after.size - 2 for before, after in cases]
    variances = [
        sum(float(np.sum((side - side.mean()) ** 2)) for side in sides) / max(1, number)
        for sides, number in zip(cases, degrees, strict=True)
    ]
    return fit_variance_prior(variances, degrees)


def _run_spread_of_cases(
    cases: Sequence[_Sides], *, launch: Spread | None, floor: float
) -> Spread | None:
    """Return the spread between runs, beyond that of launches, by the changes of all cases."""
    if len(cases) < MIN_CASES:
        return None
    changes = np.array([after.mean() - before.mean() for before, after in cases])
    common = min(abs(float(np.median(changes))), COMMON_SHARE * math.log1p(floor))
    variance = robust_sd(changes) ** 2 + common**2
    if launch is not None:
        shares = [1 / before.size + 1 / after.size for before, after in cases]
        variance -= launch.sd**2 * float(np.median(shares))
    degrees = min(MAX_CASE_DEGREES, _DEGREES_PER_CHANGE * (len(cases) - 1))
    return Spread(sd=math.sqrt(max(MIN_SD**2, variance) / 2), degrees=degrees)


def _history_spreads(
    history: History, *, metrics: Sequence[str]
) -> dict[tuple[str, str, str], Spread]:
    """Return the spread of a run's level in each series, by key of the case, metric and device."""
    spreads = {}
    for series in normalised_series(history.series, scope=history.scope, has_references=True):
        case, metric = series.header.case, series.header.metric
        if metric not in metrics:
            continue
        points: PointColumns = point_columns(series.header.key, series.points)
        spread = run_spread(points.without_runs(history.run_ids).medians)
        if spread is not None:
            spreads[case.key, metric, case.device] = spread
    return spreads


def _history_priors(
    spreads: Mapping[tuple[str, str, str], Spread],
) -> dict[tuple[str, str], Spread]:
    by_metric: dict[tuple[str, str], list[Spread]] = defaultdict(list)
    for (_, metric, device), spread in spreads.items():
        by_metric[metric, device].append(spread)
    priors = {
        key: fit_variance_prior(
            [spread.sd**2 for spread in group], [spread.degrees for spread in group]
        )
        for key, group in by_metric.items()
    }
    return {key: prior for key, prior in priors.items() if prior is not None}


def _num_launches(pair: Pair, metric: str) -> int:
    """Return the usual number of launches of the case in a run: a side may have had more since."""
    both = pair.measurements(metric)
    assert both is not None
    return max(1, min(len(side.launches) for side in both))


def _median_share(num_launches: int) -> float:
    """Return the variance of a median of so many normal values over that of one of them."""
    return 1 / num_launches if num_launches <= 2 else (math.pi / 2) / (num_launches + 0.5)

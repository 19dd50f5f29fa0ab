"""The change of each metric over all cases of a variant, as a geometric mean. Pure.

Method: the mean over cases of the logarithm of the change. The errors of the cases are independent,
so they add up in squares; the degrees of freedom are Satterthwaite's. The interval is that of
measuring the same cases again, and says nothing about other models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Verdict
from compile_hud.runner.analysis.comparison.log_change import (
    LogChange,
    bounded_exp,
    satterthwaite,
)
from compile_hud.runner.analysis.comparison.paired import pair_change
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.release.sign_off import JudgedPair

# Of each group the first metric counts that most cases have.
_GROUPS = (
    ("latency_cpu_s", "latency_s"),
    ("eager_latency_cpu_s", "eager_latency_s"),
    ("speedup",),
    ("compile_cold_cpu_s", "compile_cold_s"),
    ("compile_warm_s",),
    ("peak_bytes",),
)
# A single case has its own row.
_MIN_CASES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanChange:
    """The geometric mean of a metric's change over `num_cases` cases of a variant.

    `num_better` and `num_worse` of the cases changed by themselves. A metric without noise has the
    mean as both ends of its interval.
    """

    variant: str
    metric: str
    num_cases: int
    num_better: int
    num_worse: int
    ratio: float
    low: float
    high: float


def mean_changes(judged: Sequence[JudgedPair]) -> tuple[MeanChange, ...]:
    """Return the changes of each variant, in the order of the cases, metric by metric."""
    by_variant: dict[str, list[JudgedPair]] = {}
    for item in judged:
        by_variant.setdefault(item.pair.baseline.case.variant, []).append(item)
    return tuple(
        mean
        for variant, items in by_variant.items()
        for mean in _of_variant(items, variant=variant)
    )


def _of_variant(judged: Sequence[JudgedPair], *, variant: str) -> Iterator[MeanChange]:
    for group in _GROUPS:
        by_metric = {name: _changes(judged, name) for name in group}
        name = max(group, key=lambda name: len(by_metric[name]))
        changes = by_metric[name]
        if len(changes) >= _MIN_CASES:
            yield _mean(changes, variant=variant, metric=name, judged=judged)


def _mean(
    changes: Sequence[LogChange], *, variant: str, metric: str, judged: Sequence[JudgedPair]
) -> MeanChange:
    num = len(changes)
    variances = [change.error**2 for change in changes]
    mean = LogChange(
        log=math.fsum(change.log for change in changes) / num,
        error=math.sqrt(math.fsum(variances)) / num,
        degrees=satterthwaite(
            (variance, change.degrees) for variance, change in zip(variances, changes, strict=True)
        ),
    )
    low, high = mean.interval() if mean.error else (mean.ratio, mean.ratio)
    verdicts = [
        row.comparison.verdict for item in judged for row in item.rows if row.metric == metric
    ]
    return MeanChange(
        variant=variant,
        metric=metric,
        num_cases=num,
        num_better=verdicts.count(Verdict.IMPROVEMENT),
        num_worse=verdicts.count(Verdict.REGRESSION),
        ratio=bounded_exp(mean.log),
        low=low,
        high=high,
    )


def _changes(judged: Sequence[JudgedPair], metric: str) -> list[LogChange]:
    known = (_change(item, metric) for item in judged)
    return [change for change in known if change is not None]


def _change(item: JudgedPair, metric: str) -> LogChange | None:
    row = next((row for row in item.rows if row.metric == metric), None)
    if row is None:
        # Eager code in the processes of a variant is measured and not judged.
        return None if METRICS[metric].is_judged else pair_change(item.pair, metric)
    return row.comparison.change or _exact_change(row)


def _exact_change(row: CaseComparison) -> LogChange | None:
    ratio = row.comparison.ratio
    has_no_noise = METRICS[row.metric].is_exact or row.comparison.verdict is Verdict.IDENTICAL
    if not has_no_noise or ratio is None or ratio <= 0:
        return None
    return LogChange(log=math.log(ratio), error=0.0, degrees=math.inf)

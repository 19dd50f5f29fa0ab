"""The change of each metric over all cases of a mode and phase, as a geometric mean. Pure.

Method: the mean over cases of the logarithm of the change. The errors of the cases are independent,
so they add up in squares; the degrees of freedom are Satterthwaite's. The interval is that of
measuring the same cases again, and says nothing about other models.

Only the pairs of launches up to the first look count. A case stops once it is decided, and those
that stop early have extreme pairs: over many cases that bias would exceed the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Phase, Verdict
from compile_hud.runner.analysis.comparison.log_change import LogChange, satterthwaite
from compile_hud.runner.analysis.comparison.paired import pair_change
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.release.runs import MIN_LAUNCHES
from compile_hud.runner.analysis.release.sign_off import JudgedPair

# Of each group the first metric counts that several cases have.
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
# More rows than this are too many to read: those without a clear change are then apart.
_MAX_ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanChange:
    """The geometric mean of a metric's change over `num_cases` cases of a variant and phase.

    `num_better` and `num_worse` of the cases changed by themselves. A metric without noise has a
    `change` without error.
    """

    variant: str
    phase: Phase
    metric: str
    num_cases: int
    num_better: int
    num_worse: int
    change: LogChange

    @property
    def is_clear(self) -> bool:
        """Return whether the interval leaves out no change at all."""
        low, high = self.change.interval()
        return not low <= 1 <= high


def mean_changes(judged: Sequence[JudgedPair]) -> tuple[MeanChange, ...]:
    """Return the changes of each variant and phase, in the order of the cases."""
    groups: dict[tuple[str, Phase], list[JudgedPair]] = {}
    for item in judged:
        case = item.pair.baseline.case
        groups.setdefault((case.variant, case.phase), []).append(item)
    return tuple(mean for items in groups.values() for mean in _means(items))


def by_clearness(
    means: Sequence[MeanChange],
) -> tuple[Sequence[MeanChange], Sequence[MeanChange]]:
    """Return the means to show and the others, which have no clear change and are many."""
    if len(means) <= _MAX_ROWS:
        return means, ()
    clear = [mean for mean in means if mean.is_clear]
    return clear, [mean for mean in means if not mean.is_clear]


def _means(judged: Sequence[JudgedPair]) -> Iterator[MeanChange]:
    for group in _GROUPS:
        for metric in group:
            changes = [change for item in judged if (change := _change(item, metric)) is not None]
            if len(changes) >= _MIN_CASES:
                yield _mean(changes, metric=metric, judged=judged)
                break


def _mean(changes: Sequence[LogChange], *, metric: str, judged: Sequence[JudgedPair]) -> MeanChange:
    num, case = len(changes), judged[0].pair.baseline.case
    variances = [item.error**2 for item in changes]
    change = LogChange(
        log=math.fsum(item.log for item in changes) / num,
        error=math.sqrt(math.fsum(variances)) / num,
        degrees=satterthwaite(
            (variance, item.degrees) for variance, item in zip(variances, changes, strict=True)
        ),
    )
    verdicts = [
        row.comparison.verdict for item in judged for row in item.rows if row.metric == metric
    ]
    return MeanChange(
        variant=case.variant,
        phase=case.phase,
        metric=metric,
        num_cases=num,
        num_better=verdicts.count(Verdict.IMPROVEMENT),
        num_worse=verdicts.count(Verdict.REGRESSION),
        change=change,
    )


def _change(item: JudgedPair, metric: str) -> LogChange | None:
    """Return the change of one case, None without one."""
    row = next((row for row in item.rows if row.metric == metric), None)
    # Eager code in the processes of a variant is measured and not judged.
    if row is None and METRICS[metric].is_judged:
        return None
    change = pair_change(item.pair, metric, num_pairs=MIN_LAUNCHES)
    if change is not None or row is None:
        return change
    # A cold compile time is that of the first launch, however many follow.
    return row.comparison.change or _exact_change(row)


def _exact_change(row: CaseComparison) -> LogChange | None:
    ratio = row.comparison.ratio
    has_no_noise = METRICS[row.metric].is_exact or row.comparison.verdict is Verdict.IDENTICAL
    if not has_no_noise or ratio is None or ratio <= 0:
        return None
    return LogChange(log=math.log(ratio), error=0.0, degrees=math.inf)

"""Judge all cases of a release together, and sum the answer up in one line.

Each case was launched in turn under both toolchains, with a look at the data after some pairs. Its
p-value is multiplied by the looks (Bonferroni), so that stopping early adds no error. The false
discovery rate of all cases is controlled by the step-up rule of multiple_testing.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from compile_hud.db.records.results import CaseResult, Outcome, Run, Verdict
from compile_hud.db.shared.text import counted, counted_of, significant
from compile_hud.runner.analysis.comparison.cpu_clocks import CPU, WALL
from compile_hud.runner.analysis.comparison.log_change import LogChange
from compile_hud.runner.analysis.comparison.measurements import EQUIVALENCE_ERROR, FAMILY_ERROR
from compile_hud.runner.analysis.comparison.paired import PairStandard, compare_pair, looks
from compile_hud.runner.analysis.comparison.runs import (
    OUTCOME,
    CaseComparison,
)
from compile_hud.runner.analysis.release.runs import (
    MIN_LAUNCHES,
    ReleaseRules,
    measured_cases,
    rules_of,
)
from compile_hud.runner.analysis.stats.estimates import student_quantile
from compile_hud.runner.analysis.stats.multiple_testing import discovery_limit
from compile_hud.runner.analysis.stats.rounds import Pair

# "Could have seen" is the change that would show in this share of the cases, each with this power.
SEEN_SHARE = 0.9
POWER = 0.9


class ReleaseAdvice(StrEnum):
    """The answer to "may this toolchain be shipped?"."""

    SHIP = "ship"
    DO_NOT_SHIP = "do not ship"
    UNDECIDED = "no regression so far"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPair:
    """One case under both toolchains, with its rows."""

    pair: Pair
    rows: tuple[CaseComparison, ...]

    @property
    def key(self) -> str:
        """Return the key of the case."""
        return self.pair.baseline.case.key

    @property
    def time(self) -> CaseComparison | None:
        """Return the row of the time that decides, None without one."""
        by_metric = {row.metric: row for row in self.rows}
        return by_metric.get(CPU) or by_metric.get(WALL)

    @property
    def worst(self) -> CaseComparison | None:
        """Return the regression to name: of the outcome or the time, else the largest one."""
        bad = [row for row in self.rows if row.comparison.is_failure]
        time = self.time
        return max(
            bad,
            key=lambda row: (row.metric == OUTCOME, row is time, size_of(row)),
            default=None,
        )

    @property
    def is_failing(self) -> bool:
        """Return whether the case fails on both sides, so that nothing is known of it."""
        return not (self.pair.baseline.outcome.is_success or self.pair.candidate.outcome.is_success)

    @property
    def is_improvement(self) -> bool:
        """Return whether the time improved and nothing regressed."""
        is_faster = _verdict(self) is Verdict.IMPROVEMENT
        return is_faster and self.worst is None

    @property
    def is_time_decided(self) -> bool:
        """Return whether the time has a verdict, or there is none."""
        return self.time is None or _is_clear(self.time)

    @property
    def is_decided(self) -> bool:
        """Return whether some row is a regression, or the time has a verdict.

        Without a time the outcome decides, unless the case fails on both sides.
        """
        if self.is_failing:
            return False
        decisive = self.time or next(row for row in self.rows if row.metric == OUTCOME)
        return self.worst is not None or _is_clear(decisive)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOff:
    """The sums of a release: cases by their answer.

    `could_have_seen` is the relative slowdown that would have been a regression in nine of ten
    cases with a time, None without any. `num_failing` cases fail on both sides, `num_unmeasured`
    ones have no result. Cases that the device cannot run are left out.
    """

    num_cases: int
    num_regressions: int
    num_improvements: int
    num_clusters: int
    num_undecided: int
    num_failing: int
    num_unmeasured: int
    could_have_seen: float | None

    @property
    def advice(self) -> ReleaseAdvice:
        """Return the answer."""
        if self.num_regressions:
            return ReleaseAdvice.DO_NOT_SHIP
        is_open = self.num_undecided or self.num_failing or self.num_unmeasured
        return ReleaseAdvice.UNDECIDED if is_open else ReleaseAdvice.SHIP

    @property
    def text(self) -> str:
        """Return the answer in one line."""
        parts = [f"{self.advice}: {self._answer}"]
        numbers = {"not measured": self.num_unmeasured, "failed on both sides": self.num_failing}
        if self.num_regressions:
            numbers = {"not decided": self.num_undecided, **numbers}
        parts += [
            f"{counted_of(number, self.num_cases, 'case')} {what}"
            for what, number in numbers.items()
            if number
        ]
        if self.could_have_seen is not None:
            size = significant(100 * self.could_have_seen, digits=2)
            parts.append(f"could have seen {size} %")
        return "; ".join(parts)

    @property
    def _answer(self) -> str:
        if self.num_regressions:
            clusters = counted(self.num_clusters, "cluster")
            return f"{counted(self.num_regressions, 'regression')} in {clusters}"
        if self.advice is ReleaseAdvice.SHIP:
            return f"no regression in {counted(self.num_cases, 'case')}"
        num_open = self.num_undecided + self.num_failing + self.num_unmeasured
        num_decided = self.num_cases - num_open
        return f"{counted_of(num_decided, self.num_cases, 'case')} decided"


def release_standard(runs: Sequence[Run]) -> PairStandard:
    """Return the standard of the cases of `runs`, one side of a release."""
    rules = rules_of(runs[0]) or ReleaseRules(baseline="", candidate="")
    return standard_of(rules, num_cases=len(measured_cases(runs)))


def standard_of(rules: ReleaseRules, *, num_cases: int) -> PairStandard:
    """Return the standard of a case on its own, one of `num_cases`."""
    return PairStandard(
        fail_above=rules.fail_above,
        num_looks=len(looks(MIN_LAUNCHES, rules.max_launches)),
        num_cases=max(1, num_cases),
    )


def judge(pair: Pair, standard: PairStandard) -> JudgedPair:
    """Return one case with its rows."""
    rows = compare_pair(pair.baseline, candidate=pair.candidate, standard=standard)
    return JudgedPair(pair=pair, rows=tuple(rows))


def judge_together(pairs: Sequence[Pair], *, standard: PairStandard) -> list[JudgedPair]:
    """Return `pairs` with their rows, at the false discovery rate over all cases of `standard`."""
    alone = [judge(pair, standard) for pair in pairs]
    together = replace(
        standard,
        num_changed=max(standard.num_changed, count_changed(alone, standard=standard)),
        changed_other_p=changed_other_p(alone, standard=standard),
    )
    return alone if together == standard else [judge(pair, together) for pair in pairs]


def count_changed(judged: Sequence[JudgedPair], *, standard: PairStandard) -> int:
    """Return the number of cases that have changed, at least 1; one without a p-value has not."""
    known = [_p_value(item) for item in judged]
    # The cases that are not measured yet count, as if nothing had changed in them.
    known += [1.0] * max(0, standard.num_cases - len(known))
    adjusted = [min(1.0, 2 * standard.num_looks * value) for value in known]
    limit = discovery_limit(adjusted, rate=FAMILY_ERROR)
    return max(1, sum(value <= limit for value in adjusted))


def changed_other_p(judged: Sequence[JudgedPair], *, standard: PairStandard) -> float:
    """Return the largest p-value at which a metric other than the time has changed, 0 for none."""
    known = [_other_p_values(item) for item in judged]
    # A case that is not measured yet has as many metrics as the others, in which nothing changed.
    num_metrics = max(map(len, known), default=0)
    values = [value for item in known for value in item]
    num_absent = num_metrics * max(0, standard.num_cases - len(known))
    adjusted = [min(1.0, 2 * standard.num_looks * value) for value in values]
    limit = discovery_limit([*adjusted, *[1.0] * num_absent], rate=FAMILY_ERROR)
    return max((p for p, a in zip(values, adjusted, strict=True) if a <= limit), default=0.0)


def sign_off(
    judged: Sequence[JudgedPair], *, num_planned: int, num_clusters: int, standard: PairStandard
) -> SignOff:
    """Return the sums of the cases, of which `num_planned` were to be measured."""
    return SignOff(
        num_cases=num_planned,
        num_regressions=sum(item.worst is not None for item in judged),
        num_improvements=sum(item.is_improvement for item in judged),
        num_clusters=num_clusters,
        num_undecided=sum(not item.is_decided and not item.is_failing for item in judged),
        num_failing=sum(item.is_failing for item in judged),
        num_unmeasured=max(0, num_planned - len(judged)),
        could_have_seen=_could_have_seen(judged, standard=standard),
    )


def num_impossible(baseline: Sequence[CaseResult], candidate: Sequence[CaseResult]) -> int:
    """Return the number of cases that the device or the environment of both sides cannot run."""
    after = {result.case.key for result in candidate if _is_impossible(result)}
    return sum(_is_impossible(result) and result.case.key in after for result in baseline)


def _is_impossible(result: CaseResult) -> bool:
    """Return whether no run could measure the case; a missing or deferred one has to wait."""
    is_left_out = result.outcome in (Outcome.SKIPPED, Outcome.UNAVAILABLE)
    return is_left_out and not result.is_deferred and not result.case.is_reference


def paired_results(baseline: Sequence[CaseResult], candidate: Sequence[CaseResult]) -> list[Pair]:
    """Return the cases that both sides attempted, without the reference cases."""
    after = {result.case.key: result for result in candidate}
    return [
        Pair(result, after[result.case.key])
        for result in baseline
        if not result.case.is_reference
        and result.case.key in after
        and (result.outcome.is_attempted or after[result.case.key].outcome.is_attempted)
    ]


def size_of(row: CaseComparison | None) -> float:
    """Return the size of a change as a logarithm: twice as fast and half as fast are equal.

    It is 0 without a ratio.
    """
    ratio = None if row is None else row.comparison.ratio
    return 0.0 if ratio is None or ratio <= 0 else abs(math.log(ratio))


def _p_value(item: JudgedPair) -> float:
    change = None if item.time is None else item.time.comparison.change
    return 1.0 if change is None else change.p_value


def _other_p_values(item: JudgedPair) -> list[float]:
    changes = [row.comparison.change for row in item.rows if row is not item.time]
    return [change.p_value for change in changes if change is not None]


def _is_clear(row: CaseComparison) -> bool:
    return row.comparison.verdict is not Verdict.INCONCLUSIVE


def _verdict(item: JudgedPair) -> Verdict | None:
    return None if item.time is None else item.time.comparison.verdict


def _could_have_seen(judged: Sequence[JudgedPair], *, standard: PairStandard) -> float | None:
    changes = [item.time.comparison.change for item in judged if item.time is not None]
    sizes = sorted(_visible(change, standard) for change in changes if change is not None)
    return sizes[math.ceil(SEEN_SHARE * len(sizes)) - 1] if sizes else None


def _visible(change: LogChange, standard: PairStandard) -> float:
    """Return the smallest slowdown that is called a regression with POWER.

    It must be significant at the error of the release, be beyond the floor, and not pass the test
    of equivalence. It is no smaller than the floor.
    """
    quantile = partial(student_quantile, degrees=change.degrees)
    floor = math.log1p(standard.fail_above)
    significant_log = quantile(1 - standard.max_time_p / 2) * change.error
    not_equal_log = floor - quantile(1 - EQUIVALENCE_ERROR / standard.num_looks) * change.error
    least = max(significant_log, not_equal_log)
    return max(standard.fail_above, math.expm1(least + quantile(POWER) * change.error))

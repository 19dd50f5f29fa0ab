"""Compare two runs, case by case and metric by metric.

Method: each comparison is that of measurements.py, with the noise that noise_model.py learns from
the history and from all cases together. Significance is decided over all comparisons with noise,
at a false discovery rate (multiple_testing.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Case, CaseResult, Run, RunDocument, Verdict
from compile_hud.db.records.summaries import Series
from compile_hud.db.shared.model_code import MODEL_COMMITS
from compile_hud.runner.analysis.comparison.cpu_clocks import SPEEDUP, judge_clocks, was_quiet
from compile_hud.runner.analysis.comparison.eager_drift import judge_by_eager
from compile_hud.runner.analysis.comparison.measurements import (
    FAMILY_ERROR,
    Comparison,
    Judgement,
    compare_measurements,
    identical,
    inconclusive,
)
from compile_hud.runner.analysis.comparison.noise_model import History, learn_noise
from compile_hud.runner.analysis.errors import NotComparableError
from compile_hud.runner.analysis.judging.machine_state import (
    ABSOLUTE_METRICS,
    CLOCKS,
    MachineChange,
    compare_machine,
    explained,
)
from compile_hud.runner.analysis.stats.multiple_testing import discovery_limit, q_values
from compile_hud.runner.analysis.stats.rounds import Pair, results_by_case

DEFAULT_FAIL_ABOVE = 0.05
# The name under which an outcome is compared, like a metric.
OUTCOME = "outcome"
# These facts identify the code and not the environment; a comparison is about their differences.
REVISION_FACTS = ("torch_version", "torch_git", "revision")
# Facts that are no part of the fingerprint, so that they forbid no comparison.
SOFTWARE_FACTS = ("packages", "model_commits")
# Measured facts of a device vary from run to run, and are no property of the environment. The
# sources of models have their revisions in another fact.
MEASURED_FACTS = ("peaks", "model_sources")


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDifference:
    """One differing fact of the environment; None if a side lacks it."""

    name: str
    baseline: Any
    candidate: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseComparison:
    """One row: a metric of a case, or its `outcome`, on both sides.

    `baseline` and `candidate` are the measured medians in `unit`, as on every other surface; None
    for an outcome. For launches in turn they are the means whose ratio is compared (paired.py).
    `machine_ratio` is the time that the fixed work took, candidate over baseline, where a time was
    normalised by it: the ratio of the comparison times this one is about that of the medians.
    """

    case: Case
    metric: str
    unit: str
    baseline: float | None
    candidate: float | None
    comparison: Comparison
    machine_ratio: float | None = None


Side = RunDocument | Sequence[CaseResult]


def compare_results(
    baseline: Side,
    candidate: Side,
    *,
    fail_above: float = DEFAULT_FAIL_ABOVE,
    histories: Sequence[Series] = (),
) -> list[CaseComparison]:
    """Return a row for each outcome and judged metric of each case, in the baseline's order.

    `fail_above` is the floor of the metrics whose own floor is 5 %; the others' floors scale with
    it. `histories` are the series of the candidate, where noise is learnt from. A case that a side
    has more than once (measured in rounds) is taken together. The reference cases have no rows:
    `compare_machine` has them. Raises NotComparableError when both sides are documents with
    different fingerprints.
    """
    if isinstance(baseline, RunDocument) and isinstance(candidate, RunDocument):
        check_comparable(baseline.run, candidate=candidate.run)
    before, after = (
        results_by_case(item for item in _results(side) if not item.case.is_reference)
        for side in (baseline, candidate)
    )
    history = history_of(baseline, candidate, histories=histories)
    changes = compare_machine(_results(baseline), candidate=_results(candidate), history=history)
    judge = _CasePairJudge(
        [Pair(before[key], after[key]) for key in before if key in after],
        fail_above=fail_above,
        history=history,
        references=changes,
        is_same_code=_is_same_code(baseline, candidate),
    )
    rows: list[CaseComparison] = []
    for key in dict.fromkeys((*before, *after)):
        if key in before and key in after:
            rows.extend(judge.rows(Pair(before[key], after[key])))
        else:
            rows.append(_one_sided(before.get(key), after.get(key)))
    with_speedup = {row.case.key for row in rows if row.metric == SPEEDUP}
    return with_q_values(
        _unless_machine(row, changes, decider=SPEEDUP if row.case.key in with_speedup else "")
        for row in rows
    )


def history_of(baseline: Side, candidate: Side, *, histories: Sequence[Series]) -> History:
    """Return the history from which the noise of both sides is learnt, without these runs."""
    if not isinstance(candidate, RunDocument) or not histories:
        return History()
    sides = [side for side in (baseline, candidate) if isinstance(side, RunDocument)]
    return History(
        series=histories,
        scope=(candidate.run.machine, candidate.run.toolchain),
        run_ids=frozenset(side.run.id for side in sides),
    )


def _is_same_code(baseline: Side, candidate: Side) -> bool:
    """Return whether both sides are runs of the same torch and the same model code."""
    if not isinstance(baseline, RunDocument) or not isinstance(candidate, RunDocument):
        return False
    before, after = baseline.run, candidate.run
    facts = (*REVISION_FACTS, MODEL_COMMITS)
    return before.revision == after.revision and all(
        before.environment.get(name) == after.environment.get(name) for name in facts
    )


def with_q_values(rows: Iterable[CaseComparison]) -> list[CaseComparison]:
    """Return `rows`, each with noise with its q-value over all of them."""
    all_rows = list(rows)
    noisy = [row for row in all_rows if row.comparison.change is not None]
    numbers = iter(q_values([_p_value(row.comparison) for row in noisy]))
    return [
        row
        if row.comparison.change is None
        else dataclasses.replace(
            row, comparison=dataclasses.replace(row.comparison, q_value=next(numbers))
        )
        for row in all_rows
    ]


def _p_value(comparison: Comparison) -> float:
    assert comparison.change is not None
    return comparison.change.p_value


class _CasePairJudge:
    """Judges the pairs of two runs, by the noise and the error that all of them share."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        *,
        fail_above: float,
        history: History,
        references: Sequence[MachineChange],
        is_same_code: bool,
    ) -> None:
        self._fail_above = fail_above
        self._references = references
        self._is_same_code = is_same_code
        metrics = {name for pair in pairs for name in judged_metrics(pair)}
        self._noise = learn_noise(
            pairs,
            metrics=metrics,
            history=history,
            floors={name: floor_of(name, fail_above) for name in metrics},
        )
        # Until all p-values are known there is no limit to hold them against.
        p_values = [
            comparison.change.p_value
            for pair in pairs
            for comparison in self._comparisons(pair, self._judgements(pair)).values()
            if comparison.change is not None
        ]
        self._max_p = discovery_limit(p_values, rate=FAMILY_ERROR)

    def rows(self, pair: Pair) -> list[CaseComparison]:
        """Return the rows of `pair`, one of those that this judges."""
        if pair.baseline == pair.candidate:
            same = identical("both sides are the same result")
            outcome = dataclasses.replace(same, ratio=None, low=None, high=None)
            return rows_of(pair, dict.fromkeys(judged_metrics(pair), same), outcome=outcome)
        device = pair.baseline.case.device
        judgements = self._judgements(pair, max_p=self._max_p)
        comparisons = self._comparisons(pair, judgements)
        if device == "cpu":
            comparisons |= judge_clocks(pair, comparisons, judgements, is_quiet=was_quiet(pair))
        comparisons |= judge_by_eager(
            pair,
            comparisons,
            judgements,
            references=self._references,
            is_same_code=self._is_same_code,
        )
        return rows_of(pair, comparisons)

    def _judgements(self, pair: Pair, *, max_p: float = FAMILY_ERROR) -> dict[str, Judgement]:
        is_quiet = pair.baseline.case.device != "cpu" or was_quiet(pair)
        return {
            name: Judgement(
                floor=floor_of(name, self._fail_above),
                noise=self._noise.noise(pair, name, is_quiet=is_quiet),
                max_p=max_p,
            )
            for name in judged_metrics(pair)
        }

    def _comparisons(
        self, pair: Pair, judgements: Mapping[str, Judgement]
    ) -> dict[str, Comparison]:
        return {name: _compare_metric(pair, name, item) for name, item in judgements.items()}


def _unless_machine(
    row: CaseComparison, changes: Sequence[MachineChange], *, decider: str
) -> CaseComparison:
    """Return `row`; an absolute time that machine drift explains becomes inconclusive."""
    has_changed = row.comparison.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)
    if not has_changed or row.metric not in ABSOLUTE_METRICS:
        return row
    mover = explained(row.comparison, by=changes)
    if mover is None:
        return row
    reason = f"machine drift: {mover.text}; the speedup over eager decides"
    # A compile time is in no ratio to eager.
    decider = decider if row.metric in CLOCKS else ""
    comparison = inconclusive(reason, of=row.comparison, decided_by=decider)
    return dataclasses.replace(row, comparison=comparison)


def environment_differences(baseline: Run, *, candidate: Run) -> tuple[FactDifference, ...]:
    """Return the differing facts of the two environments, by name, without measured ones.

    Of tables, such as packages and commits, only the differing entries are included.
    """
    return _fact_differences(baseline.environment, candidate.environment)


def baseline_differences(
    before: Mapping[str, Any], *, after: Mapping[str, Any]
) -> tuple[FactDifference, ...]:
    """Return the differing facts that start a new baseline: neither torch's nor software."""
    return tuple(
        item
        for item in _fact_differences(before, after)
        if item.name not in (*REVISION_FACTS, *SOFTWARE_FACTS)
    )


def _fact_differences(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[FactDifference, ...]:
    return tuple(
        _difference(name, before.get(name), after.get(name))
        for name in sorted({*before, *after}.difference(MEASURED_FACTS))
        if before.get(name) != after.get(name)
    )


def _difference(name: str, before: Any, after: Any) -> FactDifference:
    if name in SOFTWARE_FACTS and isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
        before, after = ({key: side.get(key) for key in keys} for side in (before, after))
    return FactDifference(name=name, baseline=before, candidate=after)


def check_comparable(baseline: Run, *, candidate: Run) -> None:
    """Raise NotComparableError, naming the facts that differ, unless the fingerprints are equal."""
    if baseline.fingerprint == candidate.fingerprint:
        return
    differences = baseline_differences(baseline.environment, after=candidate.environment)
    texts = [f"{item.name}: {item.baseline!r} -> {item.candidate!r}" for item in differences]
    raise NotComparableError(
        f"runs {baseline.id} and {candidate.id} do not compare: their environments differ in"
        f" {'; '.join(texts) or 'facts that were not recorded'}."
        " Measure both sides on the same machine with the same settings; two toolchains that"
        " differ so are compared by `hud compare --toolchain A --toolchain B`",
        baseline=baseline.id,
        candidate=candidate.id,
        differences=tuple(texts),
    )


def has_failure(rows: Sequence[CaseComparison]) -> bool:
    """Return whether some row is a significant and relevant change in the bad direction."""
    return any(row.comparison.is_failure for row in rows)


def _results(side: Side) -> Sequence[CaseResult]:
    return side.results if isinstance(side, RunDocument) else side


def judged_metrics(pair: Pair) -> list[str]:
    """Return the names of the metrics that both sides have and that are judged."""
    names = [item.metric for item in pair.baseline.measurements]
    return [
        name
        for name in names
        if name in METRICS and METRICS[name].is_judged and pair.measurements(name)
    ]


def rows_of(
    pair: Pair, comparisons: Mapping[str, Comparison], *, outcome: Comparison | None = None
) -> list[CaseComparison]:
    """Return the row of the outcomes and one for each of `comparisons`, with measured medians."""
    rows = {OUTCOME: outcome or _compare_outcomes(pair), **comparisons}
    return [_row(pair, name, comparison) for name, comparison in rows.items()]


def floor_of(metric: str, fail_above: float) -> float:
    """Return the floor of `metric` where that of a time is `fail_above`."""
    return METRICS[metric].relevance_floor * fail_above / DEFAULT_FAIL_ABOVE


def _compare_metric(pair: Pair, metric: str, judgement: Judgement) -> Comparison:
    both = pair.measurements(metric)
    assert both is not None
    return compare_measurements(
        both[0],
        candidate=both[1],
        judgement=judgement,
        levels=pair.launch_levels(metric),
        machine_ratio=pair.machine_ratio(metric) or 1.0,
    )


def _compare_outcomes(pair: Pair) -> Comparison:
    before, after = pair.baseline.outcome, pair.candidate.outcome
    was_ok, is_ok = before.is_success, after.is_success
    if not (before.is_attempted and after.is_attempted) and before is not after:
        return inconclusive(f"{before} -> {after}: nothing was measured on one side")
    verdict = Verdict.UNCHANGED
    if was_ok != is_ok:
        verdict = Verdict.IMPROVEMENT if is_ok else Verdict.REGRESSION
    text = f"{before} on both sides" if before is after else f"{before} -> {after}"
    why = pair.candidate.reason if not is_ok else ""
    return Comparison(
        ratio=None,
        low=None,
        high=None,
        verdict=verdict,
        is_significant=was_ok != is_ok,
        is_relevant=was_ok != is_ok,
        reason=f"{text}: {why}" if why else text,
    )


def _one_sided(baseline: CaseResult | None, candidate: CaseResult | None) -> CaseComparison:
    result = baseline or candidate
    assert result is not None
    where = "baseline" if candidate is None else "candidate"
    return CaseComparison(
        case=result.case,
        metric=OUTCOME,
        unit="",
        baseline=None,
        candidate=None,
        comparison=inconclusive(f"only the {where} has this case ({result.outcome})"),
    )


def _row(pair: Pair, metric: str, comparison: Comparison) -> CaseComparison:
    both = pair.measurements(metric)
    return CaseComparison(
        case=pair.baseline.case,
        metric=metric,
        unit="" if both is None else both[0].unit,
        baseline=None if both is None else both[0].median,
        candidate=None if both is None else both[1].median,
        comparison=comparison,
        machine_ratio=None if both is None else pair.machine_ratio(metric),
    )

"""Measure more launches of the undecided cases of a comparison of two runs.

The launches of both sides are interleaved if there are toolchains at both revisions: the spread
between runs is then no part of the comparison. Otherwise the candidate alone is launched in rounds,
and compared with the baseline by the learnt noise. Cases with an undecided speedup come first and
share the time: a speedup decides between modes, and its sides share the machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from compile_hud.db.records.results import Case, CaseResult, Outcome, RunDocument, Verdict
from compile_hud.db.records.summaries import Series
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.paired import PairStandard, is_decided
from compile_hud.runner.analysis.comparison.resolution import is_undecided, launches_to_settle
from compile_hud.runner.analysis.comparison.runs import CaseComparison, compare_results
from compile_hud.runner.detection.confirm_comparison import with_bench
from compile_hud.runner.detection.remeasure import Bench, Toolchain
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.cold_cache_sessions import LAUNCHES_FROM_COLD
from compile_hud.runner.execution.paired_launches import MIN_PAIRS, PairLimits, PairResult
from compile_hud.runner.workspace import Workspace

SPEEDUP = "speedup"
# More rounds of a candidate narrow nothing: the baseline's launches are what they are.
MAX_ROUNDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecidedCase:
    """A case with undecided rows, and the most launches that one of them needs.

    It `is_by_speedup` if its speedup is one of them.
    """

    case: Case
    num_launches: int = 0
    is_by_speedup: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSettler:
    """Takes more launches of undecided cases for `budget`.

    Cases with an undecided speedup come first, then those that need the fewest launches.
    """

    budget: timedelta
    fail_above: float
    workspace: Workspace
    notify: Notify

    def rows(
        self,
        rows: Sequence[CaseComparison],
        *,
        baseline: RunDocument,
        candidate: RunDocument,
        histories: Sequence[Series] = (),
    ) -> list[CaseComparison]:
        """Return `rows`; each undecided row has what more launches say of it.

        The device is locked meanwhile. Raises RunInterrupted after a stop.
        """
        cases = undecided_cases(rows, fail_above=self.fail_above)
        if not cases:
            return list(rows)
        documents = (baseline, candidate)
        repeated = with_bench(
            candidate,
            lambda bench: self._measure(bench, cases, documents, histories),
            what="undecided cases",
            workspace=self.workspace,
            notify=self.notify,
        )
        by_key = {(row.case.key, row.metric): row for row in repeated}
        return [_settled(row, by_key.get((row.case.key, row.metric))) for row in rows]

    def _measure(
        self,
        bench: Bench,
        cases: Sequence[UndecidedCase],
        documents: tuple[RunDocument, RunDocument],
        histories: Sequence[Series],
    ) -> list[CaseComparison]:
        before, after = documents
        other = bench.baseline(before.run.revision)
        if before.run.revision == after.run.revision:
            other = bench.candidate()
        how = "alone" if other is None else f"in turn with toolchain {other.name}"
        text = f"{counted(len(cases), 'case')} undecided: more launches {how}"
        self.notify(LogMessage(text=text))
        end = self.workspace.dependencies.now() + self.budget
        if other is None:
            return self._in_rounds(bench, cases, documents, histories, end)
        rows: list[CaseComparison] = []
        for index, item in enumerate(cases):
            left = end - self.workspace.dependencies.now()
            if left <= timedelta(0):
                break
            num_left = sum(later.is_by_speedup is item.is_by_speedup for later in cases[index:])
            stop = end - left + left / num_left
            rows.extend(self._in_turn(bench, item, other, num_cases=len(cases), stop=stop))
        return rows

    def _in_turn(
        self, bench: Bench, item: UndecidedCase, other: Toolchain, *, num_cases: int, stop: datetime
    ) -> Sequence[CaseComparison]:
        """Return the rows of launches in turn until they are decided or `stop` has come."""
        limits = PairLimits(min_launches=MIN_PAIRS, fail_above=self.fail_above, num_cases=num_cases)
        standard = PairStandard(fail_above=self.fail_above)

        def is_enough(pair: PairResult, _number: int) -> bool:
            if self.workspace.dependencies.now() >= stop:
                return True
            speedup = next((row for row in pair.rows if row.metric == SPEEDUP), None)
            if item.is_by_speedup and speedup is not None:
                return speedup.comparison.verdict is not Verdict.INCONCLUSIVE
            return is_decided(pair.rows, standard=standard)

        pair = bench.measure_in_turn(item.case, baseline=other, limits=limits, is_enough=is_enough)
        are_ok = all(side.outcome is Outcome.OK for side in (pair.baseline, pair.candidate))
        return pair.rows if are_ok else ()

    def _in_rounds(
        self,
        bench: Bench,
        cases: Sequence[UndecidedCase],
        documents: tuple[RunDocument, RunDocument],
        histories: Sequence[Series],
        end: datetime,
    ) -> list[CaseComparison]:
        """Return the rows of the candidate with more rounds, until all are decided or at `end`."""
        before, after = documents
        more: list[CaseResult] = []
        rows: list[CaseComparison] = []
        waiting = [item.case for item in cases]
        for _ in range(MAX_ROUNDS):
            num_before = len(more)
            for case in waiting:
                if self.workspace.dependencies.now() >= end:
                    break
                result = bench.measure(case)
                if result.outcome is Outcome.OK:
                    more.append(result)
            # All cases are compared, since their noise is learnt together.
            longer = dataclasses.replace(after, results=(*after.results, *more))
            rows = compare_results(before, longer, fail_above=self.fail_above, histories=histories)
            undecided = {
                item.case.key for item in undecided_cases(rows, fail_above=self.fail_above)
            }
            waiting = [case for case in waiting if case.key in undecided]
            is_over = self.workspace.dependencies.now() >= end
            if not waiting or is_over or len(more) == num_before:
                break
        return rows


def undecided_cases(rows: Sequence[CaseComparison], *, fail_above: float) -> list[UndecidedCase]:
    """Return the undecided cases in the order in which they are launched."""
    needed: dict[str, UndecidedCase] = {}
    for row in rows:
        num = launches_to_settle(row, fail_above=fail_above)
        # A launch that finds a warm cache says nothing about a cold compilation.
        if num is not None and LAUNCHES_FROM_COLD.get(row.metric) != 1:
            known = needed.get(row.case.key, UndecidedCase(case=row.case))
            needed[row.case.key] = dataclasses.replace(
                known,
                num_launches=max(num, known.num_launches),
                is_by_speedup=known.is_by_speedup or row.metric == SPEEDUP,
            )
    return sorted(needed.values(), key=lambda item: (not item.is_by_speedup, item.num_launches))


def _settled(row: CaseComparison, repeated: CaseComparison | None) -> CaseComparison:
    if repeated is None or repeated.comparison.ratio is None or not is_undecided(row):
        return row
    comparison = repeated.comparison
    reason = f"after more launches: {comparison.reason}"
    return dataclasses.replace(
        repeated,
        comparison=dataclasses.replace(comparison, reason=reason, q_value=row.comparison.q_value),
    )

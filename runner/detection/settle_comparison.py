"""Measure more launches of the undecided cases of a comparison of two runs.

The launches of both sides are interleaved if there are toolchains at both revisions: the spread
between runs is then no part of the comparison. Otherwise the candidate alone is launched in rounds,
and compared with the baseline by the learnt noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from compile_hud.db.records.results import Case, CaseResult, Outcome, RunDocument
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

# More rounds of a candidate narrow nothing: the baseline's launches are what they are.
MAX_ROUNDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSettler:
    """Takes more launches of undecided cases for `budget`, those that need the fewest first."""

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
        cases = self._undecided(rows)
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

    def _undecided(self, rows: Sequence[CaseComparison]) -> list[Case]:
        """Return the undecided cases, those that need the fewest launches first."""
        needed: dict[str, tuple[int, Case]] = {}
        for row in rows:
            num = launches_to_settle(row, fail_above=self.fail_above)
            # A launch that finds a warm cache says nothing about a cold compilation.
            if num is not None and LAUNCHES_FROM_COLD.get(row.metric) != 1:
                most = max(num, needed.get(row.case.key, (0, row.case))[0])
                needed[row.case.key] = (most, row.case)
        return [case for _, case in sorted(needed.values(), key=lambda item: item[0])]

    def _measure(
        self,
        bench: Bench,
        cases: Sequence[Case],
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
        for index, case in enumerate(cases):
            left = end - self.workspace.dependencies.now()
            if left <= timedelta(0):
                break
            stop = end - left + left / (len(cases) - index)
            rows.extend(self._in_turn(bench, case, other, num_cases=len(cases), stop=stop))
        return rows

    def _in_turn(
        self, bench: Bench, case: Case, other: Toolchain, *, num_cases: int, stop: datetime
    ) -> Sequence[CaseComparison]:
        """Return the rows of launches in turn until they are decided or `stop` has come."""
        limits = PairLimits(min_launches=MIN_PAIRS, fail_above=self.fail_above, num_cases=num_cases)
        standard = PairStandard(fail_above=self.fail_above)

        def is_enough(pair: PairResult, _number: int) -> bool:
            is_over = self.workspace.dependencies.now() >= stop
            return is_over or is_decided(pair.rows, standard=standard)

        pair = bench.measure_in_turn(case, baseline=other, limits=limits, is_enough=is_enough)
        are_ok = all(side.outcome is Outcome.OK for side in (pair.baseline, pair.candidate))
        return pair.rows if are_ok else ()

    def _in_rounds(
        self,
        bench: Bench,
        cases: Sequence[Case],
        documents: tuple[RunDocument, RunDocument],
        histories: Sequence[Series],
        end: datetime,
    ) -> list[CaseComparison]:
        """Return the rows of the candidate with more rounds, until all are decided or at `end`."""
        before, after = documents
        more: list[CaseResult] = []
        rows: list[CaseComparison] = []
        waiting = list(cases)
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
            undecided = {case.key for case in self._undecided(rows)}
            waiting = [case for case in waiting if case.key in undecided]
            is_over = self.workspace.dependencies.now() >= end
            if not waiting or is_over or len(more) == num_before:
                break
        return rows


def _settled(row: CaseComparison, repeated: CaseComparison | None) -> CaseComparison:
    if repeated is None or repeated.comparison.ratio is None or not is_undecided(row):
        return row
    comparison = repeated.comparison
    reason = f"after more launches: {comparison.reason}"
    return dataclasses.replace(
        repeated,
        comparison=dataclasses.replace(comparison, reason=reason, q_value=row.comparison.q_value),
    )

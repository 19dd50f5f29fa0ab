"""Measure the suspects of a comparison of two runs again, before any notification."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compile_hud.db.records.results import Case, RunDocument
from compile_hud.db.shared.text import counted, signed_percent
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.analysis.comparison.measurements import Comparison
from compile_hud.runner.analysis.comparison.runs import CaseComparison, compare_results
from compile_hud.runner.detection.confirm import MIN_COLD_PAIRS
from compile_hud.runner.detection.remeasure import Bench, Toolchain
from compile_hud.runner.errors import ExecutorError, RunInterrupted
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.cold_cache_sessions import LAUNCHES_FROM_COLD
from compile_hud.runner.execution.paired_launches import PairLimits
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.locks import device_lock
from compile_hud.runner.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonConfirmer:
    """Re-measures suspects `num_runs` times each, interleaved with each other.

    If a toolchain has the baseline's revision, both sides are measured with interleaved launches.
    """

    num_runs: int
    fail_above: float
    workspace: Workspace
    notify: Notify

    def rows(
        self, rows: Sequence[CaseComparison], *, baseline: RunDocument, candidate: RunDocument
    ) -> list[CaseComparison]:
        """Return `rows`; each failing row has the result of measuring its case again.

        If that is impossible, the case fails as before, with the reason. The device is locked
        meanwhile. Raises RunInterrupted after a stop.
        """
        suspects = {row.case.key: row.case for row in rows if row.comparison.is_failure}
        if not suspects or not self.num_runs:
            return list(rows)
        repeated = with_bench(
            candidate,
            lambda bench: self._measure(bench, rows, list(suspects.values()), baseline),
            what="suspects",
            workspace=self.workspace,
            notify=self.notify,
        )
        rows_by_key = {(row.case.key, row.metric): row for row in repeated}
        return [_with_conclusion(row, rows_by_key.get((row.case.key, row.metric))) for row in rows]

    def _measure(
        self,
        bench: Bench,
        rows: Sequence[CaseComparison],
        suspects: Sequence[Case],
        baseline: RunDocument,
    ) -> list[CaseComparison]:
        other = bench.baseline(baseline.run.revision)
        how = "alone" if other is None else f"in turn with toolchain {other.name}"
        verb = "is" if len(suspects) == 1 else "are"
        text = f"{counted(len(suspects), 'suspect')} {verb} re-measured {how}"
        self.notify(LogMessage(text=text))
        if other is not None:
            limits = PairLimits(fail_above=self.fail_above, num_cases=len(suspects))
            cold = {
                row.case.key
                for row in rows
                if row.comparison.is_failure and LAUNCHES_FROM_COLD.get(row.metric) == 1
            }
            return [
                row
                for case in suspects
                for row in _in_turn(bench, case, other, limits, case.key in cold)
            ]
        # Each round measures every case, so that a disturbance of a minute does not affect one case
        # alone.
        results = [bench.measure(case) for _ in range(self.num_runs) for case in suspects]
        keys = {case.key for case in suspects}
        before = [item for item in baseline.results if item.case.key in keys]
        return compare_results(before, results, fail_above=self.fail_above)


def with_bench(
    candidate: RunDocument,
    measure: Callable[[Bench], list[CaseComparison]],
    *,
    what: str,
    workspace: Workspace,
    notify: Notify,
) -> list[CaseComparison]:
    """Return the rows that `measure` returns of cases of `candidate`; none if it is impossible.

    `what` names these cases in messages. The device is locked meanwhile. Raises RunInterrupted
    after a stop.
    """
    repeated: list[CaseComparison] = []
    with (
        Interrupts() as interrupts,
        device_lock(candidate.run.plan[0].device, lock_dir=workspace.lock_dir(), notify=notify),
    ):
        bench = Bench(candidate.run, workspace=workspace)
        try:
            with interrupts.deferred(bench.cancel):
                repeated = measure(bench)
        except (ExecutorError, UnknownNameError) as error:
            if not interrupts.were_requested():
                notify(LogMessage(text=f"{what} are not re-measured: {error}", is_warning=True))
        finally:
            bench.close()
    if interrupts.were_requested():
        raise RunInterrupted(f"stopped while {what} were re-measured")
    return repeated


def _in_turn(
    bench: Bench, case: Case, other: Toolchain, limits: PairLimits, has_cold: bool
) -> list[CaseComparison]:
    """Return the rows of interleaved launches; cold metrics come from first launches only."""
    pair = bench.measure_in_turn(case, baseline=other, limits=limits)
    rows = {row.metric: row for row in pair.rows}
    if has_cold:
        few = dataclasses.replace(limits, min_launches=MIN_COLD_PAIRS, max_launches=MIN_COLD_PAIRS)
        compiled = bench.compile_in_turn(
            case, baseline=other, limits=few, is_enough=lambda _pair, _number: True
        )
        cold = {row.metric: row for row in compiled.rows}
        rows |= {name: cold[name] for name in cold if LAUNCHES_FROM_COLD.get(name) == 1}
    return list(rows.values())


def _with_conclusion(row: CaseComparison, repeated: CaseComparison | None) -> CaseComparison:
    if not row.comparison.is_failure or repeated is None:
        return row
    if repeated.comparison.is_failure:
        reason = f"re-measured: confirmed. {repeated.comparison.reason}"
    else:
        reason = f"not confirmed: {_change(row.comparison)} at first, {repeated.comparison.reason}"
    return dataclasses.replace(
        repeated, comparison=dataclasses.replace(repeated.comparison, reason=reason.rstrip(" .,"))
    )


def _change(comparison: Comparison) -> str:
    return comparison.reason if comparison.ratio is None else signed_percent(comparison.ratio - 1)

"""Measure the suspects of a run again before any notification, within a share of its time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from compile_hud.db.errors import StoreError
from compile_hud.db.queries.alerts import load_series_settings
from compile_hud.db.queries.series import load_histories_of
from compile_hud.db.records.alerts import OUTCOME, Alert
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Case, CaseResult, Outcome, RunDocument
from compile_hud.db.records.summaries import Series
from compile_hud.db.records.triage import JUDGE, is_muted
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.analysis.confirmation.confirmation import (
    conclusion_text,
    confirmation_json,
    revised,
    side_json,
    with_conclusion,
)
from compile_hud.runner.analysis.confirmation.suspects import (
    early_suspects,
    is_early,
    sort_by_severity,
    suspects_among,
)
from compile_hud.runner.analysis.confirmation.verdict import (
    Conclusion,
    ConfirmationResult,
    Method,
    bad_in_both,
    baseline_history,
    confirm_by_history,
    confirm_interleaved,
    confirm_outcome,
    not_measured,
)
from compile_hud.runner.analysis.judging.judge import NEEDED_METRICS
from compile_hud.runner.analysis.judging.series_rules import SeriesRules, series_rules
from compile_hud.runner.detection.change_context import attach_differences
from compile_hud.runner.detection.remeasure import Bench, Toolchain
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.cold_cache_sessions import LAUNCHES_FROM_COLD
from compile_hud.runner.execution.paired_launches import MIN_PAIRS, PairLimits, PairResult
from compile_hud.runner.format import clock
from compile_hud.runner.notifications.routing import NO_NOTIFICATIONS, NotificationPlanner
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.locks import device_lock
from compile_hud.runner.workspace import Workspace

# A clock can hardly measure less; no launch is faster.
MIN_LAUNCH_S = 1e-3
# A share of a short run would not be enough for a single launch.
MIN_BUDGET_S = 120.0
# First launches a side: each costs as much as a whole case, and they differ by 5 % and more.
MIN_COLD_PAIRS = 3
# A single launch with an empty cache yields these metrics.
_COLD = frozenset(name for name, num_launches in LAUNCHES_FROM_COLD.items() if num_launches == 1)
_LIMITS = PairLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmReport:
    """The suspects with their confirmations; `is_interrupted` if it was stopped."""

    alerts: tuple[Alert, ...] = ()
    is_interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunSuspects:
    """The suspects of one run, with the histories to compare with."""

    known: Sequence[Alert]
    early: Sequence[Alert]
    histories: Sequence[Series]
    alerts: Sequence[Alert]


def confirm_run(
    document: RunDocument,
    *,
    alerts: Sequence[Alert],
    workspace: Workspace,
    notify: Notify,
    planner: NotificationPlanner = NO_NOTIFICATIONS,
) -> ConfirmReport:
    """Re-measure the suspects of `document`, a finished run, and return the results.

    `alerts` are the stored ones, judged a moment ago. `planner` makes the notifications of the
    conclusions. Each conclusion is saved when its case is done. The device is locked meanwhile.
    Raises the store's errors before the first measurement, LockUnavailable, and RunInterrupted for
    a stop before the first measurement.
    """
    suspects = _find_suspects(document, alerts=alerts, store=workspace.store())
    if not suspects.known and not suspects.early:
        return ConfirmReport()
    device = document.run.plan[0].device
    lock = (
        device_lock(device, lock_dir=workspace.lock_dir(), notify=notify)
        if workspace.elsewhere is None
        # Another machine has its own lock.
        else nullcontext()
    )
    with Interrupts() as interrupts, lock:
        confirming = _Confirming(
            document,
            suspects=suspects,
            workspace=workspace,
            outlet=_Outlet(notify=notify, planner=planner),
            stop=interrupts,
        )
        try:
            with interrupts.deferred(confirming.cancel):
                confirming.work_through()
        finally:
            confirming.close()
    return ConfirmReport(alerts=tuple(confirming.done), is_interrupted=interrupts.were_requested())


def run_seconds(document: RunDocument) -> float:
    """Return the total duration of a run's cases in seconds, without pauses."""
    worked = sum(item.took_s for item in document.results)
    run = document.run
    if run.finished_at is None:
        return worked
    # Cases overlap that compiled ahead, or were launched in turn with those of another run.
    return min(worked, (run.finished_at - run.started_at).total_seconds())


def _find_suspects(document: RunDocument, *, alerts: Sequence[Alert], store: Store) -> _RunSuspects:
    run = document.run
    measured = {result.case.key for result in document.results}
    rules: SeriesRules = series_rules(alerts, settings=load_series_settings(store))
    histories = load_histories_of(store, run, metrics=NEEDED_METRICS)
    known = suspects_among(alerts, run=run)
    early = early_suspects(histories, run=run, alerts=alerts, rules=rules)
    return _RunSuspects(
        known=[
            alert
            for alert in known
            if alert.case.key in measured and not is_muted(alert, at=run.started_at)
        ],
        early=attach_differences(store, early),
        histories=histories,
        alerts=alerts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outlet:
    """The outputs: progress for the person at the terminal, and notifications."""

    notify: Notify
    planner: NotificationPlanner


def confirm_budget_s(share: float, document: RunDocument) -> float:
    """Return the seconds for measuring again: `share` of the run, at least MIN_BUDGET_S.

    A `share` of 0 is no time at all.
    """
    return max(MIN_BUDGET_S, share * run_seconds(document)) if share > 0 else 0.0


class _Confirming:
    """The suspects of one run during their confirmation."""

    def __init__(
        self,
        document: RunDocument,
        *,
        suspects: _RunSuspects,
        workspace: Workspace,
        outlet: _Outlet,
        stop: Interrupts,
    ) -> None:
        self.done: list[Alert] = []
        self._document = document
        self._workspace = workspace
        self._notify = outlet.notify
        self._planner = outlet.planner
        self._stop = stop
        self._store = workspace.store()
        self._bench = Bench(document.run, workspace=workspace)
        self._results = {result.case.key: result for result in document.results}
        self._started_at = workspace.dependencies.now()
        self._budget_s = confirm_budget_s(workspace.config.confirm_share, document)
        self._suspects = suspects
        self._by_case = sort_by_severity([*suspects.known, *suspects.early])
        self._early = {alert.id for alert in suspects.early}
        # These are the run's own reference results until they are measured again.
        self._references = self._results

    def cancel(self) -> None:
        """Kill the current measurement."""
        self._bench.cancel()

    def close(self) -> None:
        """End the worker hosts."""
        self._bench.close()

    def work_through(self) -> None:
        """Measure the suspects again, the worst first, until the budget is used up."""
        of_run = f"{self._workspace.config.confirm_share:.0%} of the run"
        share = f"at least, or {of_run}" if self._budget_s == MIN_BUDGET_S else of_run
        cases = "case" if len(self._by_case) == 1 else "cases"
        self._say(
            f"measuring {len(self._by_case)} suspected {cases} again, within"
            f" {clock(self._budget_s)} ({share})"
        )
        for group in self._by_case.values():
            started_at = self._workspace.dependencies.now()
            results, how = self._measure(group)
            # The results of a killed case mean nothing.
            if self._stop.were_requested():
                return
            seconds = (self._workspace.dependencies.now() - started_at).total_seconds()
            self._keep(group, results=results, how={**how, "seconds": seconds})

    def _measure(self, group: Sequence[Alert]) -> tuple[list[ConfirmationResult], dict[str, Any]]:
        """Return the result for each alert of one case, and the method."""
        needed_s, remaining_s = self._launch_s(group[0].case), self._left_s()
        num_launches = self._bench.settings.num_launches
        if num_launches * needed_s > remaining_s:
            reason = (
                f"not re-measured: it takes about {clock(num_launches * needed_s)}, and"
                f" {clock(remaining_s)} of the confirmation budget of {clock(self._budget_s)}"
                " are left ([run] confirm_share)"
            )
            return [not_measured(reason) for _ in group], {}
        try:
            return self._measure_now(group, max_pairs=int(remaining_s / (2 * needed_s)))
        except (ExecutorError, UnknownNameError) as error:
            # When an old run is judged, hud.toml may no longer have its model.
            return [not_measured(str(error)) for _ in group], {}

    def _measure_now(
        self, group: Sequence[Alert], *, max_pairs: int
    ) -> tuple[list[ConfirmationResult], dict[str, Any]]:
        # The candidate is opened first: a toolchain that has changed since proves nothing.
        self._bench.candidate()
        worst = group[0]
        if any(alert.kind == OUTCOME for alert in group) or worst.last_good is None:
            return self._measure_alone(group)
        is_cold = all(alert.metric in _COLD for alert in group)
        least = MIN_COLD_PAIRS if is_cold else MIN_PAIRS
        # With fewer pairs, one more measurement against the history shows more in the same time.
        baseline = self._bench.baseline(worst.last_good.revision) if max_pairs >= least else None
        # Opening the toolchain took time as well.
        max_pairs = int(self._left_s() / (2 * self._launch_s(worst.case)))
        if baseline is None or max_pairs < least:
            return self._measure_alone(group)
        return self._measure_in_turn(group, baseline=baseline, max_pairs=max_pairs, is_cold=is_cold)

    def _measure_alone(
        self, group: Sequence[Alert]
    ) -> tuple[list[ConfirmationResult], dict[str, Any]]:
        case, run = group[0].case, self._document.run
        if not all(alert.kind == OUTCOME for alert in group):
            self._measure_references()
        result = self._bench.measure(case)
        results = [
            confirm_outcome(result) if alert.kind == OUTCOME else self._by_history(alert, result)
            for alert in group
        ]
        summary = side_json(result, group[0].metric, toolchain=run.toolchain, revision=run.revision)
        return results, {"baseline_side": None, "candidate_side": summary}

    def _measure_in_turn(
        self, group: Sequence[Alert], *, baseline: Toolchain, max_pairs: int, is_cold: bool
    ) -> tuple[list[ConfirmationResult], dict[str, Any]]:
        case, candidate = group[0].case, self._bench.candidate()
        pair_s = 2 * self._launch_s(case)

        def is_enough(pair: PairResult, number: int) -> bool:
            sides = (pair.baseline, pair.candidate)
            if any(side.outcome is not Outcome.OK for side in sides):
                return True
            conclusions = [confirm_interleaved(alert, pair.rows, sides=sides) for alert in group]
            is_concluded = all(
                item.conclusion is not Conclusion.INCONCLUSIVE for item in conclusions
            )
            # The next look follows after half as many pairs again.
            return is_concluded or self._left_s() < pair_s * number / 2

        least = MIN_COLD_PAIRS if is_cold else min(_LIMITS.min_launches, max_pairs)
        limits = dataclasses.replace(
            _LIMITS,
            min_launches=least,
            max_launches=min(_LIMITS.max_launches, max_pairs),
            num_cases=len(self._by_case),
        )
        measure = self._bench.compile_in_turn if is_cold else self._bench.measure_in_turn
        pair = measure(case, baseline=baseline, limits=limits, is_enough=is_enough)
        metric = group[0].metric
        return [self._in_turn(alert, pair) for alert in group], {
            "baseline_side": side_json(
                pair.baseline, metric, toolchain=baseline.name, revision=baseline.revision
            ),
            "candidate_side": side_json(
                pair.candidate, metric, toolchain=candidate.name, revision=candidate.revision
            ),
        }

    def _in_turn(self, alert: Alert, pair: PairResult) -> ConfirmationResult:
        are_ok = pair.candidate.outcome is pair.baseline.outcome is Outcome.OK
        # A distance from an ideal has no ratio of two sides.
        if not are_ok or METRICS[alert.metric].ideal is not None:
            return self._by_history(alert, pair.candidate)
        result = confirm_interleaved(alert, pair.rows, sides=(pair.baseline, pair.candidate))
        if result.conclusion is not Conclusion.REFUTED:
            return result
        return bad_in_both(result, self._by_history(alert, pair.candidate))

    def _by_history(self, alert: Alert, result: CaseResult) -> ConfirmationResult:
        """Compare `result` with the nights before, and the reference cases with their own."""
        history = baseline_history(
            alert,
            self._suspects.histories,
            alerts=self._suspects.alerts,
            now=self._references,
        )
        return confirm_by_history(alert, result, history=history)

    def _measure_references(self) -> None:
        """Measure the reference cases of the run once more, if the budget allows it."""
        cases = [case for case in self._document.run.plan if case.is_reference]
        needed_s = sum(self._launch_s(case) for case in cases)
        if self._references is self._results and cases and needed_s <= self._left_s():
            self._references = {
                case.key: self._bench.measure(case, num_launches=1) for case in cases
            }

    def _left_s(self) -> float:
        used_s = (self._workspace.dependencies.now() - self._started_at).total_seconds()
        return self._budget_s - used_s

    def _launch_s(self, case: Case) -> float:
        """Return the mean duration of a launch of `case` in the run, in seconds above 0."""
        result = self._results[case.key]
        num_launches = result.details.get("num_launches") or self._bench.settings.num_launches
        return max(MIN_LAUNCH_S, result.took_s / float(num_launches))

    def _keep(
        self,
        group: Sequence[Alert],
        *,
        results: Sequence[ConfirmationResult],
        how: Mapping[str, Any],
    ) -> None:
        """Log and store the conclusion about one case."""
        facts = {
            "run_id": self._document.run.id,
            "at": self._workspace.dependencies.now().isoformat(),
            **how,
        }
        alerts = []
        for alert, result in zip(group, results, strict=True):
            is_new = alert.id in self._early
            document = confirmation_json(
                result, alert=alert, how=facts, is_early=is_new or is_early(alert)
            )
            alerts.append(with_conclusion(alert, result, document=document, is_early=is_new))
            self._say(conclusion_text(alerts[-1]))
        self.done += alerts
        # A suspicion that was not measured has no conclusion to store.
        measured = [
            alert
            for alert, result in zip(alerts, results, strict=True)
            if alert.id not in self._early or result.method is not Method.NONE
        ]
        try:
            planner = self._planner.with_findings(measured)
            self._store.revise_alerts(
                lambda now: revised(measured, now=now),
                by=JUDGE,
                tell=lambda before, changes: planner.notifications(
                    before, changes.revisions, events={}
                ),
            )
        except StoreError as error:
            text = f"what measuring again found is not stored: {error}"
            self._notify(LogMessage(text=text, is_warning=True))

    def _say(self, text: str) -> None:
        self._notify(LogMessage(text=text))

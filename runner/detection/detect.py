"""Judge the stored history and update the alerts in the store."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from compile_hud.db.queries.alerts import load_alerts, load_series_settings
from compile_hud.db.queries.judge_state import save_judge_states
from compile_hud.db.queries.outcomes import load_ended, load_ok_results, load_unusual_outcomes
from compile_hud.db.queries.runs import load_plans, load_reasons
from compile_hud.db.queries.series import count_judged_series
from compile_hud.db.records.alerts import MASKED, OUTCOME, Alert, Event
from compile_hud.db.records.summaries import PlannedRun
from compile_hud.db.records.triage import JUDGE
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.event_grouping import events_of
from compile_hud.runner.analysis.alerts.lifecycle import Update, match_stored, update_alerts
from compile_hud.runner.analysis.confirmation.suspects import ProvisionalAlerts
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.false_discovery import (
    AlertCandidate,
    apply_false_discovery_rate,
)
from compile_hud.runner.analysis.judging.judge import UnjudgedNumbers
from compile_hud.runner.analysis.judging.series_rules import SeriesRules, series_rules
from compile_hud.runner.analysis.outcomes.cadence import Timetable
from compile_hud.runner.analysis.outcomes.missing_metrics import (
    HEADLINE_METRICS,
    judge_missing_metrics,
)
from compile_hud.runner.analysis.outcomes.outcomes import judge_outcomes, reported_reason
from compile_hud.runner.detection.change_context import attach_bounds
from compile_hud.runner.detection.incremental import find_candidates, no_op
from compile_hud.runner.detection.kernel_judging import accepted_kernels, kernel_candidates
from compile_hud.runner.notifications.routing import NO_NOTIFICATIONS, NotificationPlanner

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectReport:
    """All alerts in the store after judging; the opened and the ended ones; events by id.

    `unjudged` has the numbers that were left out of the judgement.
    """

    alerts: tuple[Alert, ...]
    new: tuple[Alert, ...]
    fixed: tuple[Alert, ...]
    events: Mapping[str, Event]
    unjudged: tuple[UnjudgedNumbers, ...] = ()


def detect(
    store: Store,
    *,
    is_full: bool = False,
    timetable: Timetable | None = None,
    planner: NotificationPlanner = NO_NOTIFICATIONS,
    check: Callable[[], None] = no_op,
) -> DetectReport:
    """Judge every history in `store` and save the changes. A second call changes nothing.

    It reads only cases with new results; with `is_full` it reads all, with the same result.
    `timetable` says which suites are overdue. `planner` makes the notifications that are saved with
    the alerts. `check` is called now and then before anything is saved, and its errors end the
    judging. Raises the store's errors. Judging needs no lock. One transaction reads and saves the
    alerts, so that concurrent triage decisions stay.
    """
    stored = load_alerts(store)
    rules = series_rules(stored, settings=load_series_settings(store))
    runs = load_plans(store)
    provisional = ProvisionalAlerts(stored, rules=rules)
    result = find_candidates(
        store,
        rules=rules,
        observer=provisional,
        is_full=is_full,
        judge_kernels=partial(kernel_candidates, store, rules=rules, stored=stored, check=check),
        check=check,
    )
    alerts = _accepted(store, result.candidates, stored=stored)
    failures = _failures(store, runs, timetable)
    alerts.extend(_with_reasons(store, failures, known={alert.id for alert in stored}))
    alerts = attach_bounds(store, alerts, stored=stored)
    alerts.extend(provisional.not_in(alerts))
    check()
    update_of = _update_by(alerts, runs=runs, rules=rules)
    planner = planner.with_findings_of_changes(stored, update_of)
    update = store.revise_alerts(
        update_of,
        by=JUDGE,
        tell=lambda before, made: planner.notifications(before, made.revisions, events=made.events),
    )
    save_judge_states(
        store,
        judged=result.judged,
        events=update.events.values(),
        event_ids={alert.event_id for alert in update.alerts},
    )
    report = _report(update, unjudged=result.unjudged)
    logger.info(
        "judged %s: %s, %d new, %d fixed",
        counted(len(runs), "run"),
        counted(len(report.alerts), "alert"),
        len(report.new),
        len(report.fixed),
    )
    return report


def _update_by(
    detected: Sequence[Alert], *, runs: Sequence[PlannedRun], rules: SeriesRules
) -> Callable[[Sequence[Alert]], Update]:
    """Return the function that updates stored alerts by the `detected` ones."""
    judged_runs = {run.id for run in runs}
    return lambda stored: update_alerts(
        detected,
        stored=stored,
        judged_runs=judged_runs,
        settings=rules.settings,
        group=lambda alerts: events_of(alerts, runs=runs),
    )


def _report(update: Update, *, unjudged: Sequence[UnjudgedNumbers]) -> DetectReport:
    return DetectReport(
        alerts=update.alerts,
        new=update.new,
        fixed=update.fixed,
        events={event.id: event for event in update.events.values()},
        unjudged=tuple(unjudged),
    )


def _accepted(
    store: Store, candidates: Sequence[AlertCandidate], *, stored: Sequence[Alert]
) -> list[Alert]:
    # A confirmed step stays confirmed when its onset moves by a night.
    known = match_stored([candidate.alert for candidate in candidates], stored=stored)
    of_cases = [item for item in candidates if item.alert.kind != MASKED]
    alerts = [
        candidate.alert
        for candidate in apply_false_discovery_rate(
            of_cases,
            num_series=count_judged_series(store),
            confirmed={id for id, alert in known.items() if alert.is_confirmed},
        )
    ]
    of_kernels = [item for item in candidates if item.alert.kind == MASKED]
    # The first night decides: later cases of its run are no evidence against a kernel.
    alerts += accepted_kernels(store, of_kernels, others=[*alerts, *stored], confirmed=known.keys())
    return alerts


def _failures(store: Store, runs: Sequence[PlannedRun], timetable: Timetable | None) -> list[Alert]:
    # A reference case that is missing or fails is no evidence about a model.
    histories = [
        history
        for history in load_unusual_outcomes(store, runs=runs)
        if not history.case.is_reference
    ]
    ok = load_ok_results(
        store, runs=runs, metrics=HEADLINE_METRICS, num_without=DEFAULT_CONFIG.sustained_points
    )
    return [
        *judge_outcomes(histories, runs=runs, timetable=timetable),
        *judge_missing_metrics(ok, runs=runs),
    ]


def _with_reasons(store: Store, failures: Iterable[Alert], *, known: set[str]) -> list[Alert]:
    """Return `failures`; new ones have the reason of the first failed result added."""
    alerts = list(failures)
    new = {alert.id for alert in alerts if alert.kind == OUTCOME} - known
    ended = load_ended(store, {alert.case.key for alert in alerts if alert.id in new})
    results = {
        alert.id: ended[alert.first_bad.run_id, alert.case.key].result_id
        for alert in alerts
        if alert.id in new
    }
    # The result was pruned between two reads: the alert has no reason.
    reasons = load_reasons(store, results.values())
    explained = []
    for alert in alerts:
        reason = reported_reason(reasons.get(results.get(alert.id, ""), ""))
        text = f"{alert.cause_text}: {reason}" if reason else alert.cause_text
        explained.append(dataclasses.replace(alert, cause_text=text))
    return explained

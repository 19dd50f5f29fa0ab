"""Read alerts, events and the data of one alert's page."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from contextlib import suppress

from compile_hud.app.components.alert_rows import states_of
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.latest_results import NUM_RECENT
from compile_hud.app.data.page_records import (
    AlertList,
    AlertPage,
    EventPage,
)
from compile_hud.app.data.series import load_series_page
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.views.alerts.event_table import EventGroup
from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.alerts import (
    has_alerts,
    load_alert,
    load_alerts_of_event,
    load_alerts_with_events,
    load_changes,
    load_changes_of,
)
from compile_hud.db.queries.judge_state import load_events
from compile_hud.db.queries.kernels import load_kernel_runs
from compile_hud.db.queries.latest import load_recent
from compile_hud.db.queries.model_sources import load_alert_diff
from compile_hud.db.queries.results import load_result_summaries
from compile_hud.db.queries.runs import load_last_ending
from compile_hud.db.records.alerts import OUTCOME, Alert, AlertState
from compile_hud.db.records.notifications import Severity
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.records.triage import worst_first
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.severity import severity_of
from compile_hud.runner.analysis.alerts.triage import needs_reason
from compile_hud.runner.analysis.outcomes.outcomes import fails_otherwise


def needs_reason_to_expect(alerts: Iterable[Alert]) -> bool:
    """Return whether any of `alerts` may be marked as expected only with a reason."""
    return any(needs_reason(alert, AlertState.EXPECTED) for alert in alerts)


@cached_read
def load_alert_list(at: StoreVersion, state: str) -> AlertList:
    """Return the alerts in a state, with the others of their events; "" means the ongoing ones."""
    store = at.store
    alerts = load_alerts_with_events(store, states=states_of(state))
    return AlertList(
        alerts=alerts,
        events=load_events(store, ids={alert.event_id for alert in alerts}),
        has_others=bool(alerts) or has_alerts(store),
        severities=_severities(alerts),
        trends=_trends(store, alerts),
    )


@cached_read
def load_event_page(at: StoreVersion, event_id: str) -> EventPage:
    """Return an event with its alerts; raise NotFoundError when no alert belongs to it."""
    store = at.store
    alerts = load_alerts_of_event(store, event_id)
    if not alerts:
        raise NotFoundError(f"no event {event_id!r} in this store")
    return EventPage(
        event=load_events(store, ids=[event_id]).get(event_id),
        alerts=alerts,
        changes=load_changes_of(store, [alert.id for alert in alerts]),
        severities=_severities(alerts),
        trends=_trends(store, alerts),
    )


def _severities(alerts: Iterable[Alert]) -> dict[str, Severity]:
    return {alert.id: severity_of(alert) for alert in alerts}


def _trends(store: Store, alerts: Sequence[Alert]) -> dict[str, tuple[float, ...]]:
    """Return the last medians of the series that shows each of `alerts`, by its series key.

    The medians come oldest first. A failing case has those of its default metric.
    """
    by_scope: dict[tuple[str, str], list[Alert]] = {}
    for alert in alerts:
        by_scope.setdefault((alert.machine, alert.toolchain), []).append(alert)
    trends: dict[str, tuple[float, ...]] = {}
    for (machine, toolchain), together in by_scope.items():
        shown = {alert.series_key: _shown_series(alert) for alert in together}
        recent = load_recent(
            store,
            metrics=sorted({metric for _, metric in shown.values()}),
            machine=machine,
            toolchain=toolchain,
            num_runs=NUM_RECENT,
            case_keys={case for case, _ in shown.values()},
        )
        trends |= {key: recent.get(series, ()) for key, series in shown.items()}
    return trends


def _shown_series(alert: Alert) -> tuple[str, str]:
    return (alert.case.key, alert_text(alert).shown_metric)


@cached_read
def load_alert_page(at: StoreVersion, alert_id: str) -> AlertPage:
    """Return an alert by its id, or the unique start of it; raise NotFoundError without one."""
    store = at.store
    alert = load_alert(store, alert_id)
    text = alert_text(alert)
    series = None
    with suppress(NotFoundError):
        page = load_series_page.read_at(
            at,
            alert.case.key,
            metric=text.shown_metric,
            machine=alert.machine,
            toolchain=alert.toolchain,
        )
        series = dataclasses.replace(page, alerts=(alert,))
    of_event = load_alerts_of_event(store, alert.event_id) if alert.event_id else (alert,)
    event = load_events(store, ids=[alert.event_id]).get(alert.event_id)
    group = EventGroup(event=event, alerts=tuple(worst_first(of_event)))
    return AlertPage(
        alert=alert,
        text=text,
        event=event,
        event_title=group.short_title.text,
        num_other_alerts=sum(other.id != alert.id for other in of_event),
        series=series,
        changes=load_changes(store, alert_id=alert.id),
        fails_now=fails_otherwise(alert, load_last=functools.partial(load_last_ending, store)),
        profiled=frozenset(run.run_id for run in load_kernel_runs(store, alert.case.key)),
        code=load_alert_diff(store, alert),
        failure=_failure(store, alert),
    )


def _failure(store: Store, alert: Alert) -> ResultSummary | None:
    """Return the first bad result of an alert about a failure, None without one."""
    if alert.kind != OUTCOME or alert.verdict is not Verdict.REGRESSION:
        return None
    with suppress(NotFoundError):
        results = load_result_summaries(store, alert.first_bad.run_id)
        return next((item for item in results if item.case.key == alert.case.key), None)
    return None

"""Read alerts, events and what belongs to one alert."""

from __future__ import annotations

import dataclasses
import functools
from contextlib import suppress

from compile_hud.app.components.alert_rows import alert_metric, states_of
from compile_hud.app.data.page_records import (
    AlertList,
    AlertPage,
    EventPage,
    Loaded,
)
from compile_hud.app.data.series import _read_series_page
from compile_hud.app.data.store import answers, loaded, open_store
from compile_hud.app.ui.urls import DEFAULT_SERIES_METRIC
from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.alerts import (
    has_alerts,
    load_alerts_of_event,
    load_alerts_with_events,
    load_changes_of,
)
from compile_hud.db.queries.judge_state import load_events
from compile_hud.db.queries.kernels import load_kernel_runs
from compile_hud.db.queries.results import (
    load_alert,
    load_changes,
)
from compile_hud.db.queries.runs import load_last_ending
from compile_hud.runner.analysis.outcomes.outcomes import fails_otherwise


def load_alert_list(state: str) -> Loaded[AlertList]:
    """Return the alerts in a state, with the others of their events; "" are the ongoing ones."""
    return loaded(_read_alert_list, state)


def load_event_page(event_id: str) -> Loaded[EventPage]:
    """Return an event with its alerts; raise NotFoundError when no alert belongs to it."""
    return loaded(_read_event_page, event_id)


def load_alert_page(alert_id: str) -> Loaded[AlertPage]:
    """Return an alert by its id, or the unique start of it; raise NotFoundError without one."""
    return loaded(_read_alert_page, alert_id)


def _read_alert_list(url: str, generation: int, state: str) -> AlertList:  # noqa: ARG001
    store = open_store(url)
    alerts = load_alerts_with_events(store, states=states_of(state))
    return AlertList(
        alerts=alerts,
        events=load_events(store, ids={alert.event_id for alert in alerts}),
        has_others=bool(alerts) or has_alerts(store),
    )


def _read_event_page(url: str, generation: int, event_id: str) -> EventPage:  # noqa: ARG001
    store = open_store(url)
    alerts = load_alerts_of_event(store, event_id)
    if not alerts:
        raise NotFoundError(f"no event {event_id!r} in this store")
    return EventPage(
        event=load_events(store, ids=[event_id]).get(event_id),
        alerts=alerts,
        changes=load_changes_of(store, [alert.id for alert in alerts]),
    )


def _read_alert_page(url: str, generation: int, alert_id: str) -> AlertPage:
    store = open_store(url)
    alert = load_alert(store, alert_id)
    metric = alert_metric(alert) or DEFAULT_SERIES_METRIC
    where = (alert.case.key, metric, alert.machine, alert.toolchain)
    series = None
    with suppress(NotFoundError):
        page = answers().ask(_read_series_page, url, generation, *where)
        series = dataclasses.replace(page, alerts=(alert,))
    beside = load_alerts_of_event(store, alert.event_id) if alert.event_id else ()
    return AlertPage(
        alert=alert,
        event=load_events(store, ids=[alert.event_id]).get(alert.event_id),
        num_beside=sum(other.id != alert.id for other in beside),
        series=series,
        changes=load_changes(store, alert_id=alert.id),
        fails_now=fails_otherwise(alert, load_last=functools.partial(load_last_ending, store)),
        profiled=frozenset(run.run_id for run in load_kernel_runs(store, alert.case.key)),
    )

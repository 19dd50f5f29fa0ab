"""Lists of stored alerts, and one alert with its changes as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compile_hud.db.queries.alerts import load_alert, load_alerts, load_changes
from compile_hud.db.queries.judge_state import load_events
from compile_hud.db.queries.model_sources import load_alert_diff
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.triage import worst_first
from compile_hud.db.store import Store
from compile_hud.runner.alerting.payload import alert_json
from compile_hud.runner.documents.alert_filters import ListFilters, filter_alerts


def find_alerts(
    store: Store, filters: ListFilters, *, states: Sequence[AlertState] | None
) -> list[Alert]:
    """Return the alerts in `states` (None for all) that pass `filters`, the worst first."""
    every = load_alerts(store, states=states)
    events = load_events(store, ids={alert.event_id for alert in every})
    return worst_first(filter_alerts(every, filters, events=events))


def alert_document(store: Store, alert_id: str, *, dashboard: str) -> dict[str, Any]:
    """Return one alert with the diff of its model's code and all its changes.

    A unique start of its id is enough; raises NotFoundError.
    """
    alert = load_alert(store, alert_id)
    code = load_alert_diff(store, alert)
    return {
        **alert_json(alert, store=store, dashboard=dashboard),
        "model_code": None if code is None else code.to_json(),
        "changes": [change.to_json() for change in load_changes(store, alert_id=alert.id)],
    }

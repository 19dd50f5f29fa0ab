"""Alerts in a store without the history that caused them."""

from __future__ import annotations

from collections.abc import Sequence

from compile_hud.db.alerts.revisions import put_alerts, read_stored_alerts
from compile_hud.db.records.alerts import Alert
from compile_hud.db.store import Store


def save_alerts(store: Store, alerts: Sequence[Alert]) -> None:
    """Insert `alerts`, or replace those with the same id; no change is recorded."""
    with store.write() as connection:
        put_alerts(connection, alerts, stored=read_stored_alerts(connection))

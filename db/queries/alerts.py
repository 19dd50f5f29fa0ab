"""Queries of alerts, their changes and the settings of series."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import func, or_, select

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.triage import AlertChange, ChangedField, SeriesSettings
from compile_hud.db.rows.alerts import read_alert, read_alerts, read_changes, read_series_settings
from compile_hud.db.schema.tables import AlertChangeTable, AlertTable
from compile_hud.db.store import Store


def load_alerts_with_events(
    store: Store, *, states: Sequence[AlertState] | None = None
) -> tuple[Alert, ...]:
    """Return the alerts in `states` (default: all) and, in any state, the others of their events.

    The last seen alert comes first.
    """
    with store.read() as connection:
        if states is None:
            return read_alerts(connection)
        has_state = AlertTable.c.state.in_([str(state) for state in states])
        events = select(AlertTable.c.event_id).where(has_state, AlertTable.c.event_id.is_not(None))
        return read_alerts(connection, or_(has_state, AlertTable.c.event_id.in_(events)))


def load_alerts_with_ids(store: Store, ids: Collection[str]) -> tuple[Alert, ...]:
    """Return the alerts with these ids, the last seen first."""
    with store.read() as connection:
        return read_alerts(connection, AlertTable.c.id.in_(ids))


def load_alerts_of_event(store: Store, event_id: str) -> tuple[Alert, ...]:
    """Return the alerts of one event, the last seen first."""
    with store.read() as connection:
        return read_alerts(connection, AlertTable.c.event_id == event_id)


def load_alerts_of_case(
    store: Store, case_key: str, *, machine: str, toolchain: str
) -> tuple[Alert, ...]:
    """Return the alerts of one case on a machine in a toolchain, the last seen first."""
    with store.read() as connection:
        return read_alerts(
            connection,
            AlertTable.c.case_key == case_key,
            AlertTable.c.machine == machine,
            AlertTable.c.toolchain == toolchain,
        )


def load_alerts_of_scope(store: Store, *, machine: str, toolchain: str) -> tuple[Alert, ...]:
    """Return the alerts on a machine in a toolchain, the last seen first."""
    with store.read() as connection:
        return read_alerts(
            connection, AlertTable.c.machine == machine, AlertTable.c.toolchain == toolchain
        )


def load_alerts_since(store: Store, run_id: str) -> tuple[Alert, ...]:
    """Return the alerts whose first bad run is `run_id`, the last seen first."""
    with store.read() as connection:
        return read_alerts(connection, AlertTable.c.first_bad_run_id == run_id)


def load_changes_of(store: Store, alert_ids: Collection[str]) -> tuple[AlertChange, ...]:
    """Return the changes of these alerts, oldest first."""
    with store.read() as connection:
        return read_changes(connection, AlertChangeTable.c.alert_id.in_(alert_ids))


def load_state_changes(
    store: Store, *, states: Sequence[AlertState], since: datetime
) -> tuple[AlertChange, ...]:
    """Return the changes of alerts to one of `states` from `since` on, oldest first."""
    with store.read() as connection:
        return read_changes(
            connection,
            AlertChangeTable.c.field == str(ChangedField.STATE),
            AlertChangeTable.c.new.in_([str(state) for state in states]),
            AlertChangeTable.c.at >= since,
        )


def newest_change_number(store: Store) -> int:
    """Return the number of the newest change of any alert or settings, 0 without one."""
    with store.read() as connection:
        return connection.execute(select(func.max(AlertChangeTable.c.number))).scalar() or 0


def load_ids_changed_after(store: Store, number: int, *, alert_ids: Collection[str]) -> set[str]:
    """Return those of `alert_ids` whose state changed after the change `number`."""
    query = select(AlertChangeTable.c.alert_id).where(
        AlertChangeTable.c.number > number,
        AlertChangeTable.c.alert_id.in_(alert_ids),
        AlertChangeTable.c.field == str(ChangedField.STATE),
    )
    with store.read() as connection:
        return set(connection.execute(query).scalars())


def has_alerts(store: Store) -> bool:
    """Return whether the store has any alert."""
    with store.read() as connection:
        return connection.execute(select(AlertTable.c.id).limit(1)).first() is not None


def load_alerts(store: Store, *, states: Sequence[AlertState] | None = None) -> tuple[Alert, ...]:
    """Return the alerts in `states` (default: all), the last seen first."""
    with store.read() as connection:
        if states is None:
            return read_alerts(connection)
        return read_alerts(connection, AlertTable.c.state.in_([str(state) for state in states]))


def load_alert(store: Store, alert_id: str) -> Alert:
    """Return the alert with this id or unique start of an id.

    Raises NotFoundError when there is none, or more than one.
    """
    with store.read() as connection:
        return read_alert(connection, alert_id)


def load_changes(store: Store, *, alert_id: str | None = None) -> tuple[AlertChange, ...]:
    """Return the changes of one alert (default: of all, and of settings), oldest first."""
    of_alert = [] if alert_id is None else [AlertChangeTable.c.alert_id == alert_id]
    with store.read() as connection:
        return read_changes(connection, *of_alert)


def load_series_settings(store: Store) -> tuple[SeriesSettings, ...]:
    """Return the settings of series, in the order of their patterns."""
    with store.read() as connection:
        return read_series_settings(connection)

"""Alerts, their changes and the settings of series, read in the caller's transaction."""

from __future__ import annotations

import difflib

from sqlalchemy import ColumnElement, select
from sqlalchemy.engine import Connection

from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.triage import AlertChange, SeriesSettings, with_settings
from compile_hud.db.rows.mapping import alert_record, change_record, settings_record
from compile_hud.db.rows.sql_expressions import CASE_COLUMNS
from compile_hud.db.schema.tables import (
    AlertChangeTable,
    AlertTable,
    CaseTable,
    SeriesSettingsTable,
)
from compile_hud.db.shared.text import counted

# A message suggests at most so many ids.
_MAX_NEAR = 2


def read_alerts(connection: Connection, *where: ColumnElement[bool]) -> tuple[Alert, ...]:
    """Return the alerts that match `where`, the last seen first.

    An alert without an owner or mute of its own has that of its series.
    """
    settings = read_series_settings(connection)
    query = (
        select(AlertTable, *CASE_COLUMNS)
        .join(CaseTable, CaseTable.c.key == AlertTable.c.case_key)
        .where(*where)
        .order_by(AlertTable.c.last_seen.desc(), AlertTable.c.id)
    )
    return tuple(with_settings(alert_record(row), settings) for row in connection.execute(query))


def read_alert(connection: Connection, alert_id: str) -> Alert:
    """Return the alert with this id or unique start of an id."""
    fits = AlertTable.c.id.startswith(alert_id, autoescape=True)
    matches = read_alerts(connection, fits)
    exact = [alert for alert in matches if alert.id == alert_id]
    if not matches or not alert_id:
        ids = connection.execute(select(AlertTable.c.id)).scalars().all()
        near = " or ".join(difflib.get_close_matches(alert_id, ids, n=_MAX_NEAR))
        hint = f" Did you mean {near}?" if near else ""
        raise NotFoundError(
            f"no alert {alert_id!r} in this store.{hint} `hud alerts list` shows them",
            alert=alert_id,
            near=near,
        )
    if len(matches) > 1 and not exact:
        ids = ", ".join(sorted(alert.id for alert in matches)[:3])
        raise NotFoundError(
            f"{counted(len(matches), 'alert')} start with {alert_id!r}: {ids}, ... Give more of the"
            " id",
            alert=alert_id,
            candidates=tuple(sorted(alert.id for alert in matches)),
        )
    return (exact or matches)[0]


def read_series_settings(
    connection: Connection, *where: ColumnElement[bool]
) -> tuple[SeriesSettings, ...]:
    """Return the settings that match `where`, in the order of their patterns."""
    query = select(SeriesSettingsTable).where(*where)
    rows = connection.execute(query.order_by(SeriesSettingsTable.c.pattern))
    return tuple(settings_record(row) for row in rows)


def read_changes(connection: Connection, *where: ColumnElement[bool]) -> tuple[AlertChange, ...]:
    """Return the changes that match `where`, oldest first."""
    query = select(AlertChangeTable).where(*where)
    rows = connection.execute(query.order_by(AlertChangeTable.c.at, AlertChangeTable.c.number))
    return tuple(change_record(row) for row in rows)

"""Alerts, series settings and the record of their changes, inside the caller's transaction.

A change reads, decides and writes in the transaction of the only writer. So no change is
overwritten unseen, and every difference adds a row to `alert_changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.engine import Connection

from compile_hud.db.alerts.replay import replayed_alert, replayed_settings
from compile_hud.db.errors import SetByPattern
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.triage import (
    SETTING_NAMES,
    AlertChange,
    ChangedField,
    Revision,
    SeriesSettings,
    Signature,
    changes_of_alert,
    changes_of_settings,
    comment_on,
    holder_of,
    settings_of,
    with_settings,
)
from compile_hud.db.rows.alerts import read_alerts, read_changes, read_series_settings
from compile_hud.db.rows.mapping import (
    Values,
    alert_values,
    case_values,
    change_values,
    settings_values,
)
from compile_hud.db.schema.tables import (
    AlertChangeTable,
    AlertTable,
    CaseTable,
    SeriesSettingsTable,
)

# An alert also shows the settings of a pattern; only values that were set for the alert are its
# own.
_SHARED: Final = (ChangedField.OWNER, ChangedField.MUTED_UNTIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAlerts:
    """The stored alerts by their ids, and the settings of series."""

    alerts: Mapping[str, Alert]
    settings: Sequence[SeriesSettings]


def read_stored_alerts(connection: Connection) -> StoredAlerts:
    return StoredAlerts(
        alerts={alert.id: alert for alert in read_alerts(connection)},
        settings=read_series_settings(connection),
    )


def put_alerts(connection: Connection, alerts: Sequence[Alert], *, stored: StoredAlerts) -> None:
    """Insert `alerts`, or replace those with the same id; no change is recorded.

    `known` are the alerts that the same transaction has read.
    """
    by_id = {alert.id: alert for alert in alerts}
    new = [alert for alert in by_id.values() if alert.id not in stored.alerts]
    cases = {alert.case.key: alert.case for alert in by_id.values()}
    for key in cases.keys() - {alert.case.key for alert in stored.alerts.values()}:
        row = upsert(CaseTable).values(**case_values(cases[key]))
        connection.execute(row.on_conflict_do_nothing(index_elements=["key"]))
    if new:
        rows = [_own_values(alert, defaults=_shared(alert, stored.settings)) for alert in new]
        connection.execute(insert(AlertTable), rows)
    for alert in by_id.values():
        if alert.id in stored.alerts:
            values = _own_values(alert, defaults=stored.alerts[alert.id])
            here = AlertTable.c.id == alert.id
            connection.execute(update(AlertTable).where(here).values(**values))


def put_revisions(
    connection: Connection, revisions: Sequence[Revision], *, by: str, at: datetime
) -> None:
    """Insert or replace the alerts of `revisions`, and record every difference.

    Raises SetByPattern, and saves nothing, if a removed value would come back from the settings of
    the series.
    """
    known = read_stored_alerts(connection)
    for revision in revisions:
        _check_not_set_by_pattern(
            known.alerts.get(revision.alert.id), revision.alert, known.settings
        )
    put_alerts(connection, [revision.alert for revision in revisions], stored=known)
    changes: list[AlertChange] = []
    for revision in revisions:
        signature = Signature(by=by, at=at, why=revision.why)
        old = known.alerts.get(revision.alert.id)
        new = with_settings(revision.alert, known.settings)
        changes += changes_of_alert(old, new, signature=signature)
        if revision.comment:
            changes.append(comment_on(new, revision.comment, signature=signature))
    put_changes(connection, changes)


def _check_not_set_by_pattern(
    stored: Alert | None, revised: Alert, settings: Sequence[SeriesSettings]
) -> None:
    for name in _SHARED:
        if stored is None or getattr(revised, name) or not getattr(stored, name):
            continue
        shared = _shared(revised, settings)
        if getattr(shared, name) == getattr(stored, name):
            pattern = holder_of(name, revised.series_key, settings=settings)
            raise SetByPattern(
                f"alert {revised.id} has its {SETTING_NAMES[name]} from the settings of"
                f" {pattern!r} and would keep it: change it there (`hud alerts series` lists"
                " them), or give the alert another one",
                alert=revised.id,
                setting=name,
                pattern=pattern,
            )


def put_settings(
    connection: Connection,
    pattern: str,
    *,
    revise: Callable[[SeriesSettings], SeriesSettings],
    signature: Signature,
) -> tuple[AlertChange, ...]:
    """Store the settings that `revise` makes of those of `pattern`; return and record each
    difference.
    """
    matches = read_series_settings(connection, SeriesSettingsTable.c.pattern == pattern)
    old = matches[0] if matches else SeriesSettings(pattern=pattern)
    new = revise(old)
    changes = changes_of_settings(old, new, signature=signature)
    if changes:
        _upsert_settings(connection, new)
        put_changes(connection, changes)
    return changes


def replay(connection: Connection, changes: Sequence[AlertChange]) -> int:
    """Record `changes` of another store, and apply all recorded changes to alerts and settings.

    Returns the number of new changes; changes of unknown alerts are left out.
    """
    known = read_stored_alerts(connection)
    here = [change for change in changes if change.pattern or change.alert_id in known.alerts]
    new = missing_changes(connection, here)
    if new:
        put_changes(connection, new)
        every = read_changes(connection)
        replayed = [replayed_alert(alert, every) for alert in known.alerts.values()]
        put_alerts(connection, replayed, stored=known)
        for settings in replayed_settings(every):
            _upsert_settings(connection, settings)
    return len(new)


def missing_changes(connection: Connection, changes: Sequence[AlertChange]) -> list[AlertChange]:
    """Return the new ones of `changes`, each once."""
    known = set(connection.execute(select(AlertChangeTable.c.id)).scalars())
    return [change for id, change in {item.id: item for item in changes}.items() if id not in known]


def put_changes(connection: Connection, changes: Sequence[AlertChange]) -> None:
    """Record `changes`, which are all new, in this order."""
    last = connection.execute(select(func.max(AlertChangeTable.c.number))).scalar() or 0
    rows = [
        {**change_values(change), "number": number}
        for number, change in enumerate(changes, last + 1)
    ]
    if rows:
        connection.execute(insert(AlertChangeTable), rows)


def _upsert_settings(connection: Connection, settings: SeriesSettings) -> None:
    values = settings_values(settings)
    row = upsert(SeriesSettingsTable).values(**values)
    connection.execute(row.on_conflict_do_update(index_elements=["pattern"], set_=values))


def _shared(alert: Alert, settings: Sequence[SeriesSettings]) -> SeriesSettings:
    return settings_of(alert.series_key, settings=settings)


def _own_values(alert: Alert, *, defaults: Alert | SeriesSettings) -> Values:
    """Return the row of `alert` without values that it shares with its series, or had before."""
    values = alert_values(alert)
    for name in _SHARED:
        if getattr(alert, name) == getattr(defaults, name):
            del values[name]
    return values

"""Messages that their receivers can change: their names there, and the states that they report.

A comparison of each message with the present alerts finds the outdated ones. So no change is
missed, by a person or the detector, and ten changes at once are one update.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Table, and_, delete, exists, insert, select, update
from sqlalchemy.engine import Connection

from compile_hud.db.rows.mapping import utc, utc_or_none
from compile_hud.db.schema.tables import (
    AlertTable,
    MessageAlertColumns,
    MessageAlertTable,
    MessageColumns,
    MessageTable,
)
from compile_hud.db.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message as its receiver has it; `reference` is the receiver's own name for it.

    `reported_states` are the states that it reports, by the ids of alerts. After `num_failures`
    failed updates the next one waits until `due_at`.
    """

    receiver: str
    reference: str
    notification_ids: tuple[str, ...]
    reported_states: Mapping[str, str]
    sent_at: datetime
    num_failures: int = 0
    due_at: datetime | None = None


def put_message(connection: Connection, message: SentMessage) -> None:
    """Insert `message`, or replace its row; without `reported_states` the stored ones stay."""
    here = _is_of(MessageTable, message)
    values = {
        "notification_ids": list(message.notification_ids),
        "sent_at": utc(message.sent_at),
        "num_failures": message.num_failures,
        "due_at": utc_or_none(message.due_at),
    }
    key = {"receiver": message.receiver, "reference": message.reference}
    if connection.execute(select(MessageTable.c.sent_at).where(here)).first() is None:
        connection.execute(insert(MessageTable).values(**key, **values))
    else:
        connection.execute(update(MessageTable).where(here).values(**values))
    _put_reported(connection, message, key=key)


def _put_reported(connection: Connection, message: SentMessage, *, key: Mapping[str, str]) -> None:
    here = _is_of(MessageAlertTable, message)
    query = select(MessageAlertTable.c.alert_id, MessageAlertTable.c.state).where(here)
    stored = {row.alert_id: row.state for row in connection.execute(query)}
    new = [
        {**key, "alert_id": id, "state": state}
        for id, state in message.reported_states.items()
        if id not in stored
    ]
    if new:
        connection.execute(insert(MessageAlertTable), new)
    if message.reported_states and (gone := stored.keys() - message.reported_states.keys()):
        connection.execute(
            delete(MessageAlertTable).where(here, MessageAlertTable.c.alert_id.in_(gone))
        )
    for id, state in message.reported_states.items():
        if stored.get(id, state) != state:
            one = here & (MessageAlertTable.c.alert_id == id)
            connection.execute(update(MessageAlertTable).where(one).values(state=state))


def forget_message(connection: Connection, message: SentMessage) -> None:
    """Delete the row of `message`, which cannot be changed any more."""
    connection.execute(delete(MessageAlertTable).where(_is_of(MessageAlertTable, message)))
    connection.execute(delete(MessageTable).where(_is_of(MessageTable, message)))


def _is_of(
    table: Table[MessageColumns] | Table[MessageAlertColumns], message: SentMessage
) -> ColumnElement[bool]:
    return and_(table.c.receiver == message.receiver, table.c.reference == message.reference)


def load_outdated(
    store: Store, *, receivers: Collection[str], at: datetime
) -> tuple[SentMessage, ...]:
    """Return the messages of `receivers` with an outdated state of an alert, oldest first."""
    differs = exists().where(
        MessageAlertTable.c.receiver == MessageTable.c.receiver,
        MessageAlertTable.c.reference == MessageTable.c.reference,
        AlertTable.c.id == MessageAlertTable.c.alert_id,
        AlertTable.c.state != MessageAlertTable.c.state,
    )
    is_due = MessageTable.c.due_at.is_(None) | (MessageTable.c.due_at <= at)
    query = (
        select(MessageTable)
        .where(MessageTable.c.receiver.in_(receivers), is_due, differs)
        .order_by(MessageTable.c.sent_at, MessageTable.c.reference)
    )
    with store.read() as connection:
        return tuple(
            SentMessage(
                receiver=row.receiver,
                reference=row.reference,
                notification_ids=tuple(row.notification_ids),
                reported_states={},
                sent_at=utc(row.sent_at),
                num_failures=row.num_failures,
                due_at=utc_or_none(row.due_at),
            )
            for row in connection.execute(query)
        )


def load_reported(store: Store, *, receiver: str, states: Mapping[str, str]) -> set[str]:
    """Return the ids of those alerts for which a message of `receiver` reports one of these
    `states`.
    """
    query = select(MessageAlertTable.c.alert_id, MessageAlertTable.c.state).where(
        MessageAlertTable.c.receiver == receiver, MessageAlertTable.c.alert_id.in_(states)
    )
    with store.read() as connection:
        rows = connection.execute(query)
        return {row.alert_id for row in rows if row.state == states[row.alert_id]}

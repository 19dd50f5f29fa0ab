"""Messages that their receivers can change: their names there, and the states that they report.

A comparison of each message with the present alerts finds the outdated ones. So no change is
missed, by a person or the detector, and ten changes at once are one update.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, exists, insert, select, update
from sqlalchemy.orm import Session

from compile_hud.db.rows.mapping import utc, utc_or_none
from compile_hud.db.schema.tables import AlertTable, MessageAlertTable, MessageTable
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


def put_message(session: Session, message: SentMessage) -> None:
    """Insert `message`, or replace its row; without `reported_states` the stored ones stay."""
    here = _is_of(MessageTable, message)
    values = {
        "notification_ids": list(message.notification_ids),
        "sent_at": utc(message.sent_at),
        "num_failures": message.num_failures,
        "due_at": utc_or_none(message.due_at),
    }
    key = {"receiver": message.receiver, "reference": message.reference}
    if session.execute(select(MessageTable.sent_at).where(here)).first() is None:
        session.execute(insert(MessageTable).values(**key, **values))
    else:
        session.execute(update(MessageTable).where(here).values(**values))
    _put_reported(session, message, key=key)


def _put_reported(session: Session, message: SentMessage, *, key: Mapping[str, str]) -> None:
    here = _is_of(MessageAlertTable, message)
    query = select(MessageAlertTable.alert_id, MessageAlertTable.state).where(here)
    stored = {row.alert_id: row.state for row in session.execute(query)}
    new = [
        {**key, "alert_id": id, "state": state}
        for id, state in message.reported_states.items()
        if id not in stored
    ]
    if new:
        session.execute(insert(MessageAlertTable), new)
    if message.reported_states and (gone := stored.keys() - message.reported_states.keys()):
        session.execute(delete(MessageAlertTable).where(here, MessageAlertTable.alert_id.in_(gone)))
    for id, state in message.reported_states.items():
        if stored.get(id, state) != state:
            one = here & (MessageAlertTable.alert_id == id)
            session.execute(update(MessageAlertTable).where(one).values(state=state))


def forget_message(session: Session, message: SentMessage) -> None:
    """Delete the row of `message`, which cannot be changed any more."""
    session.execute(delete(MessageAlertTable).where(_is_of(MessageAlertTable, message)))
    session.execute(delete(MessageTable).where(_is_of(MessageTable, message)))


def _is_of(
    table: type[MessageTable | MessageAlertTable], message: SentMessage
) -> ColumnElement[bool]:
    return and_(table.receiver == message.receiver, table.reference == message.reference)


def load_outdated(
    store: Store, *, receivers: Collection[str], at: datetime
) -> tuple[SentMessage, ...]:
    """Return the messages of `receivers` with an outdated state of an alert, oldest first."""
    differs = exists().where(
        MessageAlertTable.receiver == MessageTable.receiver,
        MessageAlertTable.reference == MessageTable.reference,
        AlertTable.id == MessageAlertTable.alert_id,
        AlertTable.state != MessageAlertTable.state,
    )
    is_due = MessageTable.due_at.is_(None) | (MessageTable.due_at <= at)
    query = (
        select(MessageTable.__table__)
        .where(MessageTable.receiver.in_(receivers), is_due, differs)
        .order_by(MessageTable.sent_at, MessageTable.reference)
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
    query = select(MessageAlertTable.alert_id, MessageAlertTable.state).where(
        MessageAlertTable.receiver == receiver, MessageAlertTable.alert_id.in_(states)
    )
    with store.read() as connection:
        rows = connection.execute(query)
        return {row.alert_id for row in rows if row.state == states[row.alert_id]}

"""Test messages, expiry and the health of receivers of the outbox."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.engine import Connection, Row

from compile_hud.db.records.notifications import (
    WAITING,
    AlertChangeKind,
    Notification,
    NotificationState,
)
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.rows.mapping import notification_record, put_notifications, utc_or_none
from compile_hud.db.schema.tables import AlertTable, OutboxTable, ReceiverTable
from compile_hud.db.store import Store

# The counts of a receiver, by the state of notifications.
_Rows = dict[NotificationState, Row[str, str, int, datetime, datetime | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverState:
    """The deliveries to a receiver.

    `num_dead` failed for good. `last_error` is that of the newest attempt among waiting and dead
    notifications. After `num_failures` in a row the receiver is left alone until `held_until`.
    """

    receiver: str
    num_waiting: int = 0
    num_dead: int = 0
    num_sent: int = 0
    oldest_waiting_at: datetime | None = None
    last_sent_at: datetime | None = None
    num_failures: int = 0
    held_until: datetime | None = None
    last_error: str = ""


def put_missing(store: Store, notifications: Sequence[Notification]) -> None:
    """Add the new ones of `notifications`; without a new one, nothing is written."""
    ids = [item.id for item in notifications]
    with store.read() as connection:
        known = set(
            connection.execute(select(OutboxTable.c.id).where(OutboxTable.c.id.in_(ids))).scalars()
        )
    missing = [item for item in notifications if item.id not in known]
    if missing:
        with store.write() as connection:
            put_notifications(connection, missing)


def find_old_notifications(store: Store, *, before: datetime) -> list[str]:
    """Return the ids of sent notifications that were made before that time and still have their
    text.

    Not those of an open or acknowledged alert: its message may still change. Dropped ones stay
    whole, since they are sent if their alert opens again.
    """
    ongoing = select(AlertTable.c.id).where(AlertTable.c.state.in_([str(item) for item in ONGOING]))
    query = select(OutboxTable.c.id, OutboxTable.c.alert_ids).where(
        OutboxTable.c.state == str(NotificationState.SENT),
        OutboxTable.c.created_at < before,
        OutboxTable.c.title != "",
    )
    with store.read() as connection:
        rows = connection.execute(query).all()
        alive = set(connection.execute(ongoing).scalars()) if rows else set()
    return [row.id for row in rows if alive.isdisjoint(row.alert_ids)]


def forget_notifications(store: Store, ids: Sequence[str]) -> None:
    """Remove the text and the alerts of these notifications.

    The rest of the row stays: its id records that the notification was sent.
    """
    with store.write() as connection:
        connection.execute(
            update(OutboxTable)
            .where(OutboxTable.c.id.in_(ids))
            .values(title="", alert_ids=[], last_error="")
        )


def load_newest_tests(store: Store) -> dict[str, Notification]:
    """Return the newest test message of each receiver that has one, by receiver."""
    query = select(OutboxTable).where(OutboxTable.c.kind == str(AlertChangeKind.TEST))
    with store.read() as connection:
        rows = connection.execute(query.order_by(OutboxTable.c.number))
        return {row.receiver: notification_record(row) for row in rows}


def load_receiver_states(store: Store) -> tuple[ReceiverState, ...]:
    """Return the state of each receiver that ever had a notification, by name."""
    counts = select(
        OutboxTable.c.receiver,
        OutboxTable.c.state,
        func.count().label("number"),
        func.min(OutboxTable.c.created_at).label("first_at"),
        func.max(OutboxTable.c.attempted_at).label("last_at"),
    ).group_by(OutboxTable.c.receiver, OutboxTable.c.state)
    with store.read() as connection:
        by_receiver: dict[str, _Rows] = defaultdict(dict)
        for row in connection.execute(counts):
            by_receiver[row.receiver][NotificationState(row.state)] = row
        health = {row.receiver: row for row in connection.execute(select(ReceiverTable))}
        return tuple(
            _with_health(
                _state(name, rows, last_error=_last_error(connection, name)), health.get(name)
            )
            for name, rows in sorted(by_receiver.items())
        )


def _state(name: str, rows: _Rows, *, last_error: str) -> ReceiverState:
    waiting = [rows[state] for state in WAITING if state in rows]
    sent = rows.get(NotificationState.SENT)
    return ReceiverState(
        receiver=name,
        num_waiting=sum(row.number for row in waiting),
        num_dead=rows[NotificationState.DEAD].number if NotificationState.DEAD in rows else 0,
        num_sent=sent.number if sent else 0,
        oldest_waiting_at=utc_or_none(min((row.first_at for row in waiting), default=None)),
        last_sent_at=utc_or_none(sent.last_at) if sent else None,
        last_error=last_error,
    )


def _with_health(state: ReceiverState, row: Row[Any] | None) -> ReceiverState:
    if row is None:
        return state
    return replace(state, num_failures=row.num_failures, held_until=utc_or_none(row.held_until))


def _last_error(connection: Connection, receiver: str) -> str:
    states = (*WAITING, NotificationState.DEAD)
    query = (
        select(OutboxTable.c.last_error)
        .where(
            OutboxTable.c.receiver == receiver,
            OutboxTable.c.state.in_([str(state) for state in states]),
            OutboxTable.c.last_error != "",
        )
        .order_by(OutboxTable.c.attempted_at.desc())
        .limit(1)
    )
    return connection.execute(query).scalar() or ""

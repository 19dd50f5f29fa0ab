"""The outbox: notifications that are written in the transaction of their alerts and sent later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, delete, func, insert, select, update
from sqlalchemy.engine import Connection, Row
from sqlalchemy.orm import Session

from compile_hud.db.alerts.sent_messages import SentMessage, put_message
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.notifications import (
    WAITING,
    Notification,
    NotificationState,
    Queue,
    ReceiverHealth,
    Severity,
    urgent,
)
from compile_hud.db.rows.mapping import delivery_values, notification_record, utc_or_none
from compile_hud.db.schema.tables import OutboxTable, ReceiverTable
from compile_hud.db.store import Store

# Twice as many as a message takes: some may wait for their next attempt, and those behind them
# still get a turn.
MAX_LOOKED_AT: Final = 200


def load_outbox(
    store: Store, *, states: Collection[NotificationState] | None = None
) -> tuple[Notification, ...]:
    """Return the notifications in `states` (default: all), oldest first."""
    query = select(OutboxTable.__table__).order_by(OutboxTable.number)
    if states is not None:
        query = query.where(OutboxTable.state.in_([str(state) for state in states]))
    with store.read() as connection:
        return tuple(notification_record(row) for row in connection.execute(query))


def load_notifications(store: Store, ids: Collection[str]) -> tuple[Notification, ...]:
    """Return the notifications with these ids, oldest first, without unknown ids."""
    here = OutboxTable.id.in_(ids)
    query = select(OutboxTable.__table__).where(here).order_by(OutboxTable.number)
    with store.read() as connection:
        return tuple(notification_record(row) for row in connection.execute(query))


def load_notification(store: Store, id: str) -> Notification:
    """Return one notification; raise NotFoundError for an unknown id."""
    matches = load_notifications(store, [id])
    if not matches:
        raise NotFoundError(
            f"no notification {id!r} in {store.name}", notification=id, store=store.name
        )
    return matches[0]


def count_outbox(store: Store) -> dict[tuple[str, NotificationState], int]:
    """Return the number of notifications by receiver and state."""
    query = select(OutboxTable.receiver, OutboxTable.state, func.count()).group_by(
        OutboxTable.receiver, OutboxTable.state
    )
    with store.read() as connection:
        return {
            (receiver, NotificationState(state)): number
            for receiver, state, number in connection.execute(query)
        }


def count_dead_letters(store: Store) -> dict[str, int]:
    """Return the number of failed notifications by receiver, without receivers that have none."""
    counts = count_outbox(store).items()
    return {name: num for (name, state), num in counts if state is NotificationState.DEAD}


def count_unclaimed(
    counts: Mapping[tuple[str, NotificationState], int], *, receivers: Collection[str]
) -> dict[str, int]:
    """Return the number of waiting notifications in `counts` for receivers that are not `known`."""
    totals: Counter[str] = Counter()
    for (name, state), number in counts.items():
        if name not in receivers and state in WAITING:
            totals[name] += number
    return dict(totals)


def receivers_to_serve(store: Store, *, at: datetime) -> set[str]:
    """Return the receivers to which a notification can be sent at that time."""
    waiting = select(OutboxTable.receiver).where(
        OutboxTable.state.in_([str(state) for state in WAITING])
    )
    # Once the receiver answers again, notifications of a failed delivery go out with the rest.
    is_due = (OutboxTable.due_at <= at) | (OutboxTable.state != str(NotificationState.PENDING))
    paused = select(ReceiverTable.receiver).where(ReceiverTable.held_until > at)
    with store.read() as connection:
        receivers = set(connection.execute(waiting.where(is_due).distinct()).scalars())
        return receivers - set(connection.execute(paused).scalars()) if receivers else receivers


def revise_queue(
    store: Store,
    receiver: str,
    decide: Callable[[Queue], Queue],
    *,
    looks_first: bool = False,
    message: SentMessage | None = None,
) -> Queue:
    """Save the queue that `decide` makes of the queue of `receiver`, and return it.

    One transaction reads and saves, so no other process changes the queue in between. With
    `looks_first` an unchanged queue is not written, since a write makes every page load again. A
    `message` that the receiver can change is saved in the same transaction.
    """
    if looks_first:
        with store.read() as connection:
            before = _queue(connection, receiver)
        if decide(before) == before:
            return before
    with store.write() as session:
        connection = session.connection()
        before = _queue(connection, receiver)
        after = decide(before)
        known = {item.id: item for item in before.waiting}
        changed = [item for item in after.waiting if known.get(item.id) != item]
        _save(session, changed)
        if after.health != before.health:
            _save_health(session, after.health)
        if message is not None:
            put_message(session, message)
    return after


def release(store: Store, *, holder: str, at: datetime) -> None:
    """Make all notifications due that wait until the process `holder` has measured again."""
    is_pending = OutboxTable.state == str(NotificationState.PENDING)
    waits = is_pending & (OutboxTable.holder == holder) & (OutboxTable.due_at > at)
    with store.read() as connection:
        if connection.execute(select(OutboxTable.id).where(waits).limit(1)).first() is None:
            return
    with store.write() as session:
        session.execute(update(OutboxTable).where(waits).values(due_at=at))


def resend(store: Store, ids: Collection[str] | None, *, at: datetime) -> int:
    """Make dead notifications pending, those with `ids` or all; return their number."""
    is_dead = OutboxTable.state == str(NotificationState.DEAD)
    if ids is not None:
        is_dead = is_dead & OutboxTable.id.in_(ids)
    with store.write() as session:
        dead = session.execute(select(OutboxTable.receiver).where(is_dead)).scalars().all()
        values = {
            "state": str(NotificationState.PENDING),
            "due_at": at,
            "num_attempts": 0,
            "delivery_id": "",
        }
        session.execute(update(OutboxTable).where(is_dead).values(**values))
        session.execute(delete(ReceiverTable).where(ReceiverTable.receiver.in_(set(dead))))
    return len(dead)


def _queue(connection: Connection, receiver: str) -> Queue:
    health = connection.execute(
        select(ReceiverTable.__table__).where(ReceiverTable.receiver == receiver)
    ).first()
    return Queue(
        health=ReceiverHealth(receiver=receiver) if health is None else _health(health),
        waiting=_looked_at(connection, receiver),
    )


def _looked_at(connection: Connection, receiver: str) -> tuple[Notification, ...]:
    """Return the oldest waiting notifications and, however far behind them, the urgent ones."""
    is_waiting = (OutboxTable.receiver == receiver) & (
        OutboxTable.state.in_([str(state) for state in WAITING])
    )
    waiting = select(OutboxTable.__table__).where(is_waiting).order_by(OutboxTable.number)
    oldest = _records(connection, waiting.limit(MAX_LOOKED_AT))
    if len(oldest) < MAX_LOOKED_AT:
        return oldest
    is_behind = OutboxTable.number > oldest[-1].number
    severe = select(OutboxTable.number).where(
        is_waiting, is_behind, OutboxTable.severity == str(Severity.SEVERE)
    )
    last = (
        connection.execute(
            severe.order_by(OutboxTable.number).offset(MAX_LOOKED_AT - 1).limit(1)
        ).scalar()
        or connection.execute(select(func.max(severe.subquery().c.number))).scalar()
    )
    if last is None:
        return oldest
    behind = _records(connection, waiting.where(is_behind, OutboxTable.number <= last))
    ids = {item.id for item in urgent((*oldest, *behind))}
    return (*oldest, *(item for item in behind if item.id in ids))


def _records(connection: Connection, query: Select[Any]) -> tuple[Notification, ...]:
    return tuple(notification_record(row) for row in connection.execute(query))


def _save(session: Session, changed: Sequence[Notification]) -> None:
    for item in changed:
        here = OutboxTable.id == item.id
        session.execute(update(OutboxTable).where(here).values(**delivery_values(item)))


def _save_health(session: Session, health: ReceiverHealth) -> None:
    session.execute(delete(ReceiverTable).where(ReceiverTable.receiver == health.receiver))
    session.execute(
        insert(ReceiverTable).values(
            receiver=health.receiver,
            num_failures=health.num_failures,
            held_until=utc_or_none(health.held_until),
        )
    )


def _health(row: Row[Any]) -> ReceiverHealth:
    return ReceiverHealth(
        receiver=row.receiver,
        num_failures=row.num_failures,
        held_until=utc_or_none(row.held_until),
    )

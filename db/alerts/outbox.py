"""The outbox: notifications that are written in the transaction of their alerts and sent later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, delete, func, insert, select, update
from sqlalchemy.engine import Connection, Row

from compile_hud.db.alerts.sent_messages import SentMessage, put_message
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.notifications import (
    WAITING,
    AlertChangeKind,
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
    query = select(OutboxTable).order_by(OutboxTable.c.number)
    if states is not None:
        query = query.where(OutboxTable.c.state.in_([str(state) for state in states]))
    with store.read() as connection:
        return tuple(notification_record(row) for row in connection.execute(query))


def load_notifications(store: Store, ids: Collection[str]) -> tuple[Notification, ...]:
    """Return the notifications with these ids, oldest first, without unknown ids."""
    here = OutboxTable.c.id.in_(ids)
    query = select(OutboxTable).where(here).order_by(OutboxTable.c.number)
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
    query = select(OutboxTable.c.receiver, OutboxTable.c.state, func.count()).group_by(
        OutboxTable.c.receiver, OutboxTable.c.state
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
    """Return the receivers to which a notification can be sent at that time.

    A pause does not defer a test message.
    """
    waiting = select(OutboxTable.c.receiver).where(
        OutboxTable.c.state.in_([str(state) for state in WAITING])
    )
    # Once the receiver answers again, notifications of a failed delivery go out with the rest.
    is_due = (OutboxTable.c.due_at <= at) | (OutboxTable.c.state != str(NotificationState.PENDING))
    paused = select(ReceiverTable.c.receiver).where(ReceiverTable.c.held_until > at)
    is_test = OutboxTable.c.kind == str(AlertChangeKind.TEST)
    with store.read() as connection:
        receivers = set(connection.execute(waiting.where(is_due).distinct()).scalars())
        if not receivers:
            return receivers
        tested = set(connection.execute(waiting.where(is_test).distinct()).scalars())
        return receivers - (set(connection.execute(paused).scalars()) - tested)


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
    with store.write() as connection:
        before = _queue(connection, receiver)
        after = decide(before)
        known = {item.id: item for item in before.waiting}
        changed = [item for item in after.waiting if known.get(item.id) != item]
        _save(connection, changed)
        if after.health != before.health:
            _save_health(connection, after.health)
        if message is not None:
            put_message(connection, message)
    return after


def release(store: Store, *, holder: str, at: datetime) -> None:
    """Make all notifications due that wait until the process `holder` has measured again."""
    is_pending = OutboxTable.c.state == str(NotificationState.PENDING)
    waits = is_pending & (OutboxTable.c.holder == holder) & (OutboxTable.c.due_at > at)
    with store.read() as connection:
        if connection.execute(select(OutboxTable.c.id).where(waits).limit(1)).first() is None:
            return
    with store.write() as connection:
        connection.execute(update(OutboxTable).where(waits).values(due_at=at))


def resend(store: Store, ids: Collection[str] | None, *, at: datetime) -> int:
    """Make dead notifications pending, those with `ids` or all; return their number."""
    is_dead = OutboxTable.c.state == str(NotificationState.DEAD)
    if ids is not None:
        is_dead = is_dead & OutboxTable.c.id.in_(ids)
    with store.write() as connection:
        dead = connection.execute(select(OutboxTable.c.receiver).where(is_dead)).scalars().all()
        values = {
            "state": str(NotificationState.PENDING),
            "due_at": at,
            "num_attempts": 0,
            "delivery_id": "",
        }
        connection.execute(update(OutboxTable).where(is_dead).values(**values))
        connection.execute(delete(ReceiverTable).where(ReceiverTable.c.receiver.in_(set(dead))))
    return len(dead)


def _queue(connection: Connection, receiver: str) -> Queue:
    health = connection.execute(
        select(ReceiverTable).where(ReceiverTable.c.receiver == receiver)
    ).first()
    return Queue(
        health=ReceiverHealth(receiver=receiver) if health is None else _health(health),
        waiting=_looked_at(connection, receiver),
    )


def _looked_at(connection: Connection, receiver: str) -> tuple[Notification, ...]:
    """Return the oldest waiting notifications and, behind them, tests and the urgent ones."""
    is_waiting = (OutboxTable.c.receiver == receiver) & (
        OutboxTable.c.state.in_([str(state) for state in WAITING])
    )
    waiting = select(OutboxTable).where(is_waiting).order_by(OutboxTable.c.number)
    oldest = _records(connection, waiting.limit(MAX_LOOKED_AT))
    if len(oldest) < MAX_LOOKED_AT:
        return oldest
    is_behind = OutboxTable.c.number > oldest[-1].number
    is_test = OutboxTable.c.kind == str(AlertChangeKind.TEST)
    oldest += _records(connection, waiting.where(is_behind, is_test))
    severe = select(OutboxTable.c.number).where(
        is_waiting, is_behind, OutboxTable.c.severity == str(Severity.SEVERE)
    )
    last = (
        connection.execute(
            severe.order_by(OutboxTable.c.number).offset(MAX_LOOKED_AT - 1).limit(1)
        ).scalar()
        or connection.execute(select(func.max(severe.subquery().c.number))).scalar()
    )
    if last is None:
        return oldest
    behind = _records(connection, waiting.where(is_behind, OutboxTable.c.number <= last))
    ids = {item.id for item in urgent((*oldest, *behind))}
    return (*oldest, *(item for item in behind if item.id in ids))


def _records(connection: Connection, query: Select[Any]) -> tuple[Notification, ...]:
    return tuple(notification_record(row) for row in connection.execute(query))


def _save(connection: Connection, changed: Sequence[Notification]) -> None:
    for item in changed:
        here = OutboxTable.c.id == item.id
        connection.execute(update(OutboxTable).where(here).values(**delivery_values(item)))


def _save_health(connection: Connection, health: ReceiverHealth) -> None:
    connection.execute(delete(ReceiverTable).where(ReceiverTable.c.receiver == health.receiver))
    connection.execute(
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

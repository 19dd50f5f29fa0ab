"""Notifications to rows and back, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.engine import Row
from sqlalchemy.orm import Session

from compile_hud.db.records.notifications import NewsKind, Notification, NotificationState, Severity
from compile_hud.db.rows.mapping import Values, clean_text, utc, utc_or_none
from compile_hud.db.schema._merge_message_tables import OutboxTable
from compile_hud.db.shared.text import one_line


def put_notifications(session: Session, notifications: Sequence[Notification]) -> None:
    """Add `notifications` in this order, less those that are in; one that was dropped is sent."""
    wanted = {item.id: item for item in notifications}
    if not wanted:
        return
    columns = select(OutboxTable.id, OutboxTable.state).where(OutboxTable.id.in_(wanted))
    known = {row.id: row.state for row in session.execute(columns)}
    last = session.execute(select(func.max(OutboxTable.number))).scalar() or 0
    new = [item for item in wanted.values() if item.id not in known]
    rows = [{**_values(item), "number": number} for number, item in enumerate(new, last + 1)]
    if rows:
        session.execute(insert(OutboxTable), rows)
    dropped = [id for id, state in known.items() if state == NotificationState.DROPPED]
    for id in dropped:
        revived = {"state": str(NotificationState.PENDING), "due_at": utc(wanted[id].due_at)}
        session.execute(update(OutboxTable).where(OutboxTable.id == id).values(**revived))


def _values(item: Notification) -> Values:
    return {
        "id": item.id,
        "receiver": item.receiver,
        "subject": item.subject,
        "kind": str(item.kind),
        "severity": str(item.severity),
        "title": one_line(item.title),
        "alert_ids": list(item.alert_ids),
        "created_at": utc(item.created_at),
        **delivery_values(item),
    }


def delivery_values(item: Notification) -> Values:
    """Return the columns that change while `item` is delivered."""
    return {
        "due_at": utc(item.due_at),
        "state": str(item.state),
        "num_attempts": item.num_attempts,
        "num_together": item.num_together,
        "delivery_id": item.delivery_id,
        "holder": item.holder,
        "attempted_at": utc_or_none(item.attempted_at),
        "last_error": clean_text(item.last_error),
    }


def notification_record(row: Row[Any]) -> Notification:
    """Return the notification of a row of `outbox`."""
    return Notification(
        id=row.id,
        receiver=row.receiver,
        subject=row.subject,
        kind=NewsKind(row.kind),
        severity=Severity(row.severity),
        title=row.title,
        alert_ids=tuple(row.alert_ids),
        created_at=utc(row.created_at),
        due_at=utc(row.due_at),
        number=row.number,
        state=NotificationState(row.state),
        num_attempts=row.num_attempts,
        num_together=row.num_together,
        delivery_id=row.delivery_id,
        holder=row.holder,
        attempted_at=utc_or_none(row.attempted_at),
        last_error=row.last_error,
    )

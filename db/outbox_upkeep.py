"""What is put into the outbox beside news, what of it is forgotten, and how its receivers do."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from db.notification_rows import put_notifications
from db.notifications import Notification
from db.store import Store
from db.tables import OutboxTable


def put_missing(store: Store, notifications: Sequence[Notification]) -> None:
    """Add those of `notifications` that were never in; where all were, nothing is written."""
    ids = [item.id for item in notifications]
    with store.read() as connection:
        known = set(
            connection.execute(select(OutboxTable.id).where(OutboxTable.id.in_(ids))).scalars()
        )
    missing = [item for item in notifications if item.id not in known]
    if missing:
        with store.write() as session:
            put_notifications(session, missing)

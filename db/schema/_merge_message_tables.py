"""The tables of messages about alerts; `db.schema.tables` says what all tables share."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import JSON, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from compile_hud.db.schema.tables import Base, UtcTime


class OutboxTable(Base):
    """One row a notification, written in the transaction of the alerts that it tells of.

    `id` is its idempotency key, `number` its place in the order, `alert_ids` a list in JSON.
    `delivery_id` and `holder` say as part of what, and by which process, it is being sent.
    """

    __tablename__ = "outbox"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    number: Mapped[int] = mapped_column(Integer)
    receiver: Mapped[str] = mapped_column(String)
    subject: Mapped[str] = mapped_column(String)
    kind: Mapped[str] = mapped_column(String)
    severity: Mapped[str] = mapped_column(String)
    title: Mapped[str] = mapped_column(Text)
    alert_ids: Mapped[list[str]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    due_at: Mapped[datetime] = mapped_column(UtcTime)
    state: Mapped[str] = mapped_column(String)
    num_attempts: Mapped[int] = mapped_column(Integer)
    num_together: Mapped[int] = mapped_column(Integer)
    delivery_id: Mapped[str] = mapped_column(String)
    holder: Mapped[str] = mapped_column(String)
    attempted_at: Mapped[datetime | None] = mapped_column(UtcTime)
    last_error: Mapped[str] = mapped_column(Text)


class ReceiverTable(Base):
    """One row a receiver of notifications that failed: how often in a row, and until when it rests.

    Where it is reached and with which secret is in hud.toml alone.
    """

    __tablename__ = "receivers"

    receiver: Mapped[str] = mapped_column(String, primary_key=True)
    num_failures: Mapped[int] = mapped_column(Integer)
    held_until: Mapped[datetime | None] = mapped_column(UtcTime)


class MessageTable(Base):
    """One row a message that its receiver can change: its own name for it, and what it tells of.

    `notification_ids` is a list in JSON. An update that failed is tried again at `due_at`.
    """

    __tablename__ = "messages"

    receiver: Mapped[str] = mapped_column(String, primary_key=True)
    reference: Mapped[str] = mapped_column(String, primary_key=True)
    notification_ids: Mapped[list[str]] = mapped_column(JSON)
    sent_at: Mapped[datetime] = mapped_column(UtcTime)
    num_failures: Mapped[int] = mapped_column(Integer)
    due_at: Mapped[datetime | None] = mapped_column(UtcTime)


class MessageAlertTable(Base):
    """One row an alert of such a message: the state that the message says it has."""

    __tablename__ = "message_alerts"

    receiver: Mapped[str] = mapped_column(String, primary_key=True)
    reference: Mapped[str] = mapped_column(String, primary_key=True)
    alert_id: Mapped[str] = mapped_column(String, primary_key=True)
    state: Mapped[str] = mapped_column(String)

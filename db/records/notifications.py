"""Notifications: messages about alerts on their way to receivers. Needs the standard library."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.codec import JsonRecord
from compile_hud.db.records.string_enum import StrEnum

# Most receivers take no longer message.
MAX_TOGETHER = 100


class AlertChangeKind(StrEnum):
    """The change that a notification reports of its alerts."""

    OPENED = "opened"
    WORSENED = "worsened"
    REOPENED = "reopened"
    FIXED = "fixed"
    # The search for the revision behind the alert has a result.
    BISECTED = "bisected"
    # This kind is about no change: it lists open and fixed alerts.
    WEEKLY = "weekly"
    # This kind is about no alert: it is a test message to a receiver.
    TEST = "test"


class Severity(StrEnum):
    """The severity of the worst alert of a notification."""

    SEVERE = "severe"
    MAJOR = "major"
    MINOR = "minor"


class NotificationState(StrEnum):
    """The state of a notification.

    `dropped` means that a re-measurement refuted its alerts, or that it is a test that failed.
    """

    PENDING = "pending"
    SENDING = "sending"
    FAILED = "failed"
    SENT = "sent"
    DEAD = "dead"
    DROPPED = "dropped"


# Notifications in these states are still to be sent.
WAITING = (NotificationState.PENDING, NotificationState.SENDING, NotificationState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroup:
    """Alerts of one event (or a single alert, which is then the `subject`) that changed alike.

    `stamps` identify each alert's change among those of this kind, in the order of `alerts`.
    """

    kind: AlertChangeKind
    subject: str
    title: str
    alerts: tuple[Alert, ...]
    stamps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification(JsonRecord):
    """One message for one receiver; `id` is its idempotency key.

    It is not sent before `due_at`, and together with at most `num_together` others. `delivery_id`
    names the delivery that may have sent it, empty after the answer. `holder` is the process that
    sends it, or that first re-measures its alerts.
    """

    id: str
    receiver: str
    subject: str
    kind: AlertChangeKind
    severity: Severity
    title: str
    alert_ids: tuple[str, ...]
    created_at: datetime
    due_at: datetime
    number: int = 0
    state: NotificationState = NotificationState.PENDING
    num_attempts: int = 0
    num_together: int = MAX_TOGETHER
    delivery_id: str = ""
    holder: str = ""
    attempted_at: datetime | None = None
    last_error: str = ""

    @property
    def about(self) -> frozenset[str]:
        """Return the ids of its alerts and their event."""
        return frozenset((self.subject, *self.alert_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverHealth:
    """The health of a receiver: failed deliveries in a row, and the end of its pause."""

    receiver: str
    num_failures: int = 0
    held_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The waiting notifications of one receiver, oldest first, and the health of the receiver."""

    health: ReceiverHealth
    waiting: tuple[Notification, ...]


def urgent(items: Sequence[Notification]) -> list[Notification]:
    """Return the severe of `items`, with earlier ones about the same alerts.

    The end of something severe is not urgent.
    """
    selection: list[Notification] = []
    about: set[str] = set()
    for item in reversed(items):
        is_severe = item.severity is Severity.SEVERE and item.kind is not AlertChangeKind.FIXED
        if is_severe or not about.isdisjoint(item.about):
            about |= item.about
            selection.append(item)
    return selection[::-1]


def make_receiver_test(receiver: str, *, at: datetime) -> Notification:
    """Return a new test message to `receiver`, which is about no alert."""
    return Notification(
        id=f"msg_{uuid.uuid4().hex}",
        receiver=receiver,
        subject="test",
        kind=AlertChangeKind.TEST,
        severity=Severity.MINOR,
        title=f"the receiver {receiver} gets notifications of Compile HUD",
        alert_ids=(),
        created_at=at,
        due_at=at,
    )


def stable_id(*parts: str) -> str:
    """Return an idempotency key that is the same for the same parts."""
    text = "\n".join(parts)
    return f"msg_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def notification_id(group: ChangeGroup, *, receiver: str, alerts: Iterable[Alert]) -> str:
    """Return the idempotency key of a message to `receiver` about these `alerts` of `group`."""
    stamps = {alert.id: stamp for alert, stamp in zip(group.alerts, group.stamps, strict=True)}
    stamped = sorted(f"{alert.id} {stamps[alert.id]}" for alert in alerts)
    return stable_id(group.subject, group.kind, receiver, *stamped)

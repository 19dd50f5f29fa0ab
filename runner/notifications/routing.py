"""Routing: map alert changes to the receivers of matching routes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from compile_hud.db.records.alerts import Alert, Event
from compile_hud.db.records.notifications import (
    ChangeGroup,
    Notification,
    notification_id,
)
from compile_hud.db.records.triage import Revision
from compile_hud.db.store import utc_now
from compile_hud.runner.analysis.alerts.severity import worst_severity
from compile_hud.runner.notifications.alert_changes import diff_alerts
from compile_hud.runner.notifications.routes import Route

# The confirming process releases its notifications at the end; a dead process cannot.
MAX_HOLD = timedelta(hours=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationPlanner:
    """Makes the notifications of the detector's decisions; the store saves both together.

    The notifications wait until `holder`, a process that confirms suspects, releases them. An empty
    `holder` means no wait.
    """

    routes: Sequence[Route] = ()
    now: Callable[[], datetime] = utc_now
    holder: str = ""

    def notifications(
        self,
        before: Sequence[Alert],
        revisions: Sequence[Revision],
        *,
        events: Mapping[str, Event],
    ) -> list[Notification]:
        """Return a notification for each alert change and each receiver of its routes."""
        at = self.now()
        after = [revision.alert for revision in revisions]
        notifications = [
            notification
            for group in diff_alerts(before, after, events=events, at=at)
            for notification in make_notifications(group, routes=self.routes, at=at)
        ]
        if not self.holder:
            return notifications
        return [replace(item, due_at=at + MAX_HOLD, holder=self.holder) for item in notifications]


NO_NOTIFICATIONS = NotificationPlanner()


def make_notifications(
    group: ChangeGroup, *, routes: Sequence[Route], at: datetime
) -> list[Notification]:
    """Return one notification for each receiver with a route for an alert of `group`."""
    by_receiver: dict[str, dict[str, Alert]] = {}
    for route in routes:
        taken = {alert.id: alert for alert in group.alerts if route.takes(alert, kind=group.kind)}
        for receiver in route.receivers if taken else ():
            by_receiver.setdefault(receiver, {}).update(taken)
    return [
        Notification(
            id=notification_id(group, receiver=receiver, alerts=alerts.values()),
            receiver=receiver,
            subject=group.subject,
            kind=group.kind,
            severity=worst_severity(alerts.values()),
            title=group.title,
            alert_ids=tuple(alerts),
            created_at=at,
            due_at=at,
        )
        for receiver, alerts in by_receiver.items()
    ]

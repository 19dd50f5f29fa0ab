"""Routing: map alert changes to the receivers of matching routes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from compile_hud.db.records.alerts import Alert, Event
from compile_hud.db.records.notifications import (
    ChangeGroup,
    Notification,
    notification_id,
)
from compile_hud.db.records.triage import Revision
from compile_hud.db.store import utc_now
from compile_hud.runner.analysis.alerts.lifecycle import Update
from compile_hud.runner.analysis.alerts.severity import worst_severity
from compile_hud.runner.notifications.alert_changes import diff_alerts
from compile_hud.runner.notifications.routes import Route

# The confirming process releases its notifications at the end; a dead process cannot.
MAX_HOLD = timedelta(hours=6)
FindCodes = Callable[[Sequence[Alert]], Mapping[str, Sequence[str]]]
NO_CODES: Mapping[tuple[str, str], Sequence[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationPlanner:
    """Makes the notifications of the detector's decisions; the store saves both together.

    The notifications wait until `holder`, a process that confirms suspects, releases them. An empty
    `holder` means no wait. `find` reads the codes of the new findings behind alerts, by alert id.
    """

    routes: Sequence[Route] = ()
    now: Callable[[], datetime] = utc_now
    holder: str = ""
    find: FindCodes = lambda _alerts: {}
    # The codes by the case and runs of an alert: an alert that is new has another id in the store.
    codes: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)

    def with_findings_of_changes(
        self,
        before: Sequence[Alert],
        make_update: Callable[[Sequence[Alert]], Update],
    ) -> NotificationPlanner:
        """Return the planner with the findings behind the alerts that an update will change.

        Histories of years have thousands of alerts, of which a night changes a few.
        """
        if not self._needs_findings:
            return self
        update = make_update(before)
        after = [revision.alert for revision in update.revisions]
        groups = diff_alerts(before, after, events=update.events, at=self.now())
        return self.with_findings([alert for group in groups for alert in group.alerts])

    def with_findings(self, alerts: Sequence[Alert]) -> NotificationPlanner:
        """Return the planner with the findings behind `alerts`, if a route needs them.

        It reads the store, so it must be called outside of a write.
        """
        if not self._needs_findings:
            return self
        by_alert = self.find(alerts)
        codes: dict[tuple[str, str], tuple[str, ...]] = {}
        for alert in alerts:
            # The alerts of a case about its latency, memory and outcome have the same findings.
            known = codes.get(_subject(alert), ())
            codes[_subject(alert)] = (*known, *by_alert.get(alert.id, ()))
        return replace(self, codes={**self.codes, **codes})

    @property
    def _needs_findings(self) -> bool:
        return any(route.needs_findings for route in self.routes)

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
            for notification in make_notifications(
                group, routes=self.routes, at=at, codes=self.codes
            )
        ]
        if not self.holder:
            return notifications
        return [replace(item, due_at=at + MAX_HOLD, holder=self.holder) for item in notifications]


NO_NOTIFICATIONS = NotificationPlanner()


def _subject(alert: Alert) -> tuple[str, str]:
    return alert.case.key, alert.first_bad.run_id


def make_notifications(
    group: ChangeGroup,
    *,
    routes: Sequence[Route],
    at: datetime,
    codes: Mapping[tuple[str, str], Sequence[str]] = NO_CODES,
) -> list[Notification]:
    """Return one notification for each receiver with a route for an alert of `group`.

    `codes` are those of findings, by the case and the first bad run of an alert.
    """
    by_receiver: dict[str, dict[str, Alert]] = {}
    for route in routes:
        taken = {
            alert.id: alert
            for alert in group.alerts
            if route.takes(alert, kind=group.kind, findings=codes.get(_subject(alert), ()))
        }
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

"""Who is told of what: routes lead news to receivers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from compile_hud.db.records.alerts import Alert, Event
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.notifications import (
    News,
    NewsKind,
    Notification,
    Severity,
    notification_id,
)
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.triage import Revision
from compile_hud.db.store import utc_now
from compile_hud.runner.notifications.alert_changes import find_news, severity_of, worst_of

# What alerts give reason to tell.
TOLD: Final = tuple(str(kind) for kind in NewsKind if kind not in (NewsKind.TEST, NewsKind.WEEKLY))
# Whoever measures suspects again says when that is over; a process that died cannot.
MAX_HOLD = timedelta(hours=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which news go to `receivers`: each list must have something that fits.

    What was measured elsewhere is told only where `imported` says so.
    """

    name: str
    receivers: tuple[str, ...]
    models: tuple[str, ...] = ("*",)
    modes: tuple[str, ...] = ("*",)
    metrics: tuple[str, ...] = ("*",)
    owners: tuple[str, ...] = ("*",)
    severities: tuple[str, ...] = tuple(map(str, Severity))
    verdicts: tuple[str, ...] = (str(Verdict.REGRESSION),)
    news: tuple[str, ...] = TOLD
    imported: bool = False

    def takes(self, alert: Alert, *, kind: NewsKind) -> bool:
        """Return whether this route leads news of that kind about `alert`."""
        return kind in self.news and self.covers(alert)

    def covers(self, alert: Alert) -> bool:
        """Return whether `alert` fits each list, whatever the news about it is."""
        case = alert.case
        return (
            (self.imported or not is_imported(alert.toolchain))
            and alert.verdict in self.verdicts
            and severity_of(alert) in self.severities
            and _fits(self.models, case.model)
            and (_fits(self.modes, case.mode) or _fits(self.modes, case.variant))
            and _fits(self.metrics, alert.metric)
            and _fits(self.owners, alert.owner)
        )


def _fits(globs: Sequence[str], name: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Makes the notifications of what the judge decides, for the store to save with it.

    They wait until `holder`, a process that measures suspects again, releases them; nobody if
    empty.
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
        """Return a notification for each piece of news and each receiver that it is led to."""
        at = self.now()
        after = [revision.alert for revision in revisions]
        found = [
            notification
            for news in find_news(before, after, events=events, at=at)
            for notification in notifications_of(news, routes=self.routes, at=at)
        ]
        if not self.holder:
            return found
        return [replace(item, due_at=at + MAX_HOLD, holder=self.holder) for item in found]


NOBODY = Telling()


def notifications_of(news: News, *, routes: Sequence[Route], at: datetime) -> list[Notification]:
    """Return one notification for each receiver that a route leads some alert of `news` to."""
    wanted: dict[str, dict[str, Alert]] = {}
    for route in routes:
        taken = {alert.id: alert for alert in news.alerts if route.takes(alert, kind=news.kind)}
        for receiver in route.receivers if taken else ():
            wanted.setdefault(receiver, {}).update(taken)
    return [
        Notification(
            id=notification_id(news, receiver=receiver, alerts=alerts.values()),
            receiver=receiver,
            subject=news.subject,
            kind=news.kind,
            severity=worst_of(alerts.values()),
            title=news.title,
            alert_ids=tuple(alerts),
            created_at=at,
            due_at=at,
        )
        for receiver, alerts in wanted.items()
    ]

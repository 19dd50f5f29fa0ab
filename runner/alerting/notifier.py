"""Build the notification services from the settings in force."""

from __future__ import annotations

import functools
import importlib.util
import logging
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from compile_hud.db.alerts.outbox import release
from compile_hud.db.alerts.outbox_maintenance import put_missing
from compile_hud.db.alerts.sent_messages import load_reported
from compile_hud.db.errors import StoreError
from compile_hud.db.queries.alerts import (
    load_alerts,
    load_alerts_with_ids,
    load_changes,
    load_changes_of,
    newest_change_number,
)
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.notifications import AlertChangeKind, Notification
from compile_hud.db.records.triage import ChangedField
from compile_hud.db.shared.processes import this_process
from compile_hud.db.shared.text import counted
from compile_hud.db.shared.trend_images import draw_trends
from compile_hud.db.store import Store
from compile_hud.runner.alerting.alert_findings import finding_codes
from compile_hud.runner.alerting.message_links import Linker, make_linker
from compile_hud.runner.alerting.payload import alerts_json
from compile_hud.runner.config.load import Config
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.notifications.alert_changes import is_current
from compile_hud.runner.notifications.dispatcher import (
    PASS_S,
    Dispatcher,
    DispatchReport,
    Draw,
    Item,
    Receiver,
    Updatable,
    draw_nothing,
)
from compile_hud.runner.notifications.message_updates import Updater
from compile_hud.runner.notifications.receivers.factory import make_receiver
from compile_hud.runner.notifications.routes import Route
from compile_hud.runner.notifications.routing import NotificationPlanner
from compile_hud.runner.notifications.weekly_digest import (
    fixed_between,
    make_weekly,
    relevant_alerts,
    weekly_notification,
)
from compile_hud.runner.workspace import Workspace

logger = logging.getLogger(__name__)

# A message about hundreds of series lists the worst; the dashboard has the rest.
MAX_LISTED_ALERTS = 50
# A scheduler that starts days later must not send a test that no person expects any more.
MAX_TEST_AGE = timedelta(days=1)
# Packages of the dashboard, which draws the trends.
_NEEDED = ("streamlit", "altair", "vl_convert")
# A separate process: a crash or an endless loop of the renderer costs only the pictures.
RENDER_COMMAND = (sys.executable, "-P", "-m", "compile_hud.app.server.trend_png")


def make_planner(workspace: Workspace, *, is_held: bool = False) -> NotificationPlanner:
    """Return the planner of notifications; with `is_held` they wait for `send_waiting`."""
    return NotificationPlanner(
        routes=routes_of(workspace.config),
        now=workspace.dependencies.now,
        holder=this_process() if is_held else "",
        find=lambda alerts: finding_codes(alerts, store=workspace.store()),
    )


def routes_of(config: Config) -> tuple[Route, ...]:
    """Return the routes of hud.toml; without any, each receiver gets a route for all changes."""
    return config.routes or tuple(Route(name=name, receivers=(name,)) for name in config.receivers)


def make_dispatcher(workspace: Workspace, *, limit_s: float = PASS_S) -> Dispatcher:
    """Return the dispatcher of the notifications in the store of `workspace`."""
    config, dependencies = workspace.config, workspace.dependencies
    return Dispatcher(
        store=workspace.store(),
        receivers={
            name: make_receiver(settings, env=dependencies.env)
            for name, settings in config.receivers.items()
        },
        build_messages=lambda items: build_messages(items, workspace=workspace),
        now=dependencies.now,
        jitter=_drawn_below,
        draw=make_draw(workspace),
        limit_s=limit_s,
    )


def make_updater(
    workspace: Workspace, *, receivers: Mapping[str, Receiver], limit_s: float = PASS_S
) -> Updater:
    """Return the updater of sent messages, for the `receivers` whose messages can change."""
    dependencies = workspace.dependencies
    return Updater(
        store=workspace.store(),
        receivers={name: item for name, item in receivers.items() if isinstance(item, Updatable)},
        build_messages=lambda items: build_messages(items, workspace=workspace, is_update=True),
        now=dependencies.now,
        jitter=_drawn_below,
        draw=make_draw(workspace),
        limit_s=limit_s,
    )


def _drawn_below(limit_s: float) -> float:
    return random.uniform(0.0, limit_s)


def build_messages(
    notifications: Sequence[Notification], *, workspace: Workspace, is_update: bool = False
) -> list[Item]:
    """Return `notifications` with the present state of their current alerts.

    An update of a sent message (`is_update`) shows all its alerts. A test message has none.
    """
    store, at = workspace.store(), workspace.dependencies.now()
    linker = _linker(workspace)
    alert_ids = {id for item in notifications for id in item.alert_ids}
    # The changes are read before the alerts: a link must not know a change that its message omits.
    number = newest_change_number(store) if linker else 0
    known = {alert.id: alert for alert in load_alerts_with_ids(store, alert_ids)}
    current_ids = [
        [id for id in notification.alert_ids if id in known]
        if is_update
        else _current_ids(notification, known, at=at, store=store)
        for notification in notifications
    ]
    # One read for all alerts: thousands cost the store as many queries as one.
    listed = {id: known[id] for ids in current_ids for id in ids[:MAX_LISTED_ALERTS]}
    documents = dict(
        zip(
            listed,
            alerts_json(tuple(listed.values()), store=store, dashboard=workspace.config.dashboard),
            strict=True,
        )
    )
    deciders = _deciders(listed.values(), store=store)
    digests = _weekly(notifications, workspace=workspace)
    return [
        digests.get(notification.id)
        or Item(
            notification=notification,
            alerts=tuple(documents[id] for id in ids[:MAX_LISTED_ALERTS]),
            num_alerts=len(ids),
            deciders=deciders,
            **_links(notification, [known[id] for id in ids], number=number, linker=linker),
        )
        for notification, ids in zip(notifications, current_ids, strict=True)
        if ids or notification.id in digests or _is_test(notification, at=at)
    ]


def _is_test(notification: Notification, *, at: datetime) -> bool:
    """Return whether `notification` is a test message that is still expected."""
    is_new = at - notification.created_at <= MAX_TEST_AGE
    return notification.kind is AlertChangeKind.TEST and is_new


def _weekly(notifications: Sequence[Notification], *, workspace: Workspace) -> dict[str, Item]:
    """Return the weekly digests among `notifications`, by their ids."""
    weekly_notifications = [item for item in notifications if item.kind is AlertChangeKind.WEEKLY]
    if not weekly_notifications:
        return {}
    items = weekly_items(weekly_notifications, workspace=workspace)
    # A digest without content is dropped.
    return {
        item.notification.id: item for item in items if item.weekly and not item.weekly.is_empty
    }


def weekly_items(notifications: Sequence[Notification], *, workspace: Workspace) -> list[Item]:
    """Return these weekly digests with their content, which may be empty."""
    store, config = workspace.store(), workspace.config
    alerts, changes = load_alerts(store), load_changes(store)
    items = []
    for notification in notifications:
        until = notification.created_at
        routes = [item for item in routes_of(config) if notification.receiver in item.receivers]
        since = until - timedelta(days=7)
        fixed_ids = fixed_between(changes, since=since, until=until)
        codes = finding_codes(
            [
                alert
                for alert in relevant_alerts(alerts, fixed_ids=fixed_ids)
                if any(route.needs_findings_of(alert) for route in routes)
            ],
            store=store,
        )
        weekly = make_weekly(
            # A receiver without a route gets the digest only.
            [
                alert
                for alert in alerts
                if not routes
                or any(r.covers(alert, findings=codes.get(alert.id, ())) for r in routes)
            ],
            fixed_ids=fixed_ids,
            since=since,
            until=until,
            url=f"{config.dashboard}/alerts",
        )
        items.append(Item(notification=notification, alerts=(), num_alerts=0, weekly=weekly))
    return items


def queue_weekly(workspace: Workspace) -> None:
    """Queue each due weekly digest once."""
    at = workspace.dependencies.now()
    put_missing(
        workspace.store(),
        [
            weekly_notification(
                name, due=settings.weekly.last(at, timezone=settings.timezone), at=at
            )
            for name, settings in workspace.config.receivers.items()
            if settings.weekly is not None
        ],
    )


def _deciders(alerts: Iterable[Alert], *, store: Store) -> dict[str, str]:
    """Return the author of the state of each alert that is not open, by alert id."""
    ids = [alert.id for alert in alerts if alert.state is not AlertState.OPEN]
    changes = load_changes_of(store, ids) if ids else ()
    return {item.alert_id: item.by for item in changes if item.field is ChangedField.STATE}


def _current_ids(
    notification: Notification, known: Mapping[str, Alert], *, at: datetime, store: Store
) -> list[str]:
    """Return the ids of current alerts, none if earlier messages already show their states."""
    ids = [
        id
        for id in notification.alert_ids
        if id in known and is_current(notification.kind, known[id], at=at)
    ]
    states = {id: str(known[id].state) for id in ids}
    if notification.kind is not AlertChangeKind.FIXED or set(states.values()) != {AlertState.FIXED}:
        return ids
    reported_ids = load_reported(store, receiver=notification.receiver, states=states)
    return [] if reported_ids == states.keys() else ids


def _linker(workspace: Workspace) -> Linker | None:
    dependencies = workspace.dependencies
    try:
        return make_linker(workspace.config, env=dependencies.env, now=dependencies.now)
    except ConfigError as error:
        # A message without links is better than no message.
        logger.warning("messages carry no links: %s", error)
        return None


def _links(
    notification: Notification, alerts: Sequence[Alert], *, number: int, linker: Linker | None
) -> dict[str, Any]:
    """Return the addresses of an item, none without a linker or an alert."""
    if linker is None or not alerts:
        return {}
    states = {alert.state for alert in alerts}
    return {
        "actions": linker.actions(notification, states=states, number=number),
        "picture_url": linker.picture(alerts[0].id),
    }


def send_waiting(
    workspace: Workspace, *, notify: Notify, limit_s: float = PASS_S
) -> DispatchReport:
    """Send the due notifications and the ones that this process deferred; report failures.

    After `limit_s` a slow receiver gets no further message.
    """
    if not workspace.config.receivers:
        return DispatchReport()
    try:
        queue_weekly(workspace)
        release(workspace.store(), holder=this_process(), at=workspace.dependencies.now())
        dispatcher = make_dispatcher(workspace, limit_s=limit_s)
        # The update comes first: a sent message that shows the new state needs no other message.
        errors = make_updater(workspace, receivers=dispatcher.receivers, limit_s=limit_s).update()
        report = dispatcher.dispatch()
    except StoreError as error:
        text = f"notifications are not sent: {error}. `hud alerts send` does it later"
        notify(LogMessage(text=text, is_warning=True))
        return DispatchReport()
    for name, text in {**errors, **report.errors}.items():
        message = (
            f"receiver {name}: {text}. `hud alerts outbox` says what waits and what was given up"
        )
        notify(LogMessage(text=message, is_warning=True))
    if report.num_sent:
        notify(LogMessage(text=f"{counted(report.num_sent, 'notification')} sent"))
    return report


def make_draw(workspace: Workspace) -> Draw:
    """Return the renderer of trends; without the dashboard's packages it draws nothing."""
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        return draw_nothing
    return functools.partial(
        draw_trends, store_url=workspace.config.store_url, command=RENDER_COMMAND
    )

"""Put notifying together from the settings in force."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Any

from db.alert_queries import load_alerts_with_ids, newest_change_number
from db.errors import StoreError
from db.notifications import Notification
from db.outbox import release
from db.processes import this_process
from db.records import Alert
from runner.alerts.deliveries import Policy
from runner.alerts.dispatch import Dispatcher, DispatchReport, Item
from runner.alerts.documents import alerts_json
from runner.alerts.links import Linker, make_linker
from runner.alerts.news import is_still_news
from runner.alerts.pictures import make_draw
from runner.alerts.receivers import make_receiver
from runner.alerts.routes import Route, Telling
from runner.errors import ConfigError
from runner.events import Notify, Said
from runner.wiring import Workplace

logger = logging.getLogger(__name__)

# A step in hundreds of series is told by its worst; the dashboard has the rest.
MAX_ALERTS_TOLD = 50


def make_telling(workplace: Workplace, *, is_held: bool = False) -> Telling:
    """Return what makes notifications; those of one that `is_held` wait for `send_waiting`."""
    config = workplace.config
    routes = config.routes or tuple(
        Route(name=name, receivers=(name,)) for name in config.receivers
    )
    return Telling(routes=routes, now=workplace.seams.now, holder=this_process() if is_held else "")


def make_dispatcher(workplace: Workplace, *, policy: Policy | None = None) -> Dispatcher:
    """Return what sends the notifications in the store of `workplace`."""
    config, seams = workplace.config, workplace.seams
    return Dispatcher(
        store=workplace.store(),
        receivers={
            name: make_receiver(settings, env=seams.env)
            for name, settings in config.receivers.items()
        },
        compose=lambda items: compose(items, workplace=workplace),
        now=seams.now,
        jitter=lambda limit_s: random.uniform(0.0, limit_s),
        policy=policy or Policy(),
        draw=make_draw(workplace),
        quiet={name: settings.quiet_rule for name, settings in config.receivers.items()},
    )


def compose(notifications: Sequence[Notification], *, workplace: Workplace) -> list[Item]:
    """Return `notifications` with their alerts as they are now, less those that are no news."""
    store, at = workplace.store(), workplace.seams.now()
    linker = _linker(workplace)
    wanted = {id for item in notifications for id in item.alert_ids}
    # Read before the alerts: a link must not know of a change that its message does not show.
    number = newest_change_number(store) if linker else 0
    known = {alert.id: alert for alert in load_alerts_with_ids(store, wanted)}
    news = [
        [
            id
            for id in notification.alert_ids
            if id in known and is_still_news(notification.kind, known[id], at=at)
        ]
        for notification in notifications
    ]
    # All at once: what is read of the store for one alert can be read for thousands.
    told = {id: known[id] for ids in news for id in ids[:MAX_ALERTS_TOLD]}
    shown = dict(zip(told, alerts_json(tuple(told.values()), workplace=workplace), strict=True))
    return [
        Item(
            notification=notification,
            alerts=tuple(shown[id] for id in ids[:MAX_ALERTS_TOLD]),
            num_alerts=len(ids),
            **_links(notification, [known[id] for id in ids], number=number, linker=linker),
        )
        for notification, ids in zip(notifications, news, strict=True)
        if ids
    ]


def _linker(workplace: Workplace) -> Linker | None:
    seams = workplace.seams
    try:
        return make_linker(workplace.config, env=seams.env, now=seams.now)
    except ConfigError as error:
        # A message that has no links is better than none.
        logger.warning("messages carry no links: %s", error)
        return None


def _links(
    notification: Notification, alerts: Sequence[Alert], *, number: int, linker: Linker | None
) -> dict[str, Any]:
    """Return the addresses of an item, none where there is no linker."""
    if linker is None:
        return {}
    states = {alert.state for alert in alerts}
    return {
        "actions": linker.actions(notification, states=states, number=number),
        "picture_url": linker.picture(alerts[0].id),
    }


def send_waiting(workplace: Workplace, *, notify: Notify) -> DispatchReport:
    """Send what is due, and what this process held back, and say what did not go out."""
    if not workplace.config.receivers:
        return DispatchReport()
    try:
        release(workplace.store(), holder=this_process(), at=workplace.seams.now())
        report = make_dispatcher(workplace).dispatch()
    except StoreError as error:
        text = f"notifications are not sent: {error}. `hud alerts send` does it later"
        notify(Said(text=text, is_warning=True))
        return DispatchReport()
    for name, text in report.trouble.items():
        told = f"receiver {name}: {text}. `hud alerts outbox` says what waits and what was given up"
        notify(Said(text=told, is_warning=True))
    if report.num_sent:
        notify(Said(text=f"{report.num_sent} notifications sent"))
    return report

"""Read the receivers and their deliveries, and queue test messages.

A test message is a notification in the outbox. The process that sends notifications sends it too,
so the dashboard opens no connection to a receiver and has no secret of one.
"""

from __future__ import annotations

import logging
import os

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.health import HealthPage
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.store import StoreVersion, open_store, store_url
from compile_hud.app.ui.format import local_moment
from compile_hud.app.views.receivers.records import ReceiverCard, ReceiversPage
from compile_hud.db.alerts.outbox import load_outbox
from compile_hud.db.alerts.outbox_maintenance import (
    ReceiverState,
    load_newest_tests,
    load_receiver_states,
    put_missing,
)
from compile_hud.db.errors import StoreError
from compile_hud.db.records.notifications import (
    WAITING,
    Notification,
    NotificationState,
    make_receiver_test,
)
from compile_hud.db.shared.access_rules import Role
from compile_hud.db.shared.settings_snapshot import RECEIVERS_VARIABLE, receivers_from_json

logger = logging.getLogger(__name__)

ACTION = "sending test messages"


def load_receivers_page(health: HealthPage) -> Loaded[ReceiversPage]:
    """Return the receivers of hud.toml and those of the store."""
    now = clock.now()
    has_sender = any(item.is_alive(now=now) for item in health.health.schedulers)
    return _receivers(os.environ.get(RECEIVERS_VARIABLE), has_sender=has_sender)


def send_test(receiver: str) -> str:
    """Queue a test message to `receiver`; return the reason if that is refused, else "".

    The log records who did it.
    """
    person = access.present()
    try:
        access.require(person, Role.ADMIN, action=ACTION)
        problem = _queue_test(receiver)
    except (access.NotAllowed, StoreError) as error:
        problem = str(error)
    if problem:
        return f"Not sent: {problem}."
    logger.info("a test message to %r is queued by %r", receiver, person.signed_as("unknown"))
    return ""


def _queue_test(receiver: str) -> str:
    known = receivers_from_json(os.environ.get(RECEIVERS_VARIABLE, ""))
    if receiver not in {item.name for item in known}:
        return f"hud.toml has no [receivers.{receiver}]"
    store = open_store(store_url())
    newest = load_newest_tests(store).get(receiver)
    if newest is not None and newest.state in WAITING:
        return f"a test message has waited since {local_moment(newest.created_at)}"
    put_missing(store, [make_receiver_test(receiver, at=clock.now())])
    return ""


@cached_read
def _receivers(at: StoreVersion, exported: str | None, *, has_sender: bool) -> ReceiversPage:
    shown = {item.name: item for item in receivers_from_json(exported or "")}
    states = {item.receiver: item for item in load_receiver_states(at.store)}
    tests = load_newest_tests(at.store)
    dead: dict[str, list[Notification]] = {}
    for item in load_outbox(at.store, states=[NotificationState.DEAD]):
        dead.setdefault(item.receiver, []).append(item)
    cards = [
        ReceiverCard(
            state=states.get(name) or ReceiverState(receiver=name),
            shown=shown.get(name),
            test=tests.get(name),
            dead=tuple(dead.get(name, ())),
        )
        # A receiver that was removed from hud.toml matters while something waits for it.
        for name in dict.fromkeys((*shown, *states))
        if name in shown or states[name].num_waiting or name in dead
    ]
    return ReceiversPage(
        cards=tuple(sorted(cards, key=lambda card: not card.needs_attention)),
        is_configured=exported is not None,
        has_routes=any(item.routes for item in shown.values()),
        has_sender=has_sender,
    )

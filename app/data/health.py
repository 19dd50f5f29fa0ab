"""Read the health of schedulers, jobs and notifications, and send failed notifications again."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.store import StoreVersion, open_store, store_url
from compile_hud.db.alerts.outbox import count_outbox, count_unclaimed, load_outbox, resend
from compile_hud.db.errors import StoreError
from compile_hud.db.jobs.health import Health, load_health
from compile_hud.db.records.notifications import Notification, NotificationState
from compile_hud.db.shared.access_rules import Role
from compile_hud.db.shared.settings_snapshot import SETTINGS_VARIABLE, settings_from_json
from compile_hud.db.shared.text import counted

logger = logging.getLogger(__name__)
# The page polls at this interval. A heartbeat raises no version of the store, so time is part of
# the key.
FRESH_S = 15.0
_RECEIVERS = "receivers."


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPage:
    """The state of schedulers, jobs and devices, and the notifications that failed.

    `dead` are the failed notifications, oldest first. `num_notifications` counts all by receiver
    and state. `unclaimed` counts, by receiver, those for a receiver that hud.toml does not define.
    """

    health: Health
    dead: tuple[Notification, ...] = ()
    num_notifications: Mapping[tuple[str, NotificationState], int]
    unclaimed: Mapping[str, int] = field(default_factory=dict)


def load_health_page() -> Loaded[HealthPage]:
    """Return the state of all components, at most FRESH_S old."""
    return _health(int(clock.now().timestamp() // FRESH_S))


def send_again(ids: Collection[str]) -> str:
    """Queue failed notifications again; return the reason if that is refused, else "".

    The log records who did it.
    """
    person = access.present()
    try:
        access.require(person, Role.ADMIN, action="sending messages again")
        num_sent = resend(open_store(store_url()), ids, at=clock.now())
    except (access.NotAllowed, StoreError) as error:
        return f"Not sent again: {error}."
    by = person.signed_as("unknown")
    letters = counted(num_sent, "dead letter")
    logger.info("%s sent again by %r: %s", letters, by, " ".join(ids))
    return "" if num_sent else "Not sent again: another person has done it already."


@cached_read
def _health(at: StoreVersion, _period: int) -> HealthPage:
    store = at.store
    counts = count_outbox(store)
    settings = settings_from_json(os.environ.get(SETTINGS_VARIABLE, ""))
    names = {item.section.removeprefix(_RECEIVERS) for item in settings}
    return HealthPage(
        health=load_health(store),
        dead=load_outbox(store, states=[NotificationState.DEAD]),
        num_notifications=counts,
        # A dashboard that was started by itself has no hud.toml.
        unclaimed=count_unclaimed(counts, receivers=names) if settings else {},
    )

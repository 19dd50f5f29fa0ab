"""What the page of health is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compile_hud.db.jobs.health import Health
from compile_hud.db.records.notifications import Notification, NotificationState


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPage:
    """How schedulers, jobs and devices do, and what could not be sent.

    `dead` are the notifications that were given up, oldest first; `num_notifications` counts all by
    receiver and state, `unclaimed` those by receiver that wait for one that hud.toml does not name.
    """

    health: Health
    dead: tuple[Notification, ...] = ()
    num_notifications: Mapping[tuple[str, NotificationState], int]
    unclaimed: Mapping[str, int] = field(default_factory=dict)

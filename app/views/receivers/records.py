"""The data of the page of receivers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.alerts.outbox_maintenance import ReceiverState
from compile_hud.db.records.notifications import Notification
from compile_hud.db.shared.settings_snapshot import ShownReceiver


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverCard:
    """A receiver with its deliveries, its newest test message and its dead letters.

    `shown` are its settings; None where hud.toml does not define it.
    """

    state: ReceiverState
    shown: ShownReceiver | None = None
    test: Notification | None = None
    dead: tuple[Notification, ...] = ()

    @property
    def name(self) -> str:
        return self.state.receiver

    @property
    def is_failing(self) -> bool:
        """Return whether its last delivery failed."""
        return self.state.num_failures > 0

    def is_paused(self, *, now: datetime) -> bool:
        """Return whether the next delivery waits for the end of a pause."""
        return self.state.held_until is not None and self.state.held_until > now

    @property
    def needs_attention(self) -> bool:
        return self.is_failing or bool(self.dead) or self.is_unclaimed

    @property
    def is_unclaimed(self) -> bool:
        """Return whether notifications wait for it that no receiver takes."""
        return self.shown is None and self.state.num_waiting > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiversPage:
    """The receivers that need attention, then the others in the order of hud.toml.

    `is_configured` tells whether the dashboard knows a hud.toml, `has_routes` whether that has a
    route. `has_sender` tells whether a live scheduler sends what waits.
    """

    cards: tuple[ReceiverCard, ...]
    is_configured: bool
    has_routes: bool
    has_sender: bool

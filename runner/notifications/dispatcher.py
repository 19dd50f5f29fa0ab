"""Send the pending notifications of the outbox, with one thread a receiver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol, runtime_checkable

from compile_hud.db.alerts.outbox import receivers_to_serve, revise_queue
from compile_hud.db.alerts.sent_messages import SentMessage
from compile_hud.db.errors import StoreError
from compile_hud.db.records.notifications import Notification, Queue
from compile_hud.db.shared.processes import is_gone, this_process
from compile_hud.db.store import Store
from compile_hud.runner.errors import RunInterrupted
from compile_hud.runner.notifications.delivery_policy import (
    Attempt,
    Delivery,
    DeliveryContext,
    Policy,
    Response,
    ResponseKind,
    apply_response,
    next_delivery,
)
from compile_hud.runner.notifications.weekly_digest import WeeklyDigest

logger = logging.getLogger(__name__)

DEFECT = "a defect of Compile HUD; see the log"
UNKNOWN = "no receiver of hud.toml has this name, and what waits for it stays until one does"
# The second failure in a row ends it: the receiver is down, and not one message bad.
MAX_FAILURES_A_PASS = 2
# Longer than whole digests of any night take. Jobs wait for the slowest receiver of a pass.
PASS_S = 120.0
SLOW_RECEIVER = "it answers slowly; what is left waits for the next time, or for `hud alerts send`"

# The limit is per notification; the dashboard has the rest.
MAX_ALERTS_SHOWN = 5
# The limit is per digest; further notifications are only counted.
MAX_ITEMS_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A notification with its alerts, as the objects of `hud regressions --json`.

    `num_alerts` includes the alerts that `alerts` leaves out. `actions` maps the names of triage
    actions to their addresses, and `picture_url` shows the trend of the first alert. Both are empty
    if hud.toml has no address of the dashboard. `deciders` maps the ids of triaged alerts to the
    person who decided. `weekly` replaces the alerts in a weekly digest.
    """

    notification: Notification
    alerts: tuple[Mapping[str, Any], ...]
    num_alerts: int
    actions: Mapping[str, str] = field(default_factory=dict)
    picture_url: str = ""
    deciders: Mapping[str, str] = field(default_factory=dict)
    weekly: WeeklyDigest | None = None


# The trends of alerts by the alerts' ids, as PNG; those that cannot be drawn are left out.
Draw = Callable[[Sequence[str]], Mapping[str, bytes]]


def draw_nothing(_alert_ids: Sequence[str]) -> Mapping[str, bytes]:
    """Return no pictures."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The content of one delivery; `id` is its idempotency key and `at` its time.

    Receivers that show pictures `draw` them, which takes seconds.
    """

    id: str
    at: datetime
    items: tuple[Item, ...]
    draw: Draw = draw_nothing


class Receiver(Protocol):
    """A destination of messages."""

    def send(self, message: Message) -> Response:
        """Send `message` once and return the response; raise nothing."""
        ...


@runtime_checkable
class Updatable(Protocol):
    """A receiver whose messages can be changed; its responses to `send` have a reference.

    A message shows at most `num_shown` notifications.
    """

    num_shown: ClassVar[int]

    def update(self, message: Message, *, reference: str) -> Response:
        """Replace a sent message by `message` and return the response; raise nothing.

        REFUSED means that it can never be changed again.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchReport:
    """The number of notifications sent and of attempts failed in a pass.

    `errors` maps the name of a receiver to its last error.
    """

    num_sent: int = 0
    num_failed: int = 0
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """Sends due notifications. `build_messages` returns their items, without dropped ones.

    A pass starts no delivery after `limit_s`.
    """

    store: Store
    receivers: Mapping[str, Receiver]
    build_messages: Callable[[Sequence[Notification]], Sequence[Item]]
    now: Callable[[], datetime]
    jitter: Callable[[float], float]
    policy: Policy = field(default_factory=Policy)
    draw: Draw = draw_nothing
    limit_s: float = PASS_S

    def dispatch(self) -> DispatchReport:
        """Send due notifications and return a report; raise StoreError."""
        due = receivers_to_serve(self.store, at=self.now())
        errors = dict.fromkeys(sorted(due - self.receivers.keys()), UNKNOWN)
        served = due & self.receivers.keys()
        if not served:
            return DispatchReport(errors=errors)
        with ThreadPoolExecutor(max_workers=len(served)) as pool:
            reports = list(pool.map(self._serve, sorted(served)))
        for report in reports:
            errors.update(report.errors)
        return DispatchReport(
            num_sent=sum(report.num_sent for report in reports),
            num_failed=sum(report.num_failed for report in reports),
            errors=errors,
        )

    def _serve(self, name: str) -> DispatchReport:
        attempted: set[str] = set()
        num_sent = num_failed = num_in_a_row = 0
        errors: dict[str, str] = {}
        attempt: Attempt | None = None
        started = self.now()
        while True:
            if attempt is not None and is_timed_out(started, at=self.now(), limit_s=self.limit_s):
                num_in_a_row = MAX_FAILURES_A_PASS
                errors.setdefault(name, SLOW_RECEIVER)
            delivery = self._next(name, attempt, attempted=attempted, num_in_a_row=num_in_a_row)
            if delivery is None:
                break
            attempt = self._attempt(name, delivery)
            answer = attempt.response
            if answer.kind is ResponseKind.SENT:
                num_in_a_row = 0 if attempt.was_made else num_in_a_row
                num_sent += len(delivery.notifications) - len(attempt.dropped)
                errors |= {name: answer.text} if answer.text else {}
                continue
            num_in_a_row = MAX_FAILURES_A_PASS if _ends_pass(answer) else num_in_a_row + 1
            num_failed += 1
            errors[name] = answer.text
            if answer.kind is ResponseKind.FAILED or not delivery.is_digest:
                attempted.update(item.id for item in delivery.notifications)
        return DispatchReport(num_sent=num_sent, num_failed=num_failed, errors=errors)

    def _next(
        self, name: str, attempt: Attempt | None, *, attempted: set[str], num_in_a_row: int
    ) -> Delivery | None:
        """Store the last attempt and take the next delivery, in one transaction."""
        deliveries: list[Delivery | None] = [None]

        def decide(queue: Queue) -> Queue:
            deliveries[0] = None
            now = self.now()
            context = DeliveryContext(
                at=now,
                holder=this_process(),
                jitter=self.jitter,
                is_gone=is_gone,
                policy=self.policy,
            )
            if attempt is not None:
                queue = apply_response(queue, attempt, context=context, attempted=attempted)
            if num_in_a_row < MAX_FAILURES_A_PASS:
                queue, deliveries[0] = next_delivery(
                    queue, context=context, attempted=attempted, is_probe=num_in_a_row > 0
                )
            return queue

        message = None if attempt is None else _sent_message(name, attempt, at=self.now())
        revise_queue(self.store, name, decide, looks_first=attempt is None, message=message)
        return deliveries[0]

    def _attempt(self, name: str, delivery: Delivery) -> Attempt:
        try:
            items = self.build_messages(delivery.notifications)
            answer = self._send(name, delivery, items=items)
        except (StoreError, RunInterrupted):
            raise
        except Exception:
            # A defect in one message must end neither the scheduler nor a run.
            logger.exception("delivery %s to receiver %s failed", delivery.id, name)
            answer = Response(kind=ResponseKind.FAILED, text=DEFECT, is_certain=False)
            return Attempt(delivery=delivery, response=answer)
        sent_ids = {item.notification.id for item in items}
        dropped = frozenset(item.id for item in delivery.notifications if item.id not in sent_ids)
        return Attempt(
            delivery=delivery,
            response=answer,
            dropped=dropped,
            reported_states=reported_states(items, by=self.receivers[name]),
        )

    def _send(self, name: str, delivery: Delivery, *, items: Sequence[Item]) -> Response:
        if not items:
            return Response(kind=ResponseKind.SENT)
        message = Message(id=delivery.id, at=self.now(), items=tuple(items), draw=self.draw)
        return self.receivers[name].send(message)


def is_timed_out(started: datetime, *, at: datetime, limit_s: float) -> bool:
    """Return whether a pass that `started` then may begin nothing more."""
    return (at - started).total_seconds() >= limit_s


def catch_defects(send: Callable[[], Response], *, what: str) -> Response:
    """Return the response of `send`; any error except StoreError becomes a failure."""
    try:
        return send()
    except (StoreError, RunInterrupted):
        raise
    except Exception:
        # A defect in one message must end neither the scheduler nor a run.
        logger.exception("%s failed", what)
        return Response(kind=ResponseKind.FAILED, text=DEFECT, is_certain=False)


def reported_states(items: Sequence[Item], *, by: object) -> dict[str, str]:
    """Return the states of alerts that a message of `items` shows, by the alerts' ids.

    A counted alert is included if all alerts of its notification have one state.
    """
    states: dict[str, str] = {}
    for item in items[: by.num_shown] if isinstance(by, Updatable) else ():
        is_alike = len({alert["state"] for alert in item.alerts}) == 1
        shown = item.alerts if is_alike else item.alerts[:MAX_ALERTS_SHOWN]
        states |= {alert["id"]: alert["state"] for alert in shown}
    return states


def _sent_message(name: str, attempt: Attempt, *, at: datetime) -> SentMessage | None:
    """Return the record of a message that can be changed later, else None."""
    if attempt.response.kind is not ResponseKind.SENT or not attempt.response.reference:
        return None
    ids = (item.id for item in attempt.delivery.notifications if item.id not in attempt.dropped)
    return SentMessage(
        receiver=name,
        reference=attempt.response.reference,
        notification_ids=tuple(ids),
        reported_states=attempt.reported_states,
        sent_at=at,
    )


def _ends_pass(answer: Response) -> bool:
    """Return whether a response pauses the receiver for this pass."""
    return answer.is_down or answer.retry_after_s is not None

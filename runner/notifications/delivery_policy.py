"""The next delivery of a receiver, and the state of its queue after a response. Pure.

Method: at least once, in order. A notification is `sending` from its selection until its response
is stored. After a crash it is sent again under its old idempotency key.

After a failure the policy tries one notification about other alerts, so that a single bad message
does not block the queue. If that fails too, the receiver is paused: exponential back-off with full
jitter (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). Notifications
that queued up meanwhile go out as one digest. A digest with an error response is halved, down to
single messages.

A test message is sent once, at once and alone: pauses do not defer it. A failure of it changes
nothing for other messages; its success ends the pause of the receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from compile_hud.db.records.notifications import (
    MAX_TOGETHER,
    WAITING,
    AlertChangeKind,
    Notification,
    NotificationState,
    Queue,
    ReceiverHealth,
    stable_id,
    urgent,
)

# A receiver may request a longer pause than this; it gets no longer one.
MAX_RETRY_AFTER_S = 24 * 3600.0
# A delivery that may have arrived is repeated unchanged this often before it is divided.
NUM_SAME_RETRIES = 3
# After this number of halvings the largest digest is single messages. A receiver that also refused
# these was down, whatever its response. Its digests were not the reason and are restored.
NUM_HALVINGS = MAX_TOGETHER.bit_length()


class ResponseKind(StrEnum):
    """The result of an attempt; a refused message is not retried."""

    SENT = "sent"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response of a receiver; `text` is the error, or names the part that was not sent.

    `is_certain`: the message was certainly not accepted. `is_down`: any other message would have
    failed too. `reference` is the receiver's id of the accepted message, empty where it cannot be
    changed later.
    """

    kind: ResponseKind
    text: str = ""
    is_certain: bool = True
    is_down: bool = False
    retry_after_s: float | None = None
    reference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for retries and digests.

    The receiver backs off for up to `base_s` after its first failure, twice as long after each
    further one, at most `cap_s`. More than `digest_above` notifications become a digest; severe
    ones become one only above `severe_digest_above`.
    """

    base_s: float = 10.0
    cap_s: float = 3600.0
    # Half an hour apart on average, they last for four days: longer than a weekend with a holiday.
    max_attempts: int = 200
    # All notifications of a run are one message.
    digest_above: int = 1
    # Each is a reason to look now, but a night on which every model fails must not be a flood.
    severe_digest_above: int = 3
    max_together: int = MAX_TOGETHER
    # No attempt takes longer. A process of another host cannot be checked for life.
    lease_s: float = 600.0

    def limit_s(self, num_failures: int) -> float:
        """Return the longest wait after this number of failures in a row."""
        # The exponent is limited, so that the float does not overflow.
        return min(self.cap_s, self.base_s * 2.0 ** min(num_failures - 1, 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Notifications of one message; `id` is its idempotency key."""

    id: str
    notifications: tuple[Notification, ...]

    @property
    def is_digest(self) -> bool:
        """Return whether it has more than one notification."""
        return len(self.notifications) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A delivery with its response; `dropped` are the ids of notifications left out of it.

    `reported_states` maps the ids of alerts to the states in the message.
    """

    delivery: Delivery
    response: Response
    dropped: frozenset[str] = frozenset()
    reported_states: Mapping[str, str] = field(default_factory=dict)

    @property
    def was_made(self) -> bool:
        """Return whether there was anything to send."""
        return len(self.dropped) < len(self.delivery.notifications)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryContext:
    """Time, process and randomness of a decision: `jitter` draws a pause below a limit."""

    at: datetime
    holder: str
    jitter: Callable[[float], float]
    is_gone: Callable[[str], bool | None]
    policy: Policy = field(default_factory=Policy)

    def pause(self, num_failures: int, *, at_least_s: float = 0.0) -> datetime:
        """Return the end of the pause after this number of failures in a row."""
        limit_s = self.policy.limit_s(num_failures)
        pause_s = max(self.jitter(limit_s), min(at_least_s, MAX_RETRY_AFTER_S))
        return self.at + timedelta(seconds=pause_s)


def apply_response(
    queue: Queue, attempt: Attempt, *, context: DeliveryContext, attempted: Collection[str] = ()
) -> Queue:
    """Return `queue` after `attempt`; `attempted` are the ids tried earlier in this pass."""
    ids = {item.id for item in attempt.delivery.notifications}
    health = queue.health
    is_sent = attempt.was_made and attempt.response.kind is ResponseKind.SENT
    # Notifications that failed while the receiver was down wait no longer.
    comes_back = is_sent and health.num_failures > 0
    was_dead = comes_back and health.num_failures > NUM_HALVINGS
    waiting = []
    for item in queue.waiting:
        if item.id in ids and item.delivery_id == attempt.delivery.id:
            waiting.append(_answered(item, attempt, context=context))
        elif comes_back and item.state is NotificationState.FAILED and item.id not in attempted:
            together = MAX_TOGETHER if was_dead else item.num_together
            waiting.append(replace(item, due_at=context.at, num_together=together))
        else:
            waiting.append(item)
    if attempt.was_made and (is_sent or not _is_test(attempt.delivery.notifications[0])):
        health = _health_after(health, attempt.response, context=context)
    return Queue(health=health, waiting=tuple(waiting))


def _health_after(
    health: ReceiverHealth, answer: Response, *, context: DeliveryContext
) -> ReceiverHealth:
    if answer.kind is ResponseKind.SENT:
        return ReceiverHealth(receiver=health.receiver)
    if answer.kind is ResponseKind.REFUSED:
        return health
    num_failures = health.num_failures + 1
    paused_until = context.pause(num_failures, at_least_s=answer.retry_after_s or 0.0)
    return replace(health, num_failures=num_failures, held_until=paused_until)


def _answered(item: Notification, attempt: Attempt, *, context: DeliveryContext) -> Notification:
    answer, delivery = attempt.response, attempt.delivery
    item = replace(item, holder="", num_attempts=item.num_attempts + 1)
    if item.id in attempt.dropped:
        return replace(item, state=NotificationState.DROPPED, last_error="")
    if answer.kind is ResponseKind.SENT:
        return replace(item, state=NotificationState.SENT, last_error=answer.text)
    item = replace(item, last_error=answer.text)
    if _is_test(item):
        return replace(item, state=NotificationState.DROPPED)
    is_refused = answer.kind is ResponseKind.REFUSED
    if (is_refused and not delivery.is_digest) or item.num_attempts >= context.policy.max_attempts:
        return replace(item, state=NotificationState.DEAD)
    pause = context.pause(item.num_attempts, at_least_s=answer.retry_after_s or 0.0)
    item = replace(item, state=NotificationState.FAILED, due_at=context.at if is_refused else pause)
    if not answer.is_certain and item.num_attempts < NUM_SAME_RETRIES:
        return item
    num_together = item.num_together
    if delivery.is_digest and not answer.is_down:
        num_together = max(1, len(delivery.notifications) // 2)
    return replace(item, delivery_id="", num_together=num_together)


def next_delivery(
    queue: Queue,
    *,
    context: DeliveryContext,
    attempted: Collection[str] = (),
    is_probe: bool = False,
) -> tuple[Queue, Delivery | None]:
    """Return `queue` with the next delivery marked as sending, and that delivery or None.

    `attempted` are the ids that failed in this pass; a probe tests whether other messages pass.
    """
    sending = [item for item in queue.waiting if item.state is NotificationState.SENDING]
    if any(_is_leased(item, context) for item in sending):
        return queue, None
    tests = [item for item in _waiting(queue) if _is_test(item) and item.id not in attempted]
    paused_until = queue.health.held_until
    is_paused = paused_until is not None and paused_until > context.at
    if is_paused and not (is_probe or sending or tests):
        return queue, None
    chosen = tests[:1] or _interrupted(queue, sending)
    chosen = chosen or _next(queue, context, attempted=attempted, is_probe=is_probe)
    if not chosen:
        return queue, None
    delivery_id = chosen[0].delivery_id or (
        chosen[0].id if len(chosen) == 1 else stable_id(*(item.id for item in chosen))
    )
    taken = {
        item.id: replace(
            item,
            state=NotificationState.SENDING,
            delivery_id=delivery_id,
            holder=context.holder,
            attempted_at=context.at,
        )
        for item in chosen
    }
    waiting = tuple(taken.get(item.id, item) for item in queue.waiting)
    delivery = Delivery(id=delivery_id, notifications=tuple(taken.values()))
    return replace(queue, waiting=waiting), delivery


def _is_leased(item: Notification, context: DeliveryContext) -> bool:
    """Return whether another live process is sending `item`."""
    if item.holder == context.holder or item.attempted_at is None:
        return False
    is_gone = context.is_gone(item.holder)
    if is_gone is None:
        return item.attempted_at + timedelta(seconds=context.policy.lease_s) > context.at
    return not is_gone


def _is_test(item: Notification) -> bool:
    return item.kind is AlertChangeKind.TEST


def _interrupted(queue: Queue, sending: Sequence[Notification]) -> list[Notification]:
    """Return the delivery of a crashed process, which may have arrived."""
    return _same_delivery(queue, sending[0].delivery_id) if sending else []


def _same_delivery(queue: Queue, delivery_id: str) -> list[Notification]:
    return [item for item in _waiting(queue) if item.delivery_id == delivery_id]


def _waiting(queue: Queue) -> list[Notification]:
    """Return the notifications that are still to be sent."""
    return [item for item in queue.waiting if item.state in WAITING]


def _next(
    queue: Queue, context: DeliveryContext, *, attempted: Collection[str], is_probe: bool
) -> list[Notification]:
    # A receiver that failed as a whole gets every notification again.
    was_down = queue.health.num_failures > 0 and not is_probe
    candidates: list[Notification] = []
    blocked: set[str] = set()
    for item in _waiting(queue):
        is_deferred = item.due_at > context.at and not (
            was_down and item.state is NotificationState.FAILED
        )
        # Later notifications about the same alert wait with it.
        if item.id in attempted or is_deferred or not blocked.isdisjoint(item.about):
            blocked |= item.about
        else:
            candidates.append(item)
    # Severe notifications precede the others.
    early = urgent(candidates)
    chosen = early or candidates
    if not chosen:
        return []
    if chosen[0].delivery_id:
        return _same_delivery(queue, chosen[0].delivery_id)
    free = _free(chosen)
    policy = context.policy
    limit = policy.severe_digest_above if early else policy.digest_above
    return _together(free, policy) if len(free) > (1 if was_down else limit) else free[:1]


def _free(items: Sequence[Notification]) -> list[Notification]:
    """Return the items outside of deliveries and not behind one about the same alert."""
    free: list[Notification] = []
    blocked: set[str] = set()
    for item in items:
        if item.delivery_id or not blocked.isdisjoint(item.about):
            blocked |= item.about
        else:
            free.append(item)
    return free


def _together(items: Sequence[Notification], policy: Policy) -> list[Notification]:
    """Return the first of `items`, as many as may go together with each of them.

    A weekly digest goes alone: it is about everything.
    """
    if items[0].kind is AlertChangeKind.WEEKLY:
        return [items[0]]
    chosen: list[Notification] = []
    most = policy.max_together
    for item in items:
        if item.kind is AlertChangeKind.WEEKLY:
            continue
        most = min(most, item.num_together)
        if len(chosen) + 1 > max(1, most):
            break
        chosen.append(item)
    return chosen

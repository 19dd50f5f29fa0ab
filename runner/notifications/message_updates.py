"""Update sent messages to the current state of their alerts, if receivers support it.

Method: compare the states in a message with the alerts, so that no change needs an announcement. An
update is idempotent, so a crash between the receiver's response and the store costs one repetition.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from compile_hud.db.alerts.outbox import load_notifications
from compile_hud.db.alerts.sent_messages import (
    SentMessage,
    forget_message,
    load_outdated,
    put_message,
)
from compile_hud.db.records.notifications import Notification, stable_id
from compile_hud.db.store import Store
from compile_hud.runner.notifications.delivery_policy import (
    MAX_RETRY_AFTER_S,
    Policy,
    Response,
    ResponseKind,
)
from compile_hud.runner.notifications.dispatcher import (
    PASS_S,
    SLOW_RECEIVER,
    Draw,
    Item,
    Message,
    Updatable,
    catch_defects,
    draw_nothing,
    is_timed_out,
    reported_states,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Updater:
    """Updates messages of `receivers`; `build_messages` returns the items of notifications.

    It starts no update after `limit_s`.
    """

    store: Store
    receivers: Mapping[str, Updatable]
    build_messages: Callable[[Sequence[Notification]], Sequence[Item]]
    now: Callable[[], datetime]
    jitter: Callable[[float], float]
    policy: Policy = field(default_factory=Policy)
    draw: Draw = draw_nothing
    limit_s: float = PASS_S

    def update(self) -> dict[str, str]:
        """Update outdated messages; return the last error by receiver.

        Raises StoreError.
        """
        if not self.receivers:
            return {}
        outdated: dict[str, list[SentMessage]] = defaultdict(list)
        for message in load_outdated(self.store, receivers=self.receivers.keys(), at=self.now()):
            outdated[message.receiver].append(message)
        if not outdated:
            return {}
        with ThreadPoolExecutor(max_workers=len(outdated)) as pool:
            errors = pool.map(self._update_all, outdated.values())
            return {name: text for name, text in zip(outdated, errors, strict=True) if text}

    def _update_all(self, messages: Sequence[SentMessage]) -> str:
        """Update messages of one receiver; return its last error, "" for none."""
        started, last_error = self.now(), ""
        down: Response | None = None
        for message in messages:
            if is_timed_out(started, at=self.now(), limit_s=self.limit_s):
                return last_error or SLOW_RECEIVER
            answer = down or self._update(message)
            if answer.kind is not ResponseKind.SENT:
                last_error = answer.text
            if answer.kind is ResponseKind.FAILED:
                self._defer(message, answer)
                if answer.is_down or answer.retry_after_s is not None:
                    down = answer
        return last_error

    def _update(self, message: SentMessage) -> Response:
        """Update one message and store its new states."""
        items = self.build_messages(load_notifications(self.store, message.notification_ids))
        if not items:
            answer = Response(
                kind=ResponseKind.REFUSED, text="what it told of is not kept any more"
            )
        else:
            answer = self._ask(message, items=items)
        if answer.kind is ResponseKind.REFUSED:
            logger.info("message %s is not updated any more: %s", message.reference, answer.text)
            with self.store.write(raises_version=False) as connection:
                forget_message(connection, message)
        elif answer.kind is ResponseKind.SENT:
            updated = replace(
                message,
                reported_states=reported_states(items, by=self.receivers[message.receiver]),
                num_failures=0,
                due_at=None,
            )
            with self.store.write(raises_version=False) as connection:
                put_message(connection, updated)
        return answer

    def _ask(self, message: SentMessage, *, items: Sequence[Item]) -> Response:
        receiver = self.receivers[message.receiver]
        states = sorted(reported_states(items, by=receiver).items())
        id = stable_id(message.receiver, message.reference, *(" ".join(pair) for pair in states))
        update = Message(id=id, at=self.now(), items=tuple(items), draw=self.draw)
        return catch_defects(
            lambda: receiver.update(update, reference=message.reference),
            what=f"the update of message {message.reference}",
        )

    def _defer(self, message: SentMessage, answer: Response) -> None:
        num_failures = message.num_failures + 1
        retry_after_s = min(answer.retry_after_s or 0.0, MAX_RETRY_AFTER_S)
        pause_s = max(self.jitter(self.policy.limit_s(num_failures)), retry_after_s)
        due_at = self.now() + timedelta(seconds=pause_s)
        with self.store.write(raises_version=False) as connection:
            put_message(connection, replace(message, num_failures=num_failures, due_at=due_at))

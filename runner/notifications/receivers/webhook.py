"""The generic receiver: JSON, signed where there is a secret."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from compile_hud.db.records.json_fields import SCHEMA_VERSION, time_to_json
from compile_hud.runner.notifications._merge_alerts_posting import Poster
from compile_hud.runner.notifications.delivery_policy import Answer
from compile_hud.runner.notifications.dispatcher import Item, Message
from compile_hud.runner.notifications.receivers._merge_alerts_signing import signed_headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Posts messages as JSON; `key` signs them, and is not shown."""

    poster: Poster
    key: bytes | None = field(default=None, repr=False)

    def send(self, message: Message) -> Answer:
        """Send `message` once and return what came of it."""
        body = json.dumps(envelope(message), allow_nan=False).encode("ascii")
        headers = {"Content-Type": "application/json", "webhook-id": message.id}
        if self.key is not None:
            headers |= signed_headers(body, message_id=message.id, at=message.at, key=self.key)
        return self.poster.send(body, headers=headers, now=message.at)


def envelope(message: Message) -> dict[str, Any]:
    """Return `message` as the JSON object that is posted."""
    kind = message.items[0].notification.kind if len(message.items) == 1 else "digest"
    return {
        "schema_version": SCHEMA_VERSION,
        "type": f"alerts.{kind}",
        "timestamp": time_to_json(message.at),
        "data": {"notifications": [_notification(item) for item in message.items]},
    }


def _notification(item: Item) -> dict[str, Any]:
    notification = item.notification
    return {
        "id": notification.id,
        "kind": str(notification.kind),
        "severity": str(notification.severity),
        "title": notification.title,
        "subject": notification.subject,
        "created_at": time_to_json(notification.created_at),
        "num_alerts": item.num_alerts,
        "alerts": list(item.alerts),
        "actions": dict(item.actions),
        "picture_url": item.picture_url,
        **({} if item.weekly is None else {"weekly": item.weekly.to_json()}),
    }

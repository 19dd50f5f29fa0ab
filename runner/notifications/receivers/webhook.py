"""The generic receiver: JSON, signed by Standard Webhooks version 1 where it has a secret.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from compile_hud.db.records.json_fields import SCHEMA_VERSION, time_to_json
from compile_hud.db.records.notifications import AlertChangeKind, Notification
from compile_hud.runner.notifications.delivery_policy import Response
from compile_hud.runner.notifications.dispatcher import Item, Message
from compile_hud.runner.notifications.http_response import Poster

PREFIX = "whsec_"
# The specification requires 24 to 64 bytes.
MIN_BYTES = 24
MAX_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Posts messages as JSON; `key` signs them, and is not shown."""

    poster: Poster
    key: bytes | None = field(default=None, repr=False)

    def send(self, message: Message) -> Response:
        """Send `message` once and return the response."""
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
        "title": _title(notification),
        "subject": notification.subject,
        "created_at": time_to_json(notification.created_at),
        "num_alerts": item.num_alerts,
        "alerts": list(item.alerts),
        "actions": dict(item.actions),
        "picture_url": item.picture_url,
        **({} if item.weekly is None else {"weekly": item.weekly.to_json()}),
    }


class BadSecret(ValueError):
    """The secret is invalid; its text is never part of a message."""


def key_of(secret: str) -> bytes:
    """Return the key in `secret`, `whsec_` and 24 to 64 bytes in base64; raise BadSecret."""
    text = secret.strip()
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(PREFIX) or not MIN_BYTES <= len(key) <= MAX_BYTES:
        raise BadSecret(
            f"a secret is `{PREFIX}` and {MIN_BYTES} to {MAX_BYTES} random bytes in base64, such as"
            f" `echo {PREFIX}$(openssl rand -base64 32)` makes"
        )
    return key


def signed_headers(body: bytes, *, message_id: str, at: datetime, key: bytes) -> dict[str, str]:
    """Return the headers that prove the sender of `body` and its time."""
    timestamp = str(int(at.timestamp()))
    content = b".".join((message_id.encode("ascii"), timestamp.encode("ascii"), body))
    signature = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode("ascii")
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{signature}",
    }


def _title(notification: Notification) -> str:
    # The title of an event names the change, which is over in this message.
    is_over = notification.kind is AlertChangeKind.FIXED
    return f"fixed: {notification.title}" if is_over else notification.title

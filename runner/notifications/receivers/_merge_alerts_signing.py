"""Sign messages by the Standard Webhooks specification, version 1 (HMAC-SHA256).

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import datetime

PREFIX = "whsec_"
# The specification asks for 24 to 64 bytes.
MIN_BYTES = 24
MAX_BYTES = 64


class BadSecret(ValueError):
    """The secret is not one; its text is never part of a message."""


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
    """Return the headers that prove who sent `body`, and when."""
    timestamp = str(int(at.timestamp()))
    content = b".".join((message_id.encode("ascii"), timestamp.encode("ascii"), body))
    signature = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode("ascii")
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{signature}",
    }

"""Signed links in messages: each allows one action or one picture, for a while, without a login.

Method: a token is its content (JSON in base64) and an HMAC-SHA256 of its purpose and content. The
runner signs; the dashboard checks in constant time, before it reads anything. Both have the secret
from hud.toml or from a file. Needs the standard library.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import StrEnum
from typing import Any, Final

from compile_hud.db.records.alerts import AlertState

# The variable has the secret for the process that serves the dashboard; without it there are no
# links.
LINK_SECRET_VARIABLE = "HUD_LINK_SECRET"
# Characters; a shorter secret could be guessed.
MIN_SECRET_LENGTH = 32
ACTIONS_PATH = "act"
PICTURES_PATH = "pictures"
# An HMAC-SHA256 in base64 has 43 characters; no token of ours has a content as long as this.
_TOKEN = re.compile(r"([A-Za-z0-9_-]{1,1000})\.([A-Za-z0-9_-]{43})")
_ACT, _SEE = "act", "see"


class LinkRefused(Exception):
    """The token was not signed here, or for another purpose."""


class LinkExpired(LinkRefused):
    """The token was signed here, and has expired."""


class Action(StrEnum):
    """The action of a link in a message."""

    ACKNOWLEDGE = "acknowledge"
    EXPECTED = "expected"
    NOISE = "noise"


ACTION_STATES: Final = {
    Action.ACKNOWLEDGE: AlertState.ACKNOWLEDGED,
    Action.EXPECTED: AlertState.EXPECTED,
    Action.NOISE: AlertState.NOISE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLink:
    """The action of a link and the notification whose alerts it applies to.

    `number` is that of the newest change that the message knew of. An alert whose state changed
    later is not the one that the message showed.
    """

    notification_id: str
    action: Action
    number: int


def action_token(link: ActionLink, *, key: bytes, until: datetime) -> str:
    """Return a token for `link` that is valid until a time."""
    content = [link.notification_id, str(link.action), link.number]
    return _signed(_ACT, content, key=key, until=until)


def read_action(token: str, *, key: bytes, now: datetime) -> ActionLink:
    """Return the link of `token`; raise LinkRefused and LinkExpired."""
    notification_id, action, number = _opened(_ACT, token, key=key, now=now)
    return ActionLink(notification_id=notification_id, action=Action(action), number=number)


def picture_token(alert_id: str, *, key: bytes, until: datetime) -> str:
    """Return a token that shows the trend of an alert to everyone, until a time."""
    return _signed(_SEE, [alert_id], key=key, until=until)


def read_picture(token: str, *, key: bytes, now: datetime) -> str:
    """Return the id of the alert whose trend `token` shows; raise LinkRefused and LinkExpired."""
    (alert_id,) = _opened(_SEE, token, key=key, now=now)
    return str(alert_id)


def page_proof(token: str, *, key: bytes) -> str:
    """Return the proof that the page of `token` sends back; the link itself does not have it."""
    return _mac("page", token, key=key)


def is_page_proof(proof: str, token: str, *, key: bytes) -> bool:
    """Return whether `given` is the proof of the page of `token`."""
    return _is_same(page_proof(token, key=key), proof)


def _signed(purpose: str, content: list[Any], *, key: bytes, until: datetime) -> str:
    text = json.dumps([*content, int(until.timestamp())], separators=(",", ":"))
    body = _encoded(text.encode("utf-8"))
    return f"{body}.{_mac(purpose, body, key=key)}"


def _opened(purpose: str, token: str, *, key: bytes, now: datetime) -> list[Any]:
    match = _TOKEN.fullmatch(token)
    if match is None or not _is_same(_mac(purpose, match[1], key=key), match[2]):
        raise LinkRefused("not signed here")
    padding = "=" * (-len(match[1]) % 4)
    content: list[Any] = json.loads(base64.urlsafe_b64decode(match[1] + padding))
    until = content.pop()
    if now >= datetime.fromtimestamp(until, timezone.utc):
        raise LinkExpired("its time is over")
    return content


def _mac(purpose: str, body: str, *, key: bytes) -> str:
    # The purpose in the HMAC prevents the use of a picture link as an action link.
    text = f"compile-hud {purpose}\n{body}"
    return _encoded(hmac.digest(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256))


def _is_same(expected: str, signature: str) -> bool:
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass"))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")

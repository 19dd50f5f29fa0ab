"""The receiver of a Discord channel's webhook, whose messages can be changed.

https://discord.com/developers/docs/resources/webhook
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.dispatcher import MAX_ITEMS_SHOWN, Message
from compile_hud.runner.notifications.http_client import HttpRules, Request, encode_multipart
from compile_hud.runner.notifications.http_response import send_request
from compile_hud.runner.notifications.message_text import RenderedMessage, render_message
from compile_hud.runner.notifications.receivers.chat import discord, with_or_without_pictures


@dataclass(frozen=True, slots=True, kw_only=True)
class Discord:
    """Posts and changes messages, with pictures as files; the address is a secret."""

    url: str = field(repr=False)
    rules: HttpRules = field(default_factory=HttpRules)
    num_shown: ClassVar[int] = MAX_ITEMS_SHOWN

    def send(self, message: Message) -> Response:
        """Send `message` once and return the response; its reference is the message's id."""
        # Without `wait` Discord answers before it has processed the message, and returns no id.
        url = _address(self.url, query={"wait": "true"})
        return self._send(Request(url=url), message=message)

    def update(self, message: Message, *, reference: str) -> Response:
        """Replace a sent message with `message` and return the response."""
        url = _address(self.url, below=f"/messages/{reference}")
        answer = self._send(Request(url=url, method="PATCH"), message=message)
        return replace(answer, reference=reference)

    def _send(self, post: Request, *, message: Message) -> Response:
        words, files = add_attachments(render_message(message), message)
        send = functools.partial(self._ask, post=post, files=files, now=message.at)
        return with_or_without_pictures(words, send)

    def _ask(
        self, words: RenderedMessage, *, post: Request, files: Mapping[str, bytes], now: datetime
    ) -> Response:
        shown = [name for name in files if f"attachment://{name}" in _pictures(words)]
        attachments = [{"id": number, "filename": name} for number, name in enumerate(shown)]
        # The list replaces the earlier pictures.
        content = {**discord(words), "attachments": attachments}
        kind, body = "application/json", json.dumps(content, allow_nan=False).encode("ascii")
        if shown:
            kind, body = encode_multipart(body, {name: files[name] for name in shown})
        request = replace(post, body=body, headers={"Content-Type": kind})
        answer, text = send_request(request, rules=self.rules, now=now)
        if answer.kind is not ResponseKind.SENT:
            return answer
        return replace(answer, reference=_id_of(text))


def add_attachments(
    words: RenderedMessage, message: Message
) -> tuple[RenderedMessage, dict[str, bytes]]:
    """Return `words` with pictures as attachments, and the pictures by name."""
    drawn = message.draw([item.alert_id for item in words.sections if item.alert_id])
    names = {id: f"trend-{number}.png" for number, id in enumerate(drawn, 1)}
    paragraphs = tuple(
        replace(item, picture_url=f"attachment://{names[item.alert_id]}")
        if item.alert_id in names
        else item
        for item in words.sections
    )
    files = {name: drawn[id] for id, name in names.items()}
    return replace(words, sections=paragraphs), files


def _pictures(words: RenderedMessage) -> set[str]:
    return {item.picture_url for item in words.sections}


def _address(url: str, *, below: str = "", query: Mapping[str, str] | None = None) -> str:
    """Return the address `below` that of the webhook; a thread in its query stays."""
    parts = urlsplit(url)
    parameters = {**dict(parse_qsl(parts.query)), **(query or {})}
    path = f"{parts.path.rstrip('/')}{below}"
    return urlunsplit((parts.scheme, parts.netloc, path, urlencode(parameters), ""))


def _id_of(text: str) -> str:
    """Return the id of the message in an answer, "" if it is not valid in an address."""
    try:
        id = json.loads(text)["id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return id if isinstance(id, str) and id.isascii() and id.isdigit() else ""

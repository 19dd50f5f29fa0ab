"""The receiver of a Slack channel through a bot, whose messages can be changed.

https://docs.slack.dev/reference/methods/chat.postMessage, chat.update and, for pictures,
https://docs.slack.dev/messaging/working-with-files#upload. A call that Slack answers with an error
has status 200 and the error's name in its body.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlencode

from compile_hud.db.shared.text import one_line, shortened
from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.dispatcher import MAX_ITEMS_SHOWN, Message
from compile_hud.runner.notifications.http_client import HttpRules, Request
from compile_hud.runner.notifications.http_response import send_request
from compile_hud.runner.notifications.message_text import RenderedMessage, render_message
from compile_hud.runner.notifications.receivers.chat import slack, with_or_without_pictures

# Slack's form of a channel and a message id.
_NAMES = re.compile(r"([A-Z0-9]{1,30}) ([0-9]{1,20}\.[0-9]{1,10})")
# These errors are Slack's own, and do not say whether the message was accepted.
_BROKEN = ("fatal_error", "internal_error", "request_timeout", "service_unavailable")
_LIMITED = ("ratelimited", "rate_limited", "message_limit_exceeded")
# These errors concern the message, or the one that it replaces. A user can correct any other error:
# the token, its scopes, the channel, its members. Until then the notifications wait.
_OF_MESSAGE = (
    "cant_update_message",
    "edit_window_closed",
    "invalid_arguments",
    "invalid_blocks",
    "invalid_blocks_format",
    "message_not_found",
    "msg_blocks_too_long",
    "msg_too_long",
    "no_text",
    "too_many_attachments",
)
_SHOWN_LENGTH = 200
# It repeats the message, as text and as blocks.
_MAX_ANSWER_BYTES = 4 * 1024 * 1024
_JSON = {"Content-Type": "application/json; charset=utf-8"}
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackBot:
    """Posts and changes messages in `channel` by the API at `url`; the token is not shown."""

    url: str
    channel: str
    token: str = field(repr=False)
    rules: HttpRules = field(default_factory=HttpRules)
    num_shown: ClassVar[int] = MAX_ITEMS_SHOWN

    def send(self, message: Message) -> Response:
        """Send `message` once and return the response; its reference is channel and time."""
        words = render_message(message)
        post = functools.partial(
            self._update_message,
            method="chat.postMessage",
            target={"channel": self.channel},
            message=message,
        )
        answer = with_or_without_pictures(words, post)
        names = _NAMES.fullmatch(answer.reference)
        if names and not any(item.picture_url for item in words.sections):
            self._add_pictures(words, message, channel=names[1], thread=names[2])
        return answer

    def update(self, message: Message, *, reference: str) -> Response:
        """Replace a sent message with `message` and return the response."""
        names = _NAMES.fullmatch(reference)
        if names is None:
            return Response(kind=ResponseKind.REFUSED, text=f"no message of Slack: {reference}")
        target = {"channel": names[1], "ts": names[2]}
        change = functools.partial(
            self._update_message, method="chat.update", target=target, message=message
        )
        return with_or_without_pictures(render_message(message), change)

    def _update_message(
        self, words: RenderedMessage, *, method: str, target: Mapping[str, str], message: Message
    ) -> Response:
        # chat.update does not accept `mrkdwn`; no text of a block is markup.
        payload = slack(words)
        content = {**target, "text": payload["text"], "blocks": payload["blocks"]}
        body = json.dumps(content, allow_nan=False).encode("ascii")
        answer, document = self._call(method, body, headers=_JSON, now=message.at)
        if answer.kind is not ResponseKind.SENT:
            return answer
        return replace(answer, reference=f"{document.get('channel', '')} {document.get('ts', '')}")

    def _add_pictures(
        self, words: RenderedMessage, message: Message, *, channel: str, thread: str
    ) -> None:
        """Add trends below a message; an error costs only the pictures."""
        drawn = message.draw([item.alert_id for item in words.sections if item.alert_id])
        files = [
            {"id": id, "title": f"trend {number}"}
            for number, picture in enumerate(drawn.values(), 1)
            if (id := self._upload(picture, number, message=message))
        ]
        if files:
            content = {"files": files, "channel_id": channel, "thread_ts": thread}
            body = json.dumps(content).encode("ascii")
            self._call("files.completeUploadExternal", body, headers=_JSON, now=message.at)

    def _upload(self, picture: bytes, number: int, *, message: Message) -> str:
        """Upload one picture and return Slack's id for it, "" if it was refused."""
        form = urlencode({"filename": f"trend-{number}.png", "length": len(picture)})
        answer, document = self._call(
            "files.getUploadURLExternal", form.encode("ascii"), headers=_FORM, now=message.at
        )
        if answer.kind is not ResponseKind.SENT:
            return ""
        request = Request(
            url=str(document.get("upload_url", "")),
            body=picture,
            headers={"Content-Type": "application/octet-stream"},
        )
        answer, _ = send_request(request, rules=self.rules, now=message.at)
        return str(document.get("file_id", "")) if answer.kind is ResponseKind.SENT else ""

    def _call(
        self, method: str, body: bytes, *, headers: Mapping[str, str], now: datetime
    ) -> tuple[Response, Mapping[str, Any]]:
        request = Request(
            url=f"{self.url.rstrip('/')}/{method}",
            body=body,
            headers={"Authorization": f"Bearer {self.token}", **headers},
            max_answer_bytes=_MAX_ANSWER_BYTES,
        )
        answer, text = send_request(request, rules=self.rules, now=now)
        if answer.kind is not ResponseKind.SENT:
            return answer, {}
        return _interpret(text)


def _interpret(text: str) -> tuple[Response, Mapping[str, Any]]:
    """Return the response that a body of status 200 means, and its content."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        text_shown = shortened(one_line(text), limit=_SHOWN_LENGTH)
        problem = f"this is not Slack's API: {text_shown}"
        return Response(kind=ResponseKind.FAILED, text=problem, is_certain=False), {}
    if document.get("ok") is True:
        return Response(kind=ResponseKind.SENT), document
    error = shortened(one_line(str(document.get("error", "no reason"))), limit=_SHOWN_LENGTH)
    if error in _OF_MESSAGE:
        return Response(kind=ResponseKind.REFUSED, text=f"Slack: {error}"), {}
    if error in _BROKEN:
        return Response(kind=ResponseKind.FAILED, text=f"Slack: {error}", is_certain=False), {}
    hint = "" if error in _LIMITED else f"{_missing_scope(document)}; mend that and it goes out"
    return Response(kind=ResponseKind.FAILED, text=f"Slack: {error}{hint}", is_down=True), {}


def _missing_scope(document: Mapping[str, Any]) -> str:
    return f", needs {one_line(str(document['needed']))}" if "needed" in document else ""

"""Post a message and map the HTTP response to the result of its delivery."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import urlsplit

from compile_hud.db.shared.text import one_line, shortened
from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.http_client import (
    HttpReply,
    HttpRules,
    Request,
    RequestFailed,
    TargetRefused,
    post,
    request,
)

# These refusals are temporary: https://www.rfc-editor.org/rfc/rfc9110, rfc6585 and rfc8470.
_PASSING = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
)
# These refusals concern the server, or one before it, and not the message.
_DOWN = (
    *_PASSING,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
_SHOWN_LENGTH = 200


def response_of(reply: HttpReply, *, now: datetime) -> Response:
    """Return the response for `reply`; a redirect is a failure, since it is not followed."""
    if 200 <= reply.status < 300:
        return Response(kind=ResponseKind.SENT)
    is_refused = 400 <= reply.status < 500 and reply.status not in _PASSING
    return Response(
        kind=ResponseKind.REFUSED if is_refused else ResponseKind.FAILED,
        text=_text(reply),
        is_down=reply.status in _DOWN or 300 <= reply.status < 400,
        retry_after_s=retry_after_s(reply.headers, now=now),
    )


def failure_response(error: RequestFailed) -> Response:
    """Return the response for a request without a reply."""
    return Response(
        kind=ResponseKind.FAILED,
        text=str(error),
        is_certain=not error.may_have_arrived,
        is_down=not error.may_have_arrived,
    )


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the seconds of `Retry-After`, None if it is missing or invalid."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return float(value)
    try:
        until = parsedate_to_datetime(value)
        if until.tzinfo is None:
            until = until.replace(tzinfo=timezone.utc)
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _text(reply: HttpReply) -> str:
    phrase = next((item.phrase for item in HTTPStatus if item == reply.status), "")
    body = shortened(one_line(reply.body), limit=_SHOWN_LENGTH)
    where = reply.headers.get("location", "") if 300 <= reply.status < 400 else ""
    reason = f"redirects to {_origin(where)}" if where else body
    return f"{reply.status} {phrase}".strip() + (f": {reason}" if reason else "")


def _origin(address: str) -> str:
    """Return the origin of `address`, without its path, which may be a secret."""
    try:
        parts = urlsplit(one_line(address))
    except ValueError:
        return "no address"
    host = shortened(parts.netloc.rpartition("@")[2], limit=_SHOWN_LENGTH)
    return f"{parts.scheme or 'http'}://{host}" if host else "another path"


def send_request(message: Request, *, rules: HttpRules, now: datetime) -> tuple[Response, str]:
    """Send `message` once; return the response and the body of the reply."""
    return _answered(lambda: request(message, rules=rules), url=message.url, now=now)


def _answered(send: Callable[[], HttpReply], *, url: str, now: datetime) -> tuple[Response, str]:
    try:
        reply = send()
    except TargetRefused as error:
        # The settings are wrong; the message stays pending until they are corrected.
        return Response(kind=ResponseKind.FAILED, text=str(error), is_down=True), ""
    except RequestFailed as error:
        return failure_response(error), ""
    redacted = replace(reply, body=_without_path(reply.body, url=url))
    return response_of(redacted, now=now), reply.body


def _without_path(text: str, *, url: str) -> str:
    """Return `text` without the path and the query of `url`, secrets that some servers repeat."""
    parts = urlsplit(url)
    for part in (parts.query, parts.path.rstrip("/")):
        text = text.replace(part, "...") if part else text
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Poster:
    """A client for one address, which may contain a secret and is not shown."""

    url: str = field(repr=False)
    rules: HttpRules = field(default_factory=HttpRules)
    post: Callable[..., HttpReply] = field(default=post, repr=False)

    def send(self, body: bytes, *, headers: Mapping[str, str], now: datetime) -> Response:
        """Post `body` once and return the response."""
        answer, _ = _answered(
            lambda: self.post(self.url, body=body, headers=headers, rules=self.rules),
            url=self.url,
            now=now,
        )
        return answer

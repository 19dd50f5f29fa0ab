"""Post a message and say what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import urlsplit

from compile_hud.runner.notifications.delivery_policy import Answer, AnswerKind
from compile_hud.runner.notifications.http_client import (
    HttpRules,
    Reply,
    Request,
    RequestFailed,
    TargetRefused,
    post,
    request,
)
from compile_hud.runner.notifications.http_response import answer_of, failure_of


def ask(wanted: Request, *, rules: HttpRules, now: datetime) -> tuple[Answer, str]:
    """Send what is `wanted` once; return what came of it and the body of the answer."""
    return _answered(lambda: request(wanted, rules=rules), url=wanted.url, now=now)


def _answered(send: Callable[[], Reply], *, url: str, now: datetime) -> tuple[Answer, str]:
    try:
        reply = send()
    except TargetRefused as error:
        # Settings are to blame, and nothing is lost while somebody mends them.
        return Answer(kind=AnswerKind.FAILED, text=str(error), is_down=True), ""
    except RequestFailed as error:
        return failure_of(error), ""
    told = replace(reply, body=_without_path(reply.body, url=url))
    return answer_of(told, now=now), reply.body


def _without_path(text: str, *, url: str) -> str:
    """Return `text` without the path and the query of `url`, secrets that some servers repeat."""
    parts = urlsplit(url)
    for part in (parts.query, parts.path.rstrip("/")):
        text = text.replace(part, "...") if part else text
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Poster:
    """Where to post; the address may hold a secret and is not shown."""

    url: str = field(repr=False)
    rules: HttpRules = field(default_factory=HttpRules)
    post: Callable[..., Reply] = field(default=post, repr=False)

    def send(self, body: bytes, *, headers: Mapping[str, str], now: datetime) -> Answer:
        """Post `body` once and return what came of it."""
        answer, _ = _answered(
            lambda: self.post(self.url, body=body, headers=headers, rules=self.rules),
            url=self.url,
            now=now,
        )
        return answer

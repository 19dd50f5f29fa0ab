"""GitHub's REST API, as far as notifications need it, of github.com or of an own server.

The reference is https://docs.github.com/rest. An error of the token or of the repository can be
corrected, so the delivery is retried. A rate limit pauses deliveries for as long as GitHub requires
(https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from compile_hud.db.store import utc_now
from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.http_client import (
    HttpReply,
    HttpRules,
    Request,
    RequestFailed,
    TargetRefused,
    request,
)
from compile_hud.runner.notifications.http_response import (
    failure_response,
    response_of,
    retry_after_s,
)

GITHUB_URL = "https://api.github.com"
# Entries of a page, and the maximal number of pages; the rest of a longer list is not read.
PAGE, MAX_PAGES = 50, 20
# A page of issues with the longest bodies that GitHub takes.
_MAX_PAGE_BYTES = PAGE * 128 * 1024
# These errors concern the token and the repository, not the message.
_OF_SETTINGS = (401, 403, 404)
_LIMITED = (403, 429)
# Seconds since 1970 until the year 33,000; more digits would not fit into a float.
_SECONDS = re.compile(r"[0-9]{1,12}")
# The pause if GitHub names no time.
_PAUSE_S = 60.0


class GitHubFailed(Exception):
    """GitHub refused a request; `answer` is the response of the delivery."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.text)
        self.answer = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubApi:
    """The API at `url` for one repository, `owner/name`; the token is not shown."""

    url: str
    repository: str
    token: str = field(repr=False)
    now: Callable[[], datetime] = utc_now
    rules: HttpRules = field(default_factory=HttpRules)
    request: Callable[..., HttpReply] = field(default=request, repr=False)

    def get(
        self,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        missing: Collection[int] = (),
    ) -> Any:
        """Return the content at `path` of the repository, None for a status in `missing`."""
        address = f"{path}?{urlencode(query)}" if query else path
        reply = self._reply("GET", address, body=None)
        return None if reply.status in missing else self._content(reply)

    def pages(self, path: str, *, query: Mapping[str, str | int]) -> Iterator[Mapping[str, Any]]:
        """Yield the entries of the list at `path`, page by page."""
        for number in range(1, MAX_PAGES + 1):
            page = self.get(path, query={**query, "per_page": PAGE, "page": number})
            yield from page
            if len(page) < PAGE:
                return

    def write(self, method: str, path: str, **content: Any) -> Any:
        """Change or add the content at `path` and return the new one."""
        body = json.dumps(content, allow_nan=False).encode("ascii")
        return self._content(self._reply(method, path, body=body))

    def _reply(self, method: str, path: str, *, body: bytes | None) -> HttpReply:
        request = Request(
            url=f"{self.url.rstrip('/')}/repos/{self.repository}/{path}",
            method=method,
            body=body,
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "X-GitHub-Api-Version": "2022-11-28",
            },
            max_answer_bytes=_MAX_PAGE_BYTES,
        )
        try:
            return self.request(request, rules=self.rules)
        except TargetRefused as error:
            answer = Response(kind=ResponseKind.FAILED, text=str(error), is_down=True)
            raise GitHubFailed(answer) from error
        except RequestFailed as error:
            raise GitHubFailed(failure_response(error)) from error

    def _content(self, reply: HttpReply) -> Any:
        if not 200 <= reply.status < 300:
            raise GitHubFailed(_refusal(reply, now=self.now()))
        try:
            content = json.loads(reply.body)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict | list):
            text = f"{reply.status}, and no JSON: is this the address of GitHub's API?"
            raise GitHubFailed(Response(kind=ResponseKind.FAILED, text=text, is_down=True))
        return content


def _refusal(reply: HttpReply, *, now: datetime) -> Response:
    answer = response_of(reply, now=now)
    pause_s = _limit_s(reply, now=now)
    if pause_s is not None:
        return replace(
            answer, kind=ResponseKind.FAILED, is_down=True, retry_after_s=max(0.0, pause_s)
        )
    if reply.status in _OF_SETTINGS:
        return replace(answer, kind=ResponseKind.FAILED, is_down=True)
    return answer


def _limit_s(reply: HttpReply, *, now: datetime) -> float | None:
    """Return the pause of a rate limit in seconds, None if no limit is the reason."""
    if reply.status not in _LIMITED:
        return None
    pause_s = retry_after_s(reply.headers, now=now)
    if pause_s is not None:
        return pause_s
    reset = reply.headers.get("x-ratelimit-reset", "")
    if reply.headers.get("x-ratelimit-remaining") == "0" and _SECONDS.fullmatch(reset):
        return int(reset) - now.timestamp()
    is_limit = reply.status == 429 or "rate limit" in reply.body.lower()
    return _PAUSE_S if is_limit else None

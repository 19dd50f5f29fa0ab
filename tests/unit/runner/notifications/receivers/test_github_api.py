"""The effect of GitHub's answers on a delivery."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.http_client import HttpReply, Request
from compile_hud.runner.notifications.receivers.github_api import GitHubApi, GitHubFailed

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def failure(status: int, body: str = "{}", headers: Mapping[str, str] | None = None) -> Response:
    """Return what a request comes to that is answered so."""

    def request(_request: Request, **_rules: object) -> HttpReply:
        return HttpReply(status=status, headers=headers or {}, body=body)

    api = GitHubApi(
        url="https://api.github.com",
        repository="me/models",
        token="hunter2",
        now=lambda: NOW,
        request=request,
    )
    with pytest.raises(GitHubFailed) as caught:
        api.get("issues")
    return caught.value.answer


@pytest.mark.parametrize("status", [401, 403, 404])
def test_token_or_repository_can_be_mended_so_nothing_is_given_up(status: int) -> None:
    answer = failure(status)
    assert (answer.kind, answer.is_down) == (ResponseKind.FAILED, True)


def test_what_github_does_not_take_is_given_up() -> None:
    assert failure(422).kind is ResponseKind.REFUSED


@pytest.mark.parametrize(
    ("headers", "body", "pause_s"),
    [
        ({"retry-after": "7"}, "{}", 7.0),
        (
            {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW.timestamp() + 90:.0f}"},
            "{}",
            90.0,
        ),
        ({}, '{"message": "You have exceeded a secondary rate limit"}', 60.0),
        *(
            ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}, "rate limit", 60.0)
            for reset in ("9" * 350, "8" * 5000, "\u00b2")
        ),
        ({"retry-after": f"Mon, 3 Mar {'7' * 30} 01:02:03 GMT"}, "rate limit", 60.0),
    ],
)
def test_limit_says_how_long_to_wait(headers: Mapping[str, str], body: str, pause_s: float) -> None:
    answer = failure(403, body, headers)
    assert (answer.is_down, answer.retry_after_s) == (True, pause_s)


@pytest.mark.parametrize("body", ["<html>", "3", ""])
def test_a_reply_that_is_not_json_hints_at_the_address(body: str, words: SnapshotAssertion) -> None:
    assert failure(200, body).text == words

"""The one comment on a pull request, against a server that plays GitHub's API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.cli.compare.pull_request import keep_comment
from compile_hud.runner.errors import CommentFailed
from tests.support.servers.github_server import Repository, github_server


@pytest.fixture
def repository() -> Iterator[Repository]:
    with github_server() as repository:
        yield repository


def env_of(repository: Repository, **changes: str) -> dict[str, str]:
    return {
        "GITHUB_API_URL": repository.url,
        "GITHUB_REPOSITORY": "me/models",
        "GITHUB_TOKEN": "secret",
        "HUD_PULL_REQUEST": "7",
        **changes,
    }


def bodies(repository: Repository) -> list[Any]:
    return [comment["body"] for comment in repository.comments[7]]


def test_the_comment_is_made_once_and_then_changed(
    repository: Repository, words: SnapshotAssertion
) -> None:
    for text in ("first", "second"):
        keep_comment(text, name="quick", env=env_of(repository))
    assert bodies(repository) == words
    assert repository.headers[0]["authorization"] == "Bearer secret"


def test_two_names_keep_two_comments(repository: Repository) -> None:
    for name in ("quick", "nightly", "quick"):
        keep_comment(name, name=name, env=env_of(repository))
    assert len(bodies(repository)) == 2


def test_a_persons_comment_is_never_changed(repository: Repository) -> None:
    theirs = {"id": 99, "body": "<!-- compile-hud quick -->\nmine", "user": {"type": "User"}}
    repository.comments[7] = [theirs]
    keep_comment("ours", name="quick", env=env_of(repository))
    assert bodies(repository) == [theirs["body"], "<!-- compile-hud quick -->\nours"]


def test_a_name_cannot_end_the_mark(repository: Repository) -> None:
    keep_comment("text", name="a --> <b>", env=env_of(repository))
    assert bodies(repository) == ["<!-- compile-hud a------b- -->\ntext"]


def test_a_token_that_may_not_comment_is_reported(
    repository: Repository, words: SnapshotAssertion
) -> None:
    repository.refuses = lambda _method, _path: (403, {}, {"message": "not accessible"})
    with pytest.raises(CommentFailed) as caught:
        keep_comment("text", name="quick", env=env_of(repository))
    assert str(caught.value) == words


@pytest.mark.parametrize("number", ["7/../8", "-1", "seven"])
def test_an_invalid_number_requests_nothing(repository: Repository, number: str) -> None:
    with pytest.raises(CommentFailed, match="and no number"):
        keep_comment("text", name="quick", env=env_of(repository, HUD_PULL_REQUEST=number))
    assert repository.requests == []

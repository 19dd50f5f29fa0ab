"""Maintain one comment on a pull request of GitHub: later reports change it."""

from __future__ import annotations

from collections.abc import Mapping

from compile_hud.runner.errors import CommentFailed
from compile_hud.runner.notifications.http_client import HttpRules
from compile_hud.runner.notifications.receivers.github_api import (
    GITHUB_URL,
    GitHubApi,
    GitHubFailed,
)

# GitHub hides this mark. It has the name of the suite, so that two jobs have two comments.
_MARK = "<!-- compile-hud {} -->"
NUMBER_VARIABLE = "HUD_PULL_REQUEST"
_NEEDED = ("GITHUB_REPOSITORY", "GITHUB_TOKEN", NUMBER_VARIABLE)


def keep_comment(text: str, *, name: str, env: Mapping[str, str]) -> None:
    """Make `text` the comment `name` of the pull request that `env` names; raise CommentFailed.

    GITHUB_API_URL, GITHUB_REPOSITORY and GITHUB_TOKEN are those of a job of GitHub Actions.
    """
    missing = [key for key in _NEEDED if not env.get(key)]
    if missing:
        raise CommentFailed(
            f"no comment without {', '.join(missing)}: set them in the `env` of"
            " the job on a pull request",
            missing=tuple(missing),
        )
    number = env[NUMBER_VARIABLE]
    if not number.isdecimal():
        raise CommentFailed(
            f"no comment: {NUMBER_VARIABLE} is {number!r}, and no number", number=number
        )
    api = GitHubApi(
        url=env.get("GITHUB_API_URL") or GITHUB_URL,
        repository=env["GITHUB_REPOSITORY"],
        token=env["GITHUB_TOKEN"],
        # The job's own variable has the address of GitHub, which may be a private server.
        rules=HttpRules(allow_private=True),
    )
    mark = _MARK.format("".join(sign if sign.isalnum() else "-" for sign in name))
    body = f"{mark}\n{text}"
    try:
        known = _find(api, number=number, mark=mark)
        if known is None:
            api.write("POST", f"issues/{number}/comments", body=body)
        else:
            api.write("PATCH", f"issues/comments/{known}", body=body)
    except GitHubFailed as error:
        raise CommentFailed(
            f"no comment: {error}. The token needs the permission `pull-requests: write`, which"
            " jobs of forks do not get",
            reason=str(error),
        ) from error


def _find(api: GitHubApi, *, number: str, mark: str) -> int | None:
    """Return the comment that begins with `mark`; not one that a person wrote."""
    for comment in api.pages(f"issues/{number}/comments", query={}):
        author = comment.get("user")
        is_bot = isinstance(author, Mapping) and author.get("type") == "Bot"
        if is_bot and str(comment.get("body", "")).startswith(mark):
            return int(comment["id"])
    return None

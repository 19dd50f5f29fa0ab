"""Comments below the issues of a GitHub receiver.

https://docs.github.com/rest/issues/comments: those of a whole repository are one list, so that one
request tells what is new, and none that counts where nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from db.replies import Thread
from runner.alerts.conversation import Context, Reading, Reply
from runner.alerts.deliveries import Answer, AnswerKind
from runner.alerts.github import LABEL, MARKER, fenced, github_time, hidden_marker
from runner.alerts.github_api import PAGE, GitHubApi, GitHubFailed
from runner.alerts.settings import LOGIN

# All comments of the repository are one thread.
THREAD = "issues/comments"
MAX_PAGES = 4
# What GitHub asks of those who ask again and again where it names nothing else.
_PAUSE_S = 60.0
# https://docs.github.com/graphql/reference/enums#commentauthorassociation; whether a member may
# write is asked besides.
_ASSOCIATED = ("OWNER", "MEMBER", "COLLABORATOR")
# https://docs.github.com/rest/collaborators/collaborators: to maintain is to write, to triage not.
_MAY_WRITE = ("admin", "write")
_ISSUE = re.compile(r"/issues/([0-9]{1,12})$")
_EVENT = re.compile(re.escape(MARKER) + r"event=(\S{1,300}) -->")
_DONE: Final = Answer(kind=AnswerKind.SENT)
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubConversation:
    """Reads and answers comments of the `repliers` or (True) of all who may write."""

    api: GitHubApi
    repliers: bool | tuple[str, ...]

    def threads(self, references: Collection[str]) -> Collection[str]:
        """Return the one thread, as long as there is anything to be replied to."""
        return (THREAD,) if references else ()

    def begin(self, thread: str, *, since: datetime) -> str:
        """Return the time from which replies count."""
        del thread
        return github_time(since)

    def pause_s(self, thread: Thread, *, now: datetime) -> float:
        """Return a minute."""
        del thread, now
        return _PAUSE_S

    def read(self, thread: Thread, *, now: datetime) -> Reading:
        """Read what was written or changed since the position of `thread`, up to MAX_PAGES."""
        del now
        replies: list[Reply] = []
        tag = ""
        query: dict[str, str | int] = {"since": thread.position, "per_page": PAGE}
        query |= {"sort": "updated", "direction": "asc"}
        try:
            for number in range(1, MAX_PAGES + 1):
                known = thread.tag if number == 1 else ""
                found, new = self.api.get_list(THREAD, query={**query, "page": number}, tag=known)
                tag = new if number == 1 else ""
                replies += [self._reply(item) for item in found or ()]
                if found is None or len(found) < PAGE:
                    break
        except GitHubFailed as error:
            return Reading(answer=error.answer)
        return Reading(answer=_DONE, replies=tuple(replies), tag=tag)

    def context(self, reply: Reply, *, now: datetime) -> tuple[Answer, Context | None]:
        """Return the event of the issue that `reply` is below, if it is one of ours."""
        del now
        return _asked(lambda: self._context(reply))

    def say(self, text: str, *, thread: str, reply_id: str, now: datetime) -> Answer:
        """Say `text` below the issue."""
        del now
        body = f"{hidden_marker('reply', reply_id)}\n{fenced(text)}"
        answer, _ = _asked(lambda: self.api.write("POST", f"{thread}/comments", body=body))
        return answer

    def _context(self, reply: Reply) -> Context | None:
        issue = self.api.get(reply.thread, missing=(404, 410))
        if issue is None or LABEL not in [label["name"] for label in issue["labels"]]:
            # Who may not write sets no label, and anybody can copy a marker.
            return None
        event = _EVENT.match(issue["body"] or "")
        if event is None or not self._may_write(reply.author):
            return None
        return Context(name=reply.author, subject=unquote(event[1]))

    def _may_write(self, login: str) -> bool:
        if self.repliers is not True:
            return True
        path = f"collaborators/{login}/permission"
        found = self.api.get(path, missing=(404,))
        return found is not None and found["permission"] in _MAY_WRITE

    def _reply(self, comment: Mapping[str, Any]) -> Reply:
        issue = _ISSUE.search(comment["issue_url"])
        login = (comment["user"] or {}).get("login", "")
        has_say = issue is not None and self._may(comment, login=login)
        return Reply(
            id=str(comment["id"]),
            thread=f"issues/{issue[1]}" if issue else "",
            position=comment["updated_at"],
            at=datetime.fromisoformat(comment["created_at"]),
            author=login,
            text=comment["body"] or "" if has_say else "",
        )

    def _may(self, comment: Mapping[str, Any], *, login: str) -> bool:
        is_ours = (comment["body"] or "").lstrip().startswith(MARKER)
        # Others may edit a comment, and nobody is told who did.
        is_edited = comment["updated_at"] != comment["created_at"]
        is_person = LOGIN.fullmatch(login) is not None and comment["user"]["type"] == "User"
        if is_ours or is_edited or not is_person:
            return False
        if isinstance(self.repliers, bool):
            return self.repliers and comment["author_association"] in _ASSOCIATED
        return login.lower() in {name.lower() for name in self.repliers}


def _asked(ask: Callable[[], _Found]) -> tuple[Answer, _Found | None]:
    try:
        return _DONE, ask()
    except GitHubFailed as error:
        return error.answer, None

"""The receiver of GitHub: one issue for each event, and statuses on commits of models.

A hidden HTML comment marks each part of a delivery. A repeated delivery finds the markers and adds
nothing. An issue has no triage links: every reader could follow them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar
from urllib.parse import quote

from compile_hud.db.records.alerts import DRIFT
from compile_hud.db.records.notifications import (
    MAX_TOGETHER,
    AlertChangeKind,
    Notification,
    stable_id,
)
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.text import shortened
from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.dispatcher import Item, Message
from compile_hud.runner.notifications.message_text import Section, render_message
from compile_hud.runner.notifications.receivers.github_api import GitHubApi, GitHubFailed
from compile_hud.runner.notifications.receivers.settings import Publication

PUBLISHED = (Publication.ISSUE, Publication.STATUS)
LABEL = "compile-hud"
# GitHub's limits for a title, a status and the name of a status.
MAX_TITLE, MAX_DESCRIPTION, MAX_CONTEXT = 256, 140, 100
# An issue without activity for this long is not searched; a new one is opened.
LOOK_BACK = timedelta(days=90)
# Clocks differ. An entry that a list leaves out for that reason would be posted twice.
_SLACK = timedelta(hours=1)
_OVER = (AlertChangeKind.FIXED, AlertChangeKind.TEST)
_NO_LABEL = (
    f"GitHub dropped the label {LABEL}, by which an issue is found again: the token may not push"
)
# Uncommitted changes have no commit to attach a status to.
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """A model's commit where a change began, and the status to show on it."""

    sha: str
    model: str
    is_over: bool
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHub:
    """Posts notifications to a repository, one after the other, in each `published` form."""

    api: GitHubApi
    published: Collection[Publication]
    # Each has its own issue.
    num_shown: ClassVar[int] = MAX_TOGETHER

    def send(self, message: Message) -> Response:
        """Send `message` once and return the response."""
        answer = self._each(message, self._post_to_issue)
        # Updates find their target by markers; the reference only distinguishes deliveries.
        return replace(answer, reference=message.id) if answer.kind is ResponseKind.SENT else answer

    def update(self, message: Message, *, reference: str) -> Response:
        """Replace a sent message with `message` and return the response; markers locate it."""
        del reference
        return self._each(message, self._revise_issue)

    def _each(self, message: Message, handle: Callable[[Item, Section], str]) -> Response:
        error_text = ""
        try:
            for item in message.items:
                alone = Message(id=item.notification.id, at=message.at, items=(item,))
                (paragraph,) = render_message(alone).sections
                if Publication.ISSUE in self.published:
                    error_text = handle(item, paragraph) or error_text
                self._show_commits(item, paragraph)
        except GitHubFailed as error:
            return error.answer
        return Response(kind=ResponseKind.SENT, text=error_text)

    def _post_to_issue(self, item: Item, paragraph: Section) -> str:
        """Open or change the issue of an event; return a problem that did not prevent it."""
        notification = item.notification
        title = shortened(paragraph.title, limit=MAX_TITLE)
        issue = self._find_issue(notification)
        if issue is None and notification.kind is AlertChangeKind.FIXED:
            return ""
        if issue is None:
            body = issue_body(notification, paragraph)
            issue = self.api.write("POST", "issues", title=title, body=body, labels=[LABEL])
        elif _marker_of(notification) not in (issue["body"] or ""):
            path = f"issues/{issue['number']}/comments"
            if self._find_comment(path, notification) is None:
                self.api.write("POST", path, body=_comment_body(notification, paragraph))
        self._change(issue, title=title, state="closed" if _is_over(item) else "open")
        has_label = any(label["name"] == LABEL for label in issue["labels"])
        return "" if has_label else _NO_LABEL

    def _revise_issue(self, item: Item, paragraph: Section) -> str:
        """Update an issue or a comment to the current state."""
        notification = item.notification
        issue = self._find_issue(notification)
        if issue is None:
            return ""
        if _marker_of(notification) in (issue["body"] or ""):
            self._change(issue, body=issue_body(notification, paragraph))
        else:
            path = f"issues/{issue['number']}/comments"
            comment = self._find_comment(path, notification)
            body = _comment_body(notification, paragraph)
            if comment is not None and comment["body"] != body:
                self.api.write("PATCH", f"issues/comments/{comment['id']}", body=body)
        if _is_over(item):
            self._change(issue, title=shortened(paragraph.title, limit=MAX_TITLE), state="closed")
        return ""

    def _find_issue(self, notification: Notification) -> Mapping[str, Any] | None:
        marker = _hidden_marker("event", notification.subject)
        since = _github_time(notification.created_at - LOOK_BACK)
        query = {"labels": LABEL, "state": "all", "since": since}
        return _with_marker(self.api.pages("issues", query=query), marker)

    def _find_comment(self, path: str, notification: Notification) -> Mapping[str, Any] | None:
        since = _github_time(notification.created_at - _SLACK)
        return _with_marker(self.api.pages(path, query={"since": since}), _marker_of(notification))

    def _change(self, issue: Mapping[str, Any], **fields: str) -> None:
        if any(issue[name] != value for name, value in fields.items()):
            self.api.write("PATCH", f"issues/{issue['number']}", **fields)

    def _show_commits(self, item: Item, paragraph: Section) -> None:
        shows = {
            Publication.STATUS: self._set_status,
            Publication.CHECK: self._set_check,
        }
        selected = [show for kind, show in shows.items() if kind in self.published]
        for commit in self._commits(item) if selected else ():
            for show in selected:
                show(commit, item.notification, paragraph)

    def _commits(self, item: Item) -> list[_Commit]:
        """Return the commits of this repository at which alerts of `item` began."""
        commits = {
            (alert["model"], commit): alert["url"]
            for alert in item.alerts
            if (commit := changed_commit(alert))
        }
        return [
            _Commit(sha=known["sha"], model=model, is_over=_is_over(item), url=url)
            for (model, commit), url in commits.items()
            # A model of another repository has its commits there.
            if (known := self.api.get(f"commits/{commit}", missing=(404, 422))) is not None
        ]

    def _set_status(self, commit: _Commit, notification: Notification, paragraph: Section) -> None:
        # The last one of a name counts, so a repeated one changes nothing.
        self.api.write(
            "POST",
            f"statuses/{commit.sha}",
            state="success" if commit.is_over else "failure",
            context=shortened(_name(commit, notification), limit=MAX_CONTEXT),
            description=shortened(paragraph.title, limit=MAX_DESCRIPTION),
            target_url=commit.url,
        )

    def _set_check(self, commit: _Commit, notification: Notification, paragraph: Section) -> None:
        name = shortened(_name(commit, notification), limit=MAX_CONTEXT)
        content = {
            "name": name,
            "external_id": notification.subject,
            "details_url": commit.url,
            "status": "completed",
            "conclusion": "success" if commit.is_over else "failure",
            "output": {
                "title": shortened(paragraph.title, limit=MAX_TITLE),
                "summary": _body(paragraph),
            },
        }
        path = f"commits/{commit.sha}/check-runs"
        query = {"check_name": name, "filter": "latest"}
        known = self.api.get(path, query=query)["check_runs"]
        if known:
            self.api.write("PATCH", f"check-runs/{known[0]['id']}", **content)
        else:
            self.api.write("POST", "check-runs", head_sha=commit.sha, **content)


def changed_commit(alert: Mapping[str, Any]) -> str:
    """Return the commit of the alert's model where its change began, "" without one.

    A commit that the last good run had too does not count. A drift has no single commit.
    """
    if alert["kind"] == DRIFT:
        return ""
    before, after = (alert["environment_diff"] or {}).get(f"models.{alert['model']}", (None, None))
    is_commit = isinstance(after, str) and _COMMIT.fullmatch(after) is not None
    return after if is_commit and before != after else ""


def _is_over(item: Item) -> bool:
    """Return whether the alerts of `item` need no more attention."""
    states = {alert["state"] for alert in item.alerts}
    return item.notification.kind in _OVER or bool(states) and states.isdisjoint(ONGOING)


def _with_marker(issues: Iterable[Mapping[str, Any]], marker: str) -> Mapping[str, Any] | None:
    return next((item for item in issues if marker in (item["body"] or "")), None)


def issue_body(notification: Notification, paragraph: Section) -> str:
    """Return the Markdown of an issue, with the markers for later searches."""
    return (
        f"{_hidden_marker('event', notification.subject)}\n{_comment_body(notification, paragraph)}"
    )


def _comment_body(notification: Notification, paragraph: Section) -> str:
    return f"{_marker_of(notification)}\n{_body(paragraph)}"


def _marker_of(notification: Notification) -> str:
    return _hidden_marker("notification", notification.id)


def _name(commit: _Commit, notification: Notification) -> str:
    """Return the name of a status: events that began with one commit have one each."""
    return f"{LABEL}/{stable_id(notification.subject).removeprefix('msg_')[:8]}/{commit.model}"


def _github_time(at: datetime) -> str:
    """Return a time as GitHub takes it."""
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _hidden_marker(what: str, id: str) -> str:
    """Return a hidden HTML comment that identifies an entry of ours."""
    # Ids are ours, but a comment of HTML must not end before its end.
    return f"<!-- {LABEL} {what}={quote(id, safe='')} -->"


def _body(paragraph: Section) -> str:
    """Return a paragraph as Markdown."""
    parts = [_fenced("\n".join((paragraph.title, *paragraph.lines)))]
    parts += [f"[Open](<{paragraph.url}>)"] if paragraph.url else []
    parts += [f"![Trend](<{paragraph.picture_url}>)"] if paragraph.picture_url else []
    return "\n\n".join(parts)


def _fenced(text: str) -> str:
    """Return `text` as a block of code, in which names are neither markup nor mentions."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"

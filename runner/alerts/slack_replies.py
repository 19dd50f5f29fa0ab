"""Replies in the threads of a Slack bot's messages.

https://docs.slack.dev/reference/methods/conversations.replies: a page begins with the message
itself, and pages follow until there is no cursor. Apps of others may read 15 at once and no more.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlencode

from db.replies import Thread
from db.text import one_line, shortened
from runner.alerts.chat import SLACK_SECTION, slack_plain, slack_text
from runner.alerts.conversation import Context, Reading, Reply
from runner.alerts.deliveries import Answer, AnswerKind
from runner.alerts.settings import MEMBER
from runner.alerts.slack import FORM, JSON, NAMES, SlackBot

PAGE, MAX_PAGES = 15, 4
# Of what somebody is called: the id behind it is what tells people apart.
_MAX_NAME = 30
# Seconds: a thread in which nothing was said for an hour is read every six minutes.
_MIN_PAUSE_S, _MAX_PAUSE_S, _SHARE = 60.0, 900.0, 0.1
_TIME = re.compile(r"[0-9]{1,12}\.[0-9]{1,10}")
# A reply that is shown in the channel as well; every other kind is no person's.
_KINDS = (None, "thread_broadcast")
_NO_MESSAGE = Answer(kind=AnswerKind.REFUSED, text="no message of Slack has this name")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackConversation:
    """Reads and answers replies to messages of `bot`, of the `repliers` or (True) of everybody.

    Everybody is who writes in the channel and belongs to the workspace of the bot.
    """

    bot: SlackBot
    repliers: bool | tuple[str, ...]

    def threads(self, references: Collection[str]) -> Collection[str]:
        """Return the `references`: each message has a thread of its own."""
        return references

    def begin(self, thread: str, *, since: datetime) -> str:
        """Return the time of the message itself."""
        del since
        return thread.partition(" ")[2]

    def pause_s(self, thread: Thread, *, now: datetime) -> float:
        """Return a share of how long nobody has said anything."""
        quiet_s = (now - _moment(thread.position)).total_seconds()
        return min(_MAX_PAUSE_S, max(_MIN_PAUSE_S, _SHARE * quiet_s))

    def read(self, thread: Thread, *, now: datetime) -> Reading:
        """Read what was said after the position of `thread`, up to MAX_PAGES."""
        names = NAMES.fullmatch(thread.name)
        if names is None:
            return Reading(answer=_NO_MESSAGE)
        form = {"channel": names[1], "ts": names[2], "oldest": thread.position, "limit": str(PAGE)}
        replies: dict[str, Reply] = {}
        for _ in range(MAX_PAGES):
            body = urlencode(form).encode("ascii")
            answer, found = self.bot.call("conversations.replies", body, headers=FORM, now=now)
            if answer.kind is not AnswerKind.SENT:
                return Reading(answer=answer)
            replies |= {item.id: item for item in self._replies(found, thread, root=names[2])}
            cursor = _cursor(found)
            if not cursor:
                break
            form["cursor"] = cursor
        ordered = sorted(replies.values(), key=lambda item: (item.at, item.position))
        return Reading(answer=answer, replies=tuple(ordered))

    def context(self, reply: Reply, *, now: datetime) -> tuple[Answer, Context | None]:
        """Return the message of the thread: who may reply was seen when it was read.

        Where the bot may not ask what somebody is called, the id has to do.
        """
        form = urlencode({"user": reply.author}).encode("ascii")
        _, found = self.bot.call("users.info", form, headers=FORM, now=now)
        user = found.get("user")
        called = one_line(str(user.get("real_name") or "")) if isinstance(user, dict) else ""
        name = f"{shortened(called, limit=_MAX_NAME)} {reply.author}".strip()
        return Answer(kind=AnswerKind.SENT), Context(name=name, reference=reply.thread)

    def say(self, text: str, *, thread: str, reply_id: str, now: datetime) -> Answer:
        """Say `text` in the thread of a message."""
        del reply_id
        names = NAMES.fullmatch(thread)
        if names is None:
            return _NO_MESSAGE
        content = {
            "channel": names[1],
            "thread_ts": names[2],
            "text": slack_plain(text),
            "blocks": [{"type": "section", "text": slack_text(text, limit=SLACK_SECTION)}],
        }
        body = json.dumps(content).encode("ascii")
        answer, _ = self.bot.call("chat.postMessage", body, headers=JSON, now=now)
        return answer

    def _replies(self, found: Mapping[str, Any], thread: Thread, *, root: str) -> list[Reply]:
        messages = found.get("messages")
        given = [item for item in messages if isinstance(item, dict)] if messages else []
        team = next((item.get("team") for item in given if item.get("ts") == root), None)
        return [
            self._reply(item, thread, team=team)
            for item in given
            if _TIME.fullmatch(str(item.get("ts"))) and item["ts"] != root
        ]

    def _reply(self, item: Mapping[str, Any], thread: Thread, *, team: object) -> Reply:
        user = str(item.get("user"))
        is_person = (
            MEMBER.fullmatch(user) is not None
            and item.get("subtype") in _KINDS
            and "bot_id" not in item
        )
        text = item.get("text")
        has_say = is_person and isinstance(text, str) and self._may(user, item, team=team)
        return Reply(
            id=f"{thread.name} {item['ts']}",
            thread=thread.name,
            position=item["ts"],
            at=_moment(item["ts"]),
            author=user,
            # Slack writes three signs so; mentions and links stay as it writes them.
            text=html.unescape(str(text)) if has_say else "",
        )

    def _may(self, user: str, item: Mapping[str, Any], *, team: object) -> bool:
        if not isinstance(self.repliers, bool):
            return user in self.repliers
        # Whoever comes from another workspace through a shared channel has that as the team.
        return self.repliers and item.get("user_team", item.get("team")) == team


def _cursor(found: Mapping[str, Any]) -> str:
    more = found.get("response_metadata")
    return str(more.get("next_cursor") or "") if isinstance(more, dict) else ""


def _moment(ts: str) -> datetime:
    return datetime.fromtimestamp(float(ts), timezone.utc)

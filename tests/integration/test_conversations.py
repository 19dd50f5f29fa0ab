"""What is read of the threads of Slack and the comments of GitHub, and of whom."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from db.replies import Thread
from runner.alerts.conversation import Context, Conversation, Reply
from runner.alerts.deliveries import AnswerKind
from runner.alerts.github import hidden_marker
from runner.alerts.github_api import PAGE as GITHUB_PAGE
from runner.alerts.github_api import GitHubApi
from runner.alerts.github_replies import THREAD, GitHubConversation
from runner.alerts.http import HttpRules
from runner.alerts.slack import SlackBot
from runner.alerts.slack_replies import MAX_PAGES, PAGE, SlackConversation
from tests.chat_servers import BOT, CHANNEL, TOKEN, Chat, chatting
from tests.github_server import Repository, github_server

RULES = HttpRules(allow_private=True)
NOW = datetime.fromtimestamp(1_700_000_000, timezone.utc)
ROOT = "1700000000.000000"
SLACK_THREAD = Thread(name=f"{CHANNEL} {ROOT}", since=NOW, due_at=NOW, position=ROOT)
AT = "2023-11-14T22:20:00Z"
GITHUB_THREAD = Thread(name=THREAD, since=NOW, due_at=NOW, position="2023-11-14T22:13:20Z")
ISSUE: dict[str, Any] = {
    "number": 1,
    "labels": [{"name": "compile-hud"}],
    "body": f"{hidden_marker('event', 'e 1')}\nmore",
}


def slack(chat: Chat, *, repliers: bool | tuple[str, ...] = True) -> Conversation:
    chat.messages[ROOT] = {"text": "New: bert is slower"}
    bot = SlackBot(url=chat.url, channel="#perf", token=TOKEN, rules=RULES)
    return SlackConversation(bot=bot, repliers=repliers)


def github(
    repository: Repository, *, repliers: bool | tuple[str, ...] = True
) -> GitHubConversation:
    api = GitHubApi(
        url=repository.url, repository="me/models", token="hunter2", now=lambda: NOW, rules=RULES
    )
    return GitHubConversation(api=api, repliers=repliers)


def comment(repository: Repository, text: str = "ack", **given: Any) -> dict[str, Any]:
    wanted = {"login": "ann", "association_of": "OWNER", "at": AT, **given}
    body = wanted.pop("body", text)
    return repository.write(1, body, **wanted)


def read(conversation: Conversation, thread: Thread) -> list[str]:
    reading = conversation.read(thread, now=NOW)
    assert reading.answer.kind is AnswerKind.SENT
    return [reply.text for reply in reading.replies]


def test_a_long_thread_of_slack_is_read_in_pages_and_passes() -> None:
    num = PAGE * MAX_PAGES + 3
    with chatting("slack") as chat:
        conversation = slack(chat)
        for number in range(num):
            chat.reply(ROOT, str(number), ts=f"1700000001.{number:06}")
        reading = conversation.read(SLACK_THREAD, now=NOW)
        assert [reply.text for reply in reading.replies] == [str(n) for n in range(num - 3)]
        assert len(chat.requests) == MAX_PAGES
        rest = replace(SLACK_THREAD, position=reading.replies[-1].position)
        assert read(conversation, rest) == [str(n) for n in range(num - 3, num)]
        assert all(TOKEN.encode() not in asked.body for asked in chat.requests)


@pytest.mark.parametrize(
    ("given", "repliers", "has_say"),
    [
        ({}, True, True),
        ({}, ("U2", "U1"), True),
        ({}, ("U2",), False),
        ({"user": "U2", "team": "T2"}, ("U2",), True),
        ({"subtype": "thread_broadcast"}, True, True),
        ({"subtype": "bot_message"}, True, False),
        ({"bot_id": "B1"}, ("U1",), False),
        (BOT, True, False),
        ({"user": None}, True, False),
        ({"user": "../x"}, True, False),
        ({"text": None}, True, False),
        ({"team": "T2"}, True, False),
        ({"user_team": "T2"}, True, False),
    ],
)
def test_who_has_a_say_in_slack(
    given: dict[str, Any], repliers: bool | tuple[str, ...], has_say: bool
) -> None:
    with chatting("slack") as chat:
        conversation = slack(chat, repliers=repliers)
        chat.reply(ROOT, **{"text": "ack &lt;b&gt;", "ts": "1700000009.000000", **given})
        assert read(conversation, SLACK_THREAD) == ["ack <b>" if has_say else ""]


def test_what_slack_refuses_to_read_is_told() -> None:
    with chatting("slack") as chat:
        conversation = slack(chat)
        gone = conversation.read(replace(SLACK_THREAD, name=f"{CHANNEL} 1.2"), now=NOW)
        assert gone.answer.kind is AnswerKind.REFUSED
        odd = conversation.read(replace(SLACK_THREAD, name="../x"), now=NOW)
        assert odd.answer.kind is AnswerKind.REFUSED
        wrong = {"ok": False, "error": "missing_scope", "needed": "channels:history"}
        chat.forced = [(429, {}, {"Retry-After": "30"}), (200, wrong, {}), (200, {"ok": True}, {})]
        limited, scopeless, empty = (conversation.read(SLACK_THREAD, now=NOW) for _ in range(3))
    assert limited.answer.retry_after_s == 30.0
    assert scopeless.answer.text.startswith("Slack: missing_scope, needs channels:history")
    assert empty.replies == ()


@pytest.mark.parametrize(
    ("member", "name"),
    [
        ("Ann\n<!here>", "Ann <!here> U1"),
        ("judge", "judge U1"),
        ("x" * 99, f"{'x' * 27}... U1"),
        ("", "U1"),
    ],
)
def test_who_replies_in_slack_is_on_record_with_the_id(member: str, name: str) -> None:
    with chatting("slack") as chat:
        conversation = slack(chat)
        chat.members["U1"] = member
        reply = replace(REPLY, thread=SLACK_THREAD.name, author="U1")
        answer, context = conversation.context(reply, now=NOW)
    assert answer.kind is AnswerKind.SENT
    assert context == Context(name=name, reference=SLACK_THREAD.name)


def test_a_quiet_thread_of_slack_is_read_seldom() -> None:
    with chatting("slack") as chat:
        conversation = slack(chat)
    pauses = [
        conversation.pause_s(SLACK_THREAD, now=NOW + timedelta(minutes=minutes))
        for minutes in (0, 60, 10_000)
    ]
    assert pauses == [60.0, 360.0, 900.0]


def test_an_answer_in_slack_calls_nobody() -> None:
    with chatting("slack") as chat:
        conversation = slack(chat)
        said = conversation.say("<!channel> & *x*", thread=SLACK_THREAD.name, reply_id="1", now=NOW)
        assert said.kind is AnswerKind.SENT
        content = chat.requests[-1].content()
    assert content["text"] == "&lt;!channel&gt; &amp; *x*"
    assert content["thread_ts"] == ROOT
    assert [block["text"]["type"] for block in content["blocks"]] == ["plain_text"]


def test_what_is_new_on_github_takes_a_request_a_page_and_nothing_new_none_that_counts() -> None:
    num = 2 * GITHUB_PAGE + 1
    with github_server() as repository:
        conversation = github(repository)
        for number in range(num):
            comment(repository, str(number))
        assert read(conversation, GITHUB_THREAD) == [str(number) for number in range(num)]
        assert len(repository.requests) == 3
        last = replace(GITHUB_THREAD, position="2023-11-15T00:00:00Z")
        reading = conversation.read(last, now=NOW)
        again = conversation.read(replace(last, tag=reading.tag), now=NOW)
        assert (again.tag, again.replies) == (reading.tag, ())
        assert repository.headers[-1]["if-none-match"] == reading.tag != ""
        comment(repository, "later", at="2023-11-16T00:00:00Z")
        assert read(conversation, replace(last, tag=reading.tag)) == ["later"]


@pytest.mark.parametrize(
    ("given", "repliers", "has_say"),
    [
        ({}, True, True),
        ({"association_of": "MEMBER"}, True, True),
        ({"association_of": "COLLABORATOR"}, True, True),
        ({"association_of": "CONTRIBUTOR"}, True, False),
        ({"association_of": "NONE"}, True, False),
        ({"association_of": "NONE"}, ("bob", "Ann"), True),
        ({}, ("bob",), False),
        ({"kind": "Bot"}, True, False),
        ({"user": None}, True, False),
        ({"login": "../x"}, True, False),
        ({"body": f"{hidden_marker('notification', 'x')}\nack"}, True, False),
        ({"updated_at": "2023-11-14T22:21:00Z"}, True, False),
        ({"issue_url": "https://x/discussions/1"}, True, False),
        ({"body": None}, True, False),
    ],
)
def test_who_has_a_say_on_github(
    given: dict[str, Any], repliers: bool | tuple[str, ...], has_say: bool
) -> None:
    with github_server() as repository:
        comment(repository, **given)
        conversation = github(repository, repliers=repliers)
        assert read(conversation, GITHUB_THREAD) == ["ack" if has_say else ""]


REPLY = Reply(id="1", thread="issues/1", position=AT, at=NOW, author="ann", text="ack")


@pytest.mark.parametrize(
    ("issue", "permission", "repliers", "wanted"),
    [
        ({}, "write", True, Context(name="ann", subject="e 1")),
        ({}, "admin", True, Context(name="ann", subject="e 1")),
        ({}, "read", True, None),
        ({}, "none", True, None),
        ({}, None, True, None),
        ({}, None, ("ann",), Context(name="ann", subject="e 1")),
        # Anybody opens an issue with a marker, and none with a label.
        ({"labels": []}, "write", True, None),
        ({"body": f"> {ISSUE['body']}"}, "write", True, None),
        ({"body": None}, "write", True, None),
        ({"number": 2}, "write", True, None),
    ],
)
def test_a_comment_is_about_an_issue_of_ours_by_somebody_who_may_write(
    issue: dict[str, Any],
    permission: str | None,
    repliers: bool | tuple[str, ...],
    wanted: Context | None,
) -> None:
    with github_server() as repository:
        repository.issues.append({**ISSUE, **issue})
        if permission is not None:
            repository.permissions["ann"] = permission
        answer, context = github(repository, repliers=repliers).context(REPLY, now=NOW)
    assert (answer.kind, context) == (AnswerKind.SENT, wanted)


def test_where_github_does_not_say_who_may_write_nobody_has_a_say() -> None:
    with github_server() as repository:
        repository.issues.append(ISSUE)
        repository.refuses = lambda _method, path: (
            (403, {}, {"message": "Must have push access"}) if "permission" in path else None
        )
        answer, context = github(repository).context(REPLY, now=NOW)
        assert (answer.kind, answer.is_down, context) == (AnswerKind.FAILED, True, None)
        limited = {"Retry-After": "90"}
        repository.refuses = lambda *_: (429, limited, {"message": "rate limit"})
        assert github(repository).read(GITHUB_THREAD, now=NOW).answer.retry_after_s == 90.0
        said = github(repository).say("no", thread="issues/1", reply_id="1", now=NOW)
        assert (said.kind, said.is_certain) == (AnswerKind.FAILED, True)

"""Replies to messages: each counts once, about what was seen, and services are asked politely."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from db.alert_queries import newest_change_number
from db.errors import StoreError
from db.messages import SentMessage, put_message
from db.notification_rows import put_notifications
from db.queries import load_alerts, load_changes
from db.records import Alert, AlertState
from db.store import Store
from db.triage import Revision
from runner.alerts import replies
from runner.alerts.http import HttpRules
from runner.alerts.replies import Replies
from runner.alerts.slack import SlackBot
from runner.alerts.slack_replies import SlackConversation
from runner.analysis.triage import Decision
from runner.config import parse_config
from runner.errors import ConfigError
from tests.builders import make_alert, make_case, make_notification
from tests.chat_servers import BOT, CHANNEL, TOKEN, Chat, chatting

NOW = datetime.fromtimestamp(1_700_000_000, timezone.utc)
MINUTE = timedelta(minutes=1)
ROOT = "1700000000.000000"


@pytest.fixture(scope="module")
def store() -> Store:
    """Return a store for all tests: each has a receiver and alerts of its own."""
    store = Store("duckdb:///:memory:")
    store.migrate()
    return store


@dataclass
class Desk:
    """A receiver that was sent one message about alerts, and a clock."""

    store: Store
    chat: Chat
    name: str
    at: datetime = NOW

    def alert(self, name: str = "a", state: AlertState = AlertState.OPEN) -> Alert:
        id = f"{self.name} {name}"
        return make_alert(id, case=make_case(f"{self.name}-{name}"), state=state)

    def revise(self, *alerts: Alert) -> None:
        revisions = tuple(Revision(alert=alert) for alert in alerts)
        decided = Decision(alerts=alerts, revisions=revisions)
        self.store.revise_alerts(lambda _: decided, by="judge")

    def show(self, *alerts: Alert) -> None:
        """Let the message say what is so by now, a notification for each alert."""
        told = [
            make_notification(f"msg {alert.id}", receiver=self.name, alert_ids=[alert.id])
            for alert in alerts
        ]
        number = newest_change_number(self.store)
        with self.store.write() as session:
            put_notifications(session, told)
            put_message(
                session,
                SentMessage(
                    receiver=self.name,
                    reference=f"{CHANNEL} {ROOT}",
                    notification_ids=tuple(item.id for item in told),
                    told={alert.id: str(alert.state) for alert in alerts},
                    sent_at=NOW,
                    number=number,
                    shown_at=self.at,
                ),
            )

    def reply(self, text: str) -> None:
        """Write a reply a second from now."""
        self.at += timedelta(seconds=1)
        self.chat.reply(ROOT, text, ts=f"{self.at.timestamp():.6f}")

    def read(self, *, after: timedelta = 20 * MINUTE) -> str:
        """Read replies after a while, and return what went wrong."""
        self.at += after
        bot = SlackBot(
            url=self.chat.url,
            channel="#perf",
            token=TOKEN,
            rules=HttpRules(allow_private=True),
        )
        reading = Replies(
            store=self.store,
            conversations={self.name: SlackConversation(bot=bot, repliers=True)},
            now=lambda: self.at,
            jitter=lambda limit_s: limit_s,
        )
        return reading.read().get(self.name, "")

    def states(self) -> list[str]:
        """Return the states of the alerts."""
        found = {item.id: str(item.state) for item in load_alerts(self.store)}
        return [state for id, state in sorted(found.items()) if id.startswith(f"{self.name} ")]

    def decided(self) -> list[tuple[str, str]]:
        """Return which states replies set, and why."""
        changes = load_changes(self.store)
        by = f"U1 ({self.name} reply)"
        return [(item.new, item.why) for item in changes if item.by == by]

    def answers(self) -> list[str]:
        return [item["text"] for item in self.chat.threads.get(ROOT, []) if "bot_id" in item]

    def asked(self) -> list[str]:
        """Return what the server was asked since the last time."""
        names = [name.removeprefix("POST ") for name in self.chat.names()]
        self.chat.requests.clear()
        return names


@pytest.fixture
def desk(store: Store, request: pytest.FixtureRequest) -> Iterator[Desk]:
    with chatting("slack") as chat:
        chat.messages[ROOT] = {"text": "New: bert is slower"}
        found = Desk(store=store, chat=chat, name=request.node.name[:60])
        # What is replied before the first reading is no command.
        found.read(after=timedelta(0))
        found.revise(found.alert())
        found.show(found.alert())
        yield found


def test_a_reply_counts_once_whatever_dies_when(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    desk.reply("noise busy host")
    desk.reply("mute soon")
    # Before what is decided is saved: neither it nor that the reply counted.
    with monkeypatch.context() as patch:
        patch.setattr("db.replies._put_reply", dies)
        with pytest.raises(StoreError):
            desk.read()
    assert (desk.decided(), desk.states()) == ([], ["open"])
    # After that, but before it is known how far was read.
    with monkeypatch.context() as patch:
        patch.setattr(replies, "put_threads", dies)
        with pytest.raises(StoreError):
            desk.read()
    assert desk.decided() == [("noise", "busy host")]
    for _ in range(2):
        assert desk.read() == ""
    assert desk.decided() == [("noise", "busy host")]
    (answer,) = desk.answers()
    assert answer.startswith('"mute soon": takes a day to come')


def test_a_reply_to_what_an_alert_was_decides_nothing(desk: Desk) -> None:
    desk.reply("noise busy host")
    # It was fixed and is back before anybody read the reply, and the message does not say so.
    for state in (AlertState.FIXED, AlertState.OPEN):
        desk.revise(desk.alert(state=state))
    desk.read()
    assert desk.decided() == []
    assert "1 alert changed after what you replied to" in desk.answers()[0]
    # Now it says so: who replied before that did not see it, who replies after that did.
    acknowledged = desk.alert(state=AlertState.ACKNOWLEDGED)
    desk.revise(acknowledged)
    desk.reply("expected the early one")
    desk.at += MINUTE
    desk.show(acknowledged)
    desk.reply("expected the late one")
    desk.read()
    assert desk.decided() == [("expected", "the late one")]
    # Who replies sees what the replies above decided.
    desk.reply("reopen oops")
    desk.reply("ack")
    desk.read()
    assert desk.states() == ["acknowledged"]


def test_what_is_old_or_over_is_not_asked_for(desk: Desk) -> None:
    desk.chat.reply(ROOT, "noise said before anybody read", ts="1600000000.000000")
    desk.asked()
    desk.read()
    assert (desk.asked(), desk.states()) == (["conversations.replies"], ["open"])
    # It is not read again at once, not when all is fixed, nor after two weeks.
    desk.read(after=timedelta(seconds=30))
    fixed = desk.alert(state=AlertState.FIXED)
    desk.revise(fixed)
    desk.read()
    desk.revise(desk.alert())
    desk.read(after=timedelta(days=14))
    assert desk.asked() == []


def test_a_service_is_left_alone_for_as_long_as_it_says(desk: Desk) -> None:
    desk.reply("owner ann")
    desk.chat.forced = [(429, {}, {"Retry-After": "3600"})]
    desk.asked()
    assert desk.read().startswith("replies are not read: 429")
    for minutes in (10, 40):
        assert desk.read(after=minutes * MINUTE) == ""
    assert desk.asked() == ["conversations.replies"]
    # What cannot be answered for the same reason is answered later, once.
    page = {"ok": True, "messages": [{**BOT, "ts": ROOT}, *desk.chat.threads[ROOT]]}
    member = {"ok": True, "user": {"id": "U1"}}
    desk.chat.forced = [(200, page, {}), (200, member, {}), (429, {}, {"Retry-After": "3600"})]
    for _ in range(3):
        desk.read(after=61 * MINUTE)
    assert desk.answers() == ['"owner ann": 1 alert of ann now.']
    assert desk.asked().count("chat.postMessage") == 2


def test_pauses_grow_and_one_request_tells_that_a_service_is_down(desk: Desk) -> None:
    desk.asked()
    for pause_s in (60, 60, 60, 60, 80):
        desk.chat.forced = [(503, {}, {})]
        assert desk.read(after=timedelta(seconds=pause_s)).startswith("replies are not read: 503")
    assert len(desk.asked()) == 5
    desk.chat.forced = []
    desk.read(after=timedelta(seconds=159))
    assert desk.asked() == []
    assert desk.read(after=timedelta(seconds=1)) == ""
    assert desk.asked() == ["conversations.replies"]


def test_an_answer_that_may_have_been_said_is_not_said_again(desk: Desk) -> None:
    desk.reply("mute soon")
    page = {"ok": True, "messages": [{**BOT, "ts": ROOT}, *desk.chat.threads[ROOT]]}
    broken = {"ok": False, "error": "fatal_error"}
    desk.chat.forced = [(200, page, {}), (200, broken, {}), (200, broken, {})]
    desk.asked()
    for _ in range(3):
        desk.read(after=61 * MINUTE)
    assert desk.asked().count("chat.postMessage") == 1


def test_of_a_digest_a_reply_says_which(desk: Desk) -> None:
    other = desk.alert("b")
    desk.revise(other)
    desk.show(desk.alert(), other)
    desk.reply("ack")
    desk.reply("ack #2 mine")
    desk.read()
    assert desk.states() == ["open", "acknowledged"]
    assert ["this message tells of 2 things" in answer for answer in desk.answers()] == [True]


def test_hostile_words_are_cleaned_and_cut(desk: Desk) -> None:
    hostile = "\u202e<!channel>\x1b[2J **@here** `x` " + "y" * 10_000
    desk.reply(f"mute {hostile}")
    desk.reply(f"noise {hostile}\nowner eve")
    desk.read()
    ((state, why),) = desk.decided()
    assert (state, len(why)) == ("noise", 500)
    assert why.startswith("?<!channel>?[2J **@here** `x` yyy")
    (answer,) = desk.answers()
    assert "<" not in answer
    assert len(answer) < 500


def test_a_defect_ends_nothing_and_is_not_met_at_once_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(SlackConversation, "read", broken)
    assert "a defect of Compile HUD" in desk.read()
    assert desk.read(after=timedelta(seconds=59)) == ""


def test_a_pass_does_a_bounded_number_of_commands(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "MAX_COMMANDS", 2)
    for number in range(3):
        desk.reply(f"owner ann{number}")
    desk.read()
    assert len(desk.answers()) == 2
    desk.read()
    assert len(desk.answers()) == 3


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ('kind = "github"\nreplies = "not a login"', "'not a login' is not a login of GitHub"),
        ('kind = "github"\nreplies = 7', "true, false, a text or a list of texts"),
        ('kind = "github"\nreplies = true\npublish = "status"', 'publish has no "issue"'),
        ('kind = "slack"\nurl = "env:U"\nreplies = true', "a webhook of Slack cannot read"),
        ('kind = "discord"\nurl = "env:U"\nreplies = true', "of kind discord has no replies"),
        (
            'kind = "slack"\nurl = "env:U"\nchannel = "c"\ntoken = "env:T"\nreplies = ["ann"]',
            "'ann' is not the id of a member of Slack",
        ),
    ],
)
def test_who_may_reply_must_be_somebody(settings: str, problem: str) -> None:
    more = 'repository = "a/b"\ntoken = "env:T"\n' if "github" in settings else ""
    with pytest.raises(ConfigError, match=re.escape(problem)):
        parse_config(f"[receivers.a]\n{settings}\n{more}", path=Path("/p/hud.toml"), env={})

"""Messages that can be changed report the present state: Slack through a bot, Discord."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.alerts.outbox import load_outbox
from compile_hud.db.alerts.sent_messages import load_outdated
from compile_hud.db.errors import StoreError
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.notifications import AlertChangeKind, NotificationState
from compile_hud.db.records.triage import Revision
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.schema.tables import MessageTable
from compile_hud.db.store import Store
from compile_hud.runner.alerting import notifier as outlet
from compile_hud.runner.alerting.notifier import send_waiting
from compile_hud.runner.analysis.alerts.triage import TriageDecision
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.events import Event, LogMessage
from compile_hud.runner.notifications.delivery_policy import ResponseKind
from compile_hud.runner.notifications.dispatcher import SLOW_RECEIVER, Item, Message
from compile_hud.runner.notifications.http_client import HttpRules
from compile_hud.runner.notifications.receivers.discord import Discord
from compile_hud.runner.notifications.receivers.slack import SlackBot
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.support.builders import START, make_alert, make_case, make_notification
from tests.support.servers.chat_servers import CHANNEL, TOKEN, Chat, chatting

RULES = HttpRules(allow_private=True)
PICTURE = b"\x89PNG\r\n\x1a\n the trend"


@dataclass
class Office:
    """A store with a receiver, the server behind it and a clock."""

    workspace: Workspace
    chat: Chat
    at: datetime = START

    @property
    def store(self) -> Store:
        return self.workspace.store()

    def tell(
        self, *alerts: Alert, id: str = "msg_1", kind: AlertChangeKind = AlertChangeKind.OPENED
    ) -> None:
        """Store alerts and what is to be told of them, as the judge does."""
        self.revise(*alerts)
        notification = make_notification(
            id, receiver="team", alert_ids=[alert.id for alert in alerts]
        )
        with self.store.write() as connection:
            put_notifications(connection, [replace(notification, kind=kind)])

    def revise(self, *alerts: Alert) -> None:
        revisions = tuple(Revision(alert=alert) for alert in alerts)
        decided = TriageDecision(alerts=alerts, revisions=revisions)
        self.store.revise_alerts(lambda _: decided, by="somebody")

    def send(self) -> list[str]:
        """Send waiting messages and update sent ones; return the log messages."""
        events: list[Event] = []
        send_waiting(self.workspace, notify=events.append)
        return [event.text for event in events if isinstance(event, LogMessage)]

    def take_calls(self) -> list[str]:
        """Return the calls of the server since the last time."""
        names = self.chat.names()
        self.chat.requests.clear()
        return names

    def shown(self) -> str:
        """Return the one message that there is."""
        (message,) = self.chat.messages.values()
        return json.dumps(message).replace("\\\\", "")

    def num_retained(self) -> int:
        with self.store.read() as connection:
            return len(connection.execute(select(MessageTable.c.reference)).all())


@pytest.fixture(params=["slack", "discord"])
def office(
    request: pytest.FixtureRequest, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Office]:
    monkeypatch.setattr(outlet, "make_draw", lambda _: lambda ids: dict.fromkeys(ids, PICTURE))
    shutil.copy(empty, tmp_path / "store.duckdb")
    more = 'channel = "#perf"\ntoken = "env:TOKEN"\n' if request.param == "slack" else ""
    with chatting(request.param) as chat:
        config = parse_config(
            f'[receivers.team]\nkind = "{request.param}"\nurl = "{chat.url}"\n{more}'
            "allow_private = true\n",
            path=tmp_path / "hud.toml",
            env={"HUD_DATABASE_URL": f"duckdb:///{tmp_path / 'store.duckdb'}"},
        )
        env = {"TOKEN": TOKEN}
        context = Office(
            workspace=Workspace(config=config, dependencies=Dependencies(env=env)), chat=chat
        )
        dependencies = Dependencies(now=lambda: context.at, env=env)
        context.workspace = Workspace(config=config, dependencies=dependencies)
        yield context


# What does not depend on who is told is tried with one of them.
ONE_KIND = pytest.mark.parametrize("office", ["slack"], indirect=True)
UPDATES = {"slack": "POST chat.update", "discord": "PATCH 110"}
POSTS = {"slack": "POST chat.postMessage", "discord": "POST hook"}
ALERT = make_alert("a")
ACKNOWLEDGED = replace(ALERT, state=AlertState.ACKNOWLEDGED, note="known since May")
FIXED = replace(ALERT, state=AlertState.FIXED)


def kind_of(office: Office) -> str:
    return str(office.workspace.config.receivers["team"].kind)


def test_a_decision_updates_the_message_and_sends_no_other(office: Office) -> None:
    office.tell(ALERT)
    office.send()
    assert office.take_calls()[0] == POSTS[kind_of(office)]
    office.revise(ACKNOWLEDGED)
    assert office.send() == []
    assert office.take_calls() == [UPDATES[kind_of(office)]]
    shown = office.shown()
    assert "now acknowledged by" in shown
    assert "known since May" in shown
    office.send()
    assert office.take_calls() == []


@ONE_KIND
def test_ten_changes_are_one_update_and_a_change_taken_back_is_none(office: Office) -> None:
    alerts = [make_alert(str(number), case=make_case(str(number))) for number in range(10)]
    office.tell(*alerts)
    office.send()
    office.take_calls()
    decided = [replace(alert, state=AlertState.NOISE) for alert in alerts]
    for alert in decided:
        office.revise(alert)
    office.send()
    assert office.take_calls() == [UPDATES[kind_of(office)]]
    office.revise(*alerts)
    office.revise(*decided)
    office.send()
    assert office.take_calls() == []


def test_what_is_fixed_updates_the_message_instead_of_another(office: Office) -> None:
    office.tell(ALERT)
    office.send()
    office.take_calls()
    office.tell(FIXED, id="msg_2", kind=AlertChangeKind.FIXED)
    office.send()
    assert office.take_calls() == [UPDATES[kind_of(office)]]
    assert "now fixed" in office.shown()
    assert [str(item.state) for item in load_outbox(office.store)] == ["sent", "dropped"]


def test_news_of_a_deleted_message_is_sent_anew(office: Office) -> None:
    office.tell(ALERT)
    office.send()
    office.chat.messages.clear()
    office.take_calls()
    office.tell(FIXED, id="msg_2", kind=AlertChangeKind.FIXED)
    (event, sent) = office.send()
    assert "receiver team: " in event
    assert sent == "1 notification sent"
    names = office.take_calls()
    assert (names[0], POSTS[kind_of(office)] in names) == (UPDATES[kind_of(office)], True)
    assert "Fixed (major)" in office.shown()
    # That of before is forgotten, and the new one says already what is so.
    assert office.num_retained() == 1
    office.send()
    assert office.take_calls() == []


@ONE_KIND
def test_an_update_that_fails_is_tried_again_later(
    office: Office, words: SnapshotAssertion
) -> None:
    office.tell(ALERT)
    office.send()
    office.take_calls()
    office.revise(ACKNOWLEDGED)
    office.chat.forced = [(503, {}, {"Retry-After": "600"})]
    (event,) = office.send()
    assert event == words
    office.send()
    assert len(office.take_calls()) == 1
    office.at += timedelta(seconds=601)
    assert office.send() == []
    assert "now acknowledged" in office.shown()


def message_texts(office: Office) -> list[str]:
    """Return what was said or changed in Slack since the last time, pictures aside."""
    return [name for name in office.take_calls() if "chat." in name]


@ONE_KIND
def test_alerts_that_a_message_only_counts_are_in_the_next(office: Office) -> None:
    alerts = [make_alert(str(number), case=make_case(str(number))) for number in range(7)]
    office.tell(*alerts)
    office.send()
    office.take_calls()
    fixed = [replace(alert, state=AlertState.FIXED) for alert in alerts]
    office.tell(fixed[6], id="msg_2", kind=AlertChangeKind.FIXED)
    office.send()
    assert message_texts(office) == ["POST chat.update", "POST chat.postMessage"]
    office.send()
    assert message_texts(office) == []
    # All of one notification are alike: its title says so.
    office.tell(*fixed[:6], id="msg_3", kind=AlertChangeKind.FIXED)
    office.send()
    assert message_texts(office) == ["POST chat.update"]


@ONE_KIND
def test_alerts_that_a_digest_only_counts_are_in_the_next(office: Office) -> None:
    alerts = [make_alert(str(number), case=make_case(str(number))) for number in range(12)]
    office.revise(*alerts)
    items = [
        make_notification(f"msg_{alert.id}", receiver="team", alert_ids=[alert.id])
        for alert in alerts
    ]
    with office.store.write() as connection:
        put_notifications(connection, items)
    office.send()
    office.take_calls()
    fixed = [replace(alerts[number], state=AlertState.FIXED) for number in (0, 11)]
    office.revise(fixed[0])
    office.tell(fixed[1], id="msg_fixed", kind=AlertChangeKind.FIXED)
    office.send()
    assert message_texts(office) == ["POST chat.update", "POST chat.postMessage"]


@ONE_KIND
def test_a_slow_receiver_has_a_deadline(office: Office) -> None:
    office.tell(ALERT)
    office.send()
    office.take_calls()
    office.revise(ACKNOWLEDGED)
    events: list[Event] = []
    send_waiting(office.workspace, notify=events.append, limit_s=0.0)
    assert [
        event.text
        for event in events
        if isinstance(event, LogMessage) and SLOW_RECEIVER in event.text
    ]
    assert office.take_calls() == []
    office.send()
    assert "now acknowledged" in office.shown()


@ONE_KIND
def test_of_a_receiver_that_is_down_one_message_is_tried(office: Office) -> None:
    for name in "abc":
        office.tell(make_alert(name, case=make_case(name)), id=f"msg_{name}")
        office.send()
    office.take_calls()
    office.revise(*(replace(ACKNOWLEDGED, id=name, case=make_case(name)) for name in "abc"))
    office.chat.forced = [(503, {}, {})] * 3
    office.send()
    assert len(office.take_calls()) == 1
    later = office.at + timedelta(seconds=30)
    assert len(load_outdated(office.store, receivers=["team"], at=later)) == 3


@ONE_KIND
def test_where_a_message_is_and_that_it_was_sent_are_stored_together(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    office.tell(ALERT)
    monkeypatch.setattr("compile_hud.db.alerts.outbox.put_message", full)
    office.send()
    (item,) = load_outbox(office.store)
    assert (item.state, office.num_retained()) == (NotificationState.SENDING, 0)


@ONE_KIND
def test_a_message_whose_notifications_were_pruned_is_left_alone(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.tell(ALERT)
    office.send()
    office.take_calls()
    office.revise(ACKNOWLEDGED)
    monkeypatch.setattr(
        "compile_hud.runner.notifications.message_updates.load_notifications", lambda *_: ()
    )
    office.send()
    assert (office.take_calls(), office.num_retained()) == ([], 0)


@ONE_KIND
def test_a_defect_ends_nothing(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    office.tell(ALERT)
    office.send()
    office.revise(ACKNOWLEDGED)
    for kind in (SlackBot, Discord):
        monkeypatch.setattr(kind, "update", broken)
    (event,) = office.send()
    assert "a defect of Compile HUD" in event


def message(draw: Any = lambda ids: dict.fromkeys(ids, PICTURE), *, url: str = "") -> Message:
    content = {**ALERT.to_json(), "repro": "hud run", "url": "http://hud/series"}
    item = Item(notification=make_notification(), alerts=(content,), num_alerts=1, picture_url=url)
    return Message(id="msg_1", at=START, items=(item,), draw=draw)


def bot(chat: Chat, *, channel: str = "#perf", token: str = TOKEN) -> SlackBot:
    return SlackBot(url=chat.url, channel=channel, token=token, rules=RULES)


def test_a_bot_adds_the_trend_below_its_message() -> None:
    with chatting("slack") as chat:
        answer = bot(chat).send(message())
        assert (answer.kind, answer.reference) == (
            ResponseKind.SENT,
            f"{CHANNEL} 1700000000.000000",
        )
        assert chat.files == {"F1": PICTURE}
        content = chat.requests[-1].content()
    assert content == {
        "files": [{"id": "F1", "title": "trend 1"}],
        "channel_id": CHANNEL,
        "thread_ts": "1700000000.000000",
    }
    assert all(TOKEN not in item.path and TOKEN.encode() not in item.body for item in chat.requests)
    assert "authorization" not in chat.requests[2].headers


def test_a_bot_shows_an_address_where_there_is_one() -> None:
    with chatting("slack") as chat:
        bot(chat).send(message(url="https://hud/pictures/1.png"))
        assert chat.names() == ["POST chat.postMessage"]
        assert "https://hud/pictures/1.png" in json.dumps(chat.requests[0].content())


@pytest.mark.parametrize("num_before", [1, 2, 3])
def test_a_picture_that_slack_does_not_take_costs_the_picture_alone(num_before: int) -> None:
    with chatting("slack") as chat:
        answers = [(200, {"ok": True, "channel": CHANNEL, "ts": "1.2"}, {})]
        uploading = {"ok": True, "upload_url": f"{chat.url}/upload?id=F1", "file_id": "F1"}
        answers += [(200, uploading, {}), (200, "OK", {})][: num_before - 1]
        chat.forced = [*answers, (500, {}, {})]
        assert bot(chat).send(message()).reference == f"{CHANNEL} 1.2"
        assert len(chat.requests) == num_before + 1


@pytest.mark.parametrize(
    ("content", "kind", "is_down"),
    [
        ({"ok": False, "error": "invalid_blocks"}, ResponseKind.REFUSED, False),
        ({"ok": False, "error": "invalid_auth"}, ResponseKind.FAILED, True),
        ({"ok": False, "error": "ratelimited"}, ResponseKind.FAILED, True),
        ({"ok": False, "error": "fatal_error"}, ResponseKind.FAILED, False),
        ({"ok": False}, ResponseKind.FAILED, True),
        ([], ResponseKind.FAILED, False),
        ("<html>\n" + "x" * 10_000, ResponseKind.FAILED, False),
    ],
)
def test_errors_of_slack_with_status_200_are_failures(
    content: Any, kind: ResponseKind, is_down: bool
) -> None:
    with chatting("slack") as chat:
        chat.forced = [(200, content, {})]
        answer = bot(chat).send(message())
    assert (answer.kind, answer.is_down) == (kind, is_down)
    assert answer.text
    assert len(answer.text) < 300


def test_a_missing_scope_is_reported_by_name(words: SnapshotAssertion) -> None:
    with chatting("slack") as chat:
        wrong = {"ok": False, "error": "missing_scope", "needed": "chat:write"}
        chat.forced = [(200, wrong, {})]
        text = bot(chat).send(message()).text
    assert text == words


def test_a_wrong_token_is_not_shown_and_loses_nothing(words: SnapshotAssertion) -> None:
    with chatting("slack") as chat:
        wrong = bot(chat, token="hunter2")
        answer = wrong.send(message())
    assert answer.text == words
    assert "hunter2" not in repr(wrong)


def test_a_reference_of_another_kind_is_not_looked_up() -> None:
    with chatting("slack") as chat:
        assert bot(chat).update(message(), reference="../x").kind is ResponseKind.REFUSED
        assert chat.requests == []


def test_discord_shows_the_newest_picture_alone() -> None:
    drawn: list[Sequence[str]] = []

    def draw(ids: Sequence[str]) -> dict[str, bytes]:
        drawn.append(ids)
        return dict.fromkeys(ids, PICTURE + str(len(drawn)).encode())

    with chatting("discord") as chat:
        receiver = Discord(url=f"{chat.url}?thread_id=7", rules=RULES)
        answer = receiver.send(message(draw))
        again = receiver.update(message(draw), reference=answer.reference)
        assert (answer.reference, again.reference) == ("110", "110")
        first, second = chat.requests
    assert (first.query, second.query) == (
        {"thread_id": ["7"], "wait": ["true"]},
        {"thread_id": ["7"]},
    )
    assert (first.files(), second.files()) == (
        {"trend-1.png": PICTURE + b"1"},
        {"trend-1.png": PICTURE + b"2"},
    )
    (embed,) = second.content()["embeds"]
    assert embed["image"] == {"url": "attachment://trend-1.png"}


@pytest.mark.parametrize("text", ["", "[]", '{"id": "../x"}', '{"id": 5}', "{}"])
def test_an_answer_without_a_name_leaves_a_message_that_stays_as_it_is(text: str) -> None:
    with chatting("discord") as chat:
        chat.forced = [(200, text, {})]
        answer = Discord(url=chat.url, rules=RULES).send(message())
    assert (answer.kind, answer.reference) == (ResponseKind.SENT, "")


@pytest.mark.parametrize(
    "more",
    [
        'channel = "#perf"',
        'token = "env:T"',
        'token = "xoxb-1"',
    ],
)
def test_a_bot_needs_a_channel_and_a_token(more: str, words: SnapshotAssertion) -> None:
    content = f'[receivers.a]\nkind = "slack"\nurl = "https://slack.com/api"\n{more}\n'
    with pytest.raises(ConfigError) as caught:
        parse_config(content, path=Path("/project/hud.toml"), env={})
    assert str(caught.value) == words

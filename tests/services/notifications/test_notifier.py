"""`hud` notifies the receivers of hud.toml: settings, routes, commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier
from syrupy.assertion import SnapshotAssertion

from benchmarks.receiving import Inbox, receiving
from compile_hud.db.alerts.outbox import load_outbox
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.notifications import Notification, make_receiver_test
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.store import Store
from compile_hud.runner.alerting import notifier as outlet
from compile_hud.runner.alerting.notifier import (
    build_messages,
    make_dispatcher,
    make_planner,
    send_waiting,
)
from compile_hud.runner.alerting.payload import alerts_json
from compile_hud.runner.config.load import Config, parse_config
from compile_hud.runner.detection.detect import detect
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.events import Event, LogMessage
from compile_hud.runner.notifications.dispatcher import Message
from compile_hud.runner.notifications.receivers.factory import UnreadyReceiver, make_receiver
from compile_hud.runner.notifications.receivers.secrets import NotReady, resolve_secret
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.store.detection.test_detect import nights, put
from tests.support.builders import make_alert, make_notification
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import CONFIG, Terminal
from tests.unit.runner.notifications.receivers.test_webhook import SECRET


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def configure(terminal: Terminal, *inboxes: Inbox, more: str = "") -> None:
    (terminal.folder / "secret").write_text(f"{SECRET}\n")
    sections = [
        f'[receivers.r{number}]\nurl = "{inbox.url}"\nallow_private = true\n'
        'secret = "file:secret"\n'
        for number, inbox in enumerate(inboxes)
    ]
    (terminal.folder / "hud.toml").write_text(CONFIG + "".join(sections) + more)


def parse(content: str) -> Config:
    return parse_config(content, path=Path("/project/hud.toml"), env={})


def fill(terminal: Terminal, *notifications: Notification) -> None:
    with terminal.store().write() as connection:
        put_notifications(connection, notifications)


def test_receivers_and_routes_are_read() -> None:
    config = parse("""
        [receivers.ops]
        url = "https://example.com/hook"
        secret = "env:HUD_SECRET"
        timeout_s = 5
        [routes.bad]
        receivers = "ops"
        models = ["bert", "gpt*"]
        severity = "severe"
        verdicts = ["regression", "improvement"]
        news = ["opened", "fixed"]
    """)
    ops, (route,) = config.receivers["ops"], config.routes
    assert (ops.url, ops.secret, ops.timeout_s) == ("https://example.com/hook", "env:HUD_SECRET", 5)
    assert (route.name, route.receivers, route.models) == ("bad", ("ops",), ("bert", "gpt*"))
    assert (route.severities, route.verdicts, route.news) == (
        ("severe",),
        ("regression", "improvement"),
        ("opened", "fixed"),
    )


@pytest.mark.parametrize("key", ["secret", "token", "password"])
def test_a_secret_in_the_wrong_place_is_not_shown(key: str, words: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(f'[receivers.a]\n{key} = "{SECRET}"', path=None, env={})
    assert str(raised.value) == words
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        "[receivers.a]",
        '[receivers.a]\nurl = "gopher://x"',
        '[receivers.a]\nurl = "env:"',
        pytest.param(
            f'[receivers.a]\nurl = "https://x.org"\nsecret = "{SECRET}"', id="secret in the file"
        ),
        '[receivers.a]\nurl = "https://x.org"\nkind = "slak"',
        '[receivers.a]\nurl = "env:A"\nkind = "slack"\nsecret = "env:B"',
        '[receivers.a]\nkind = "email"\nurl = "smtp://x.org"\nsender = "a@x.org"',
        '[receivers.a]\nkind = "email"\nurl = "http://x"\nsender = "a@x.org"\nto = "a@x.org"',
        '[receivers.a]\nkind = "email"\nsender = "Me <a@x.org>"',
        '[receivers.a]\nkind = "apprise"\nurl = "env:A"',
        '[receivers.a]\nkind = "apprise"\nurl = "https://x.org"\nallow_private = true',
        '[routes.a]\nreceivers = "ops"',
        '[receivers.ops]\nurl = "https://x.org"\n[routes.a]\nreceivers = "osp"',
        '[receivers.o]\nurl = "env:A"\n[routes.a]\nreceivers = "o"\nseverity = "bad"',
        '[receivers.o]\nurl = "env:A"\n[routes.a]\nreceivers = "o"\nnews = "test"',
        *(
            f'[receivers.o]\nurl = "env:A"\n[routes.a]\nreceivers = "o"\n{line}'
            for line in (
                'findings = ["graph-*", "grph-break"]',
                'phases = "train"',
                'devices = "gpu"',
                'dtypes = "bf61"',
            )
        ),
    ],
)
def test_invalid_settings_are_reported_with_line_and_key(
    content: str, words: SnapshotAssertion
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(content)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "settings",
    [
        'url = "env:HOOK"',
        'url = "file:nothing"',
        'url = "env:BAD"',
        'url = "https://x.org"\nsecret = "env:BAD"',
    ],
)
def test_a_missing_secret_is_reported_and_never_shown(
    settings: str, words: SnapshotAssertion
) -> None:
    config = parse(f"[receivers.ops]\n{settings}")
    receiver = make_receiver(config.receivers["ops"], env={"BAD": "hunter2"})
    assert isinstance(receiver, UnreadyReceiver)
    assert "hunter2" not in receiver.reason
    assert receiver.reason == words


def test_an_empty_file_holds_no_secret(tmp_path: Path, words: SnapshotAssertion) -> None:
    (tmp_path / "secret").write_text("\n", encoding="utf-8")
    with pytest.raises(NotReady) as caught:
        resolve_secret("secret", "file:secret", base=tmp_path, env={})
    assert str(caught.value) == words


def test_step_reaches_a_receiver_as_the_command_line_shows_it(terminal: Terminal) -> None:
    with receiving() as inbox:
        configure(terminal, inbox)
        put(terminal.store(), nights([2.0] * 12 + [1.4] * 4))
        assert terminal.hud("detect").exit_code == 0
        terminal.hud("detect")
    (request,) = inbox.requests
    document = json.loads(request.body)
    (notification,) = document["data"]["notifications"]
    assert document["type"] == "alerts.opened"
    assert notification["alerts"] == terminal.json("regressions", "--json")
    assert notification["severity"] == "severe"
    assert request.headers["webhook-id"] == notification["id"]


def test_a_test_message_is_signed_and_answers_are_reported(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    with receiving() as good, receiving(lambda handler, _: handler.answer(404)) as bad:
        configure(terminal, good, bad)
        both = terminal.hud("alerts", "test")
        assert both.exit_code == 1
        assert both.stdout == words
        assert terminal.hud("alerts", "test", "r0").exit_code == 0
        assert terminal.hud("alerts", "test", "r[0]").stdout == "r0: sent\n"
        assert terminal.json("alerts", "test", "r0", "--json") == [
            {"receiver": "r0", "answer": "sent", "text": ""}
        ]
    request = good.requests[0]
    assert json.loads(request.body)["type"] == "alerts.test"
    # The clock of the terminal is long ago: its signature holds, its time does not.
    signed = Verifier(SECRET)
    assert (
        signed.sign(request.headers["webhook-id"], terminal.clock.moment, request.body.decode())
        == request.headers["webhook-signature"]
    )
    assert "no receiver 'ops'" in terminal.hud("alerts", "test", "ops").stderr
    assert load_outbox(terminal.store()) == ()


def test_dead_letters_are_listed_and_sent_again(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    save_alerts(terminal.store(), [make_alert("a")])
    fill(terminal, make_notification("msg_1", receiver="r0", alert_ids=["a"]))
    with receiving(lambda handler, number: handler.answer(204 if number else 410)) as inbox:
        configure(terminal, inbox)
        assert "no notifications sent" in terminal.hud("alerts", "send").stdout
        listed = terminal.hud("alerts", "outbox").stdout
        assert "dead" in listed
        assert "410 Gone" in listed
        (item,) = terminal.json("alerts", "outbox", "--state", "dead", "--json")
        assert (item["id"], item["num_attempts"]) == ("msg_1", 1)
        assert terminal.hud("alerts", "resend", "x").stderr == words
        output = terminal.hud("alerts", "resend", "msg_").stdout
        assert output == words
    assert terminal.hud("alerts", "outbox").stderr == words
    assert terminal.json("alerts", "resend", "--json") == {"resent": 0, "sent": 0}


@pytest.mark.parametrize(
    ("kind", "signs"),
    [("slack", '"blocks"'), ("discord", '"allowed_mentions"'), ("teams", '"AdaptiveCard"')],
)
def test_chats_get_what_they_understand(terminal: Terminal, kind: str, signs: str) -> None:
    with receiving() as inbox:
        section = f'[receivers.chat]\nkind = "{kind}"\nurl = "env:CHAT"\nallow_private = true\n'
        config = parse(section)
        receiver = make_receiver(config.receivers["chat"], env={"CHAT": f"{inbox.url}\n"})
        save_alerts(terminal.store(), [make_alert("a")])
        items = build_messages(
            [make_notification(alert_ids=["a"])], workspace=workspace_of(terminal)
        )
        message = Message(id="msg_1", at=terminal.clock(), items=tuple(items))
        assert str(receiver.send(message).kind) == "sent"
    assert signs in inbox.requests[0].body.decode()


def test_without_receivers_nothing_is_sent(terminal: Terminal, words: SnapshotAssertion) -> None:
    put(terminal.store(), nights([2.0] * 12 + [1.4] * 4))
    assert terminal.hud("detect").exit_code == 0
    assert load_outbox(terminal.store()) == ()
    assert terminal.hud("alerts", "send").stderr == words
    assert terminal.hud("alerts", "test").stderr == words
    assert terminal.json("alerts", "send", "--json") == {"sent": 0, "failed": 0}


def test_a_run_sends_what_waits_when_it_was_judged(terminal: Terminal) -> None:
    save_alerts(terminal.store(), [make_alert("a")])
    fill(terminal, make_notification("msg_1", receiver="r0", alert_ids=["a"]))
    with receiving() as inbox:
        configure(terminal, inbox)
        result = terminal.hud("run", "--suite", "mine")
    assert "1 notification sent" in result.stderr
    assert [request.headers["webhook-id"] for request in inbox.requests] == ["msg_1"]


def workspace_of(terminal: Terminal) -> Workspace:
    config = parse_config(
        (terminal.folder / "hud.toml").read_text(), path=terminal.folder / "hud.toml", env={}
    )
    return Workspace(config=config, dependencies=Dependencies(now=terminal.clock, env={}))


def test_a_remeasured_alert_is_notified_only_when_confirmed(
    terminal: Terminal,
) -> None:
    with receiving() as inbox:
        configure(terminal, inbox)
        workspace = workspace_of(terminal)
        store = workspace.store()
        put(store, nights([2.0] * 12 + [1.4] * 4))
        report = detect(store, planner=make_planner(workspace, is_held=True))
        make_dispatcher(workspace).dispatch()
        (notification,) = load_outbox(store)
        assert (str(notification.state), inbox.requests) == ("pending", [])
        save_alerts(store, [replace(report.new[0], is_confirmed=False)])
        send_waiting(workspace, notify=lambda _: None)
        assert inbox.requests == []
        assert [str(item.state) for item in load_outbox(store)] == ["dropped"]


def test_a_failed_delivery_is_reported_and_everything_waits(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    events: list[Event] = []
    fill(terminal, make_notification("msg_1", receiver="r0", alert_ids=["a"]))
    save_alerts(terminal.store(), [make_alert("a")])
    with receiving(lambda handler, _: handler.answer(503, Retry_After="60")) as inbox:
        configure(terminal, inbox)
        send_waiting(workspace_of(terminal), notify=events.append)
    texts = [event.text for event in events if isinstance(event, LogMessage)]
    assert texts == words
    assert [str(item.state) for item in load_outbox(terminal.store())] == ["failed"]


def test_alerts_of_many_notifications_are_read_at_once(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[list[str]] = []

    def documents(alerts: Sequence[Alert], *, store: Store, dashboard: str) -> list[dict[str, Any]]:
        queries.append([alert.id for alert in alerts])
        return alerts_json(alerts, store=store, dashboard=dashboard)

    monkeypatch.setattr(outlet, "alerts_json", documents)
    save_alerts(terminal.store(), [make_alert("a"), make_alert("b")])
    expected = {"msg_1": ["a", "b"], "msg_2": ["b"], "msg_3": ["gone"]}
    items = build_messages(
        [make_notification(name, alert_ids=ids) for name, ids in expected.items()],
        workspace=workspace_of(terminal),
    )
    ids_by_notification = {
        item.notification.id: [alert["id"] for alert in item.alerts] for item in items
    }
    assert ids_by_notification == {"msg_1": ["a", "b"], "msg_2": ["b"]}
    assert queries == [["a", "b"]]


def test_a_notification_whose_alerts_are_gone_is_dropped(terminal: Terminal) -> None:
    assert (
        build_messages([make_notification(alert_ids=["gone"])], workspace=workspace_of(terminal))
        == []
    )


def test_imported_histories_notify_only_by_a_route(terminal: Terminal) -> None:
    imported = [
        replace(night, run=replace(night.run, toolchain="imported:pytorch/main"))
        for night in nights([2.0] * 12 + [1.4] * 4)
    ]
    put(terminal.store(), imported)
    with receiving() as inbox:
        configure(terminal, inbox)
        assert "1 new" in terminal.hud("detect").stdout
        assert load_outbox(terminal.store()) == ()


def test_a_queued_test_message_is_sent_once_and_its_answer_is_stored(terminal: Terminal) -> None:
    with receiving() as inbox:
        configure(terminal, inbox)
        fill(terminal, make_receiver_test("r0", at=terminal.clock()))
        result = terminal.hud("alerts", "send")
        terminal.hud("alerts", "send")
    assert (result.exit_code, result.stdout) == (0, "1 notification sent\n")
    (request,) = inbox.requests
    assert json.loads(request.body)["type"] == "alerts.test"
    (test,) = load_outbox(terminal.store())
    assert (str(test.state), test.num_attempts, test.last_error) == ("sent", 1, "")


def test_a_refused_test_message_is_no_dead_letter(terminal: Terminal) -> None:
    with receiving(lambda handler, _: handler.answer(410)) as inbox:
        configure(terminal, inbox)
        fill(terminal, make_receiver_test("r0", at=terminal.clock()))
        report = terminal.json("alerts", "send", "--json")
    (test,) = load_outbox(terminal.store())
    assert report == {"sent": 0, "failed": 1}
    assert str(test.state) == "dropped"
    assert "410" in test.last_error
    assert terminal.json("alerts", "resend", "--json")["resent"] == 0


def test_an_old_test_message_expires(terminal: Terminal) -> None:
    at = terminal.clock() - outlet.MAX_TEST_AGE - timedelta(seconds=1)
    with receiving() as inbox:
        configure(terminal, inbox)
        fill(terminal, make_receiver_test("r0", at=at))
        terminal.hud("alerts", "send")
    (test,) = load_outbox(terminal.store())
    assert (str(test.state), test.last_error, inbox.requests) == ("dropped", "", [])

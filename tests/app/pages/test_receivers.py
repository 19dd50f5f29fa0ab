"""The page of receivers: settings without secrets, deliveries, test messages, dead letters."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.views.receivers import data as receivers_data
from compile_hud.db.alerts.outbox import load_outbox, revise_queue
from compile_hud.db.jobs.health import save_scheduler
from compile_hud.db.records.notifications import (
    AlertChangeKind,
    Notification,
    NotificationState,
    ReceiverHealth,
    make_receiver_test,
)
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.shared.settings_snapshot import (
    RECEIVERS_VARIABLE,
    ShownReceiver,
    receivers_from_json,
    receivers_to_json,
)
from compile_hud.db.store import Store
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.config.snapshot import route_text, shown_receivers
from compile_hud.runner.notifications.routes import Route
from compile_hud.runner.scheduling.supervisor import dashboard_environment
from tests.app.conftest import OpenPage, SignIn
from tests.support.builders import make_notification, make_scheduler
from tests.support.pages.page_elements import html_of, text_of, texts_of
from tests.support.stores import dashboard_stores

NOW = dashboard_stores.NOW
HOSTILE = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}" + "x" * 5000
CONFIG = """
[receivers.chat]
kind = "slack"
url = "env:CHAT_URL"
timezone = "Europe/Berlin"
[receivers.hook]
url = "https://hooks.example.org:8443/hunter2?key=hunter3"
secret = "file:/run/secrets/hunter4"
weekly = "fri 16:30"
[receivers.mail]
kind = "email"
url = "smtp://mail.example.org"
sender = "hud@example.org"
to = ["ada@example.org", "tom@example.com"]
user = "hunter5"
password = "env:MAIL_PASSWORD"
[receivers.hub]
kind = "github"
repository = "me/models"
token = "env:HUB_TOKEN"
[routes.bad]
receivers = ["hook", "hub"]
severity = ["severe", "major"]
models = ["bert", "gpt*"]
[routes.all]
receivers = "hook"
"""


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Export the receivers of a hud.toml to this process, and return them."""
    path = tmp_path / "hud.toml"
    path.write_text(CONFIG, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setenv("CHAT_URL", "https://chat.example.org/hunter1")
        text = dashboard_environment(parse_config(CONFIG, path=path, env={}))[RECEIVERS_VARIABLE]
    monkeypatch.setenv(RECEIVERS_VARIABLE, text)
    return text


@pytest.fixture
def store(seeded: Path) -> Store:
    return Store(f"duckdb:///{seeded}", now=lambda: NOW)


def fill(store: Store, *notifications: Notification) -> None:
    with store.write() as connection:
        put_notifications(connection, notifications)


def pause(store: Store, name: str, *, num_failures: int) -> None:
    health = ReceiverHealth(
        receiver=name, num_failures=num_failures, held_until=NOW + timedelta(minutes=42)
    )
    revise_queue(store, name, lambda queue: replace(queue, health=health))


def dead(id: str, *, receiver: str, error: str) -> Notification:
    item = make_notification(id, receiver=receiver, created_at=NOW - timedelta(hours=30))
    return replace(
        item, state=NotificationState.DEAD, last_error=error, attempted_at=NOW - timedelta(hours=29)
    )


def test_receivers_are_exported_without_secrets(exported: str, words: SnapshotAssertion) -> None:
    for number in range(1, 6):
        assert f"hunter{number}" not in exported.replace("file:/run/secrets/hunter4", "")
    chat, hook, mail, hub = receivers_from_json(exported)
    assert (chat.kind, chat.address, chat.routes) == ("slack", "env:CHAT_URL", ())
    assert hook.routes == words
    assert (hook.address, hook.weekly) == ("hooks.example.org:8443", "fri 16:30 UTC")
    assert mail.recipients == "...@example.org, ...@example.com"
    assert (hub.address, hub.recipients) == ("github.com", "me/models")
    assert receivers_from_json(receivers_to_json([hub])) == (hub,)


def test_a_route_names_each_filter_that_it_has(words: SnapshotAssertion) -> None:
    assert route_text(Route(name="a", receivers=("b",))) == ""
    route = Route(name="a", receivers=("b",), owners=("ada",), news=("fixed",), imported=True)
    assert route_text(route) == words


def test_an_address_without_a_host_is_not_shown() -> None:
    config = parse_config('[receivers.r]\nurl = "env:A"', path=None, env={})
    broken = {"r": replace(config.receivers["r"], url="http://[hunter2")}
    assert shown_receivers(broken, routes=())[0].address == "(not shown)"


@pytest.mark.usefixtures("exported", "seeded")
def test_the_page_shows_settings_and_deliveries_of_each_receiver(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    sent = replace(
        make_notification("msg_1", receiver="hook"),
        state=NotificationState.SENT,
        attempted_at=NOW - timedelta(hours=2),
    )
    waiting = make_notification(
        "msg_2", receiver="chat", created_at=NOW - timedelta(hours=3), due_at=NOW
    )
    failed = replace(
        waiting,
        state=NotificationState.FAILED,
        attempted_at=NOW - timedelta(minutes=5),
        last_error="503 Service Unavailable",
    )
    unclaimed = make_notification("msg_3", receiver="old")
    fill(store, sent, failed, unclaimed, dead("msg_4", receiver="hub", error="404 Not Found"))
    pause(store, "chat", num_failures=6)
    page = open_page("receivers")
    assert not page.exception
    assert texts_of(page, "h1", "h3", "chips", "facts", "notice") == words
    assert "hunter" not in html_of(page)


def test_without_receivers_the_page_has_a_snippet(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setenv(RECEIVERS_VARIABLE, "[]")
    page = open_page("receivers")
    assert texts_of(page, "h1", "empty") == words
    # The snippet is a valid hud.toml.
    (snippet,) = page.code
    config = parse_config(snippet.value, path=None, env={})
    assert list(config.receivers) == ["team"]
    assert config.routes[0].receivers == ("team",)


@pytest.mark.parametrize(
    ("state", "error", "has_scheduler"),
    [
        ("pending", "", True),
        ("pending", "", False),
        ("sent", "", True),
        ("sent", "the label is missing", True),
        ("dropped", "403 Forbidden", True),
        ("dropped", "", True),
    ],
)
@pytest.mark.usefixtures("exported")
def test_the_answer_to_a_test_message_is_shown(
    open_page: OpenPage,
    store: Store,
    state: str,
    error: str,
    has_scheduler: bool,
    words: SnapshotAssertion,
) -> None:
    if has_scheduler:
        save_scheduler(store, replace(make_scheduler(), heartbeat_at=NOW))
    test = replace(
        make_receiver_test("mail", at=NOW - timedelta(minutes=9)),
        state=NotificationState(state),
        last_error=error,
        attempted_at=NOW - timedelta(minutes=8) if state != "pending" else None,
    )
    fill(store, make_receiver_test("mail", at=NOW - timedelta(days=2)), test)
    texts = [text for text in texts_of(open_page("receivers"), "notice") if "Test message" in text]
    assert texts == words


@pytest.mark.usefixtures("exported")
def test_an_admin_queues_one_test_message_at_a_time(
    open_page: OpenPage,
    store: Store,
    sign_in: SignIn,
    caplog: pytest.LogCaptureFixture,
    words: SnapshotAssertion,
) -> None:
    caplog.set_level(logging.INFO)
    sign_in("ada")
    page = open_page("receivers")
    # The cards stand in the order of hud.toml: chat, hook, mail, hub.
    page.button(key="test-2").click().run()
    assert not page.exception
    page.button(key="test-2").click().run()
    (test,) = load_outbox(store)
    assert (test.kind, test.receiver, test.alert_ids) == (AlertChangeKind.TEST, "mail", ())
    assert texts_of(page, "notice") == words
    assert [text for text in caplog.messages if "'mail'" in text] == words


@pytest.mark.usefixtures("exported")
def test_a_receiver_outside_of_hud_toml_gets_no_test_message(
    store: Store, sign_in: SignIn, words: SnapshotAssertion
) -> None:
    sign_in("ada")
    assert receivers_data.send_test("old") == words
    assert load_outbox(store) == ()


@pytest.mark.parametrize("name", ["tom", "eve", ""])
@pytest.mark.usefixtures("exported")
def test_others_see_no_button_and_cannot_send(
    name: str, open_page: OpenPage, store: Store, sign_in: SignIn, words: SnapshotAssertion
) -> None:
    fill(store, dead("msg_6", receiver="hub", error="410 Gone"))
    sign_in(name)
    page = open_page("receivers")
    assert not [item.key for item in page.button if item.key[:4] in ("test", "rese")]
    assert receivers_data.send_test("mail") == words
    assert [item.id for item in load_outbox(store)] == ["msg_6"]


@pytest.mark.usefixtures("exported")
def test_an_admin_resends_the_dead_letters_of_one_receiver(
    open_page: OpenPage, store: Store, sign_in: SignIn, words: SnapshotAssertion
) -> None:
    fill(
        store,
        dead("msg_7", receiver="hook", error="410 Gone"),
        dead("msg_8", receiver="hub", error="404 Not Found"),
    )
    sign_in("ada")
    page = open_page("receivers")
    page.button(key="resend-0").click().run()
    assert {item.id: str(item.state) for item in load_outbox(store)} == {
        "msg_7": "pending",
        "msg_8": "dead",
    }
    assert texts_of(page, "notice") == words


def test_hostile_names_and_errors_are_text(
    open_page: OpenPage, store: Store, monkeypatch: pytest.MonkeyPatch, sign_in: SignIn
) -> None:
    odd = ShownReceiver(
        name=HOSTILE,
        kind=HOSTILE,
        address=HOSTILE,
        recipients=HOSTILE,
        routes=((HOSTILE, HOSTILE),),
        weekly=HOSTILE,
    )
    monkeypatch.setenv(RECEIVERS_VARIABLE, receivers_to_json([odd]))
    test = replace(
        make_receiver_test(HOSTILE, at=NOW), state=NotificationState.DROPPED, last_error=HOSTILE
    )
    fill(store, test, dead("msg_5", receiver="b" + HOSTILE, error=HOSTILE))
    pause(store, HOSTILE, num_failures=1)
    sign_in("ada")
    page = open_page("receivers")
    assert not page.exception
    assert "<script" not in html_of(page)
    assert "\u202e" not in text_of(page)
    assert len(html_of(page)) < 30_000
    page.button(key="test-0").click().run()
    assert not page.exception

"""Apprise sends in a process of its own, whose output is parsed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from benchmarks.receiving import receiving
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.notifications.message_text import render_message
from compile_hud.runner.notifications.receivers import factory as receivers
from compile_hud.runner.notifications.receivers.apprise import Apprise, neutralise, render_body
from compile_hud.runner.notifications.receivers.factory import UnreadyReceiver, make_receiver
from compile_hud.runner.notifications.receivers.settings import ReceiverSettings
from tests.support.builders import make_case
from tests.unit.runner.notifications.receivers.test_chat import HOSTILE, bare, item, message

HIDDEN = "\N{ZERO WIDTH SPACE}"


def settings() -> ReceiverSettings:
    section = '[receivers.a]\nkind = "apprise"\nurl = "env:A"\nallow_private = true\n'
    return parse_config(section, path=Path("/p/hud.toml"), env={}).receivers["a"]


def speaking(code: str, *, url: str = "json://h/", timeout_s: float = 30.0) -> Apprise:
    """Return a receiver whose process does what `code` says."""
    return Apprise(url=url, timeout_s=timeout_s, command=(sys.executable, "-S", "-c", code))


@pytest.mark.nightly
def test_a_message_reaches_a_real_server(words: SnapshotAssertion) -> None:
    with receiving() as inbox:
        address = inbox.url.replace("http://", "json://")
        receiver = make_receiver(settings(), env={"A": address})
        assert str(receiver.send(message(item())).kind) == "sent"
    (request,) = inbox.requests
    document = json.loads(request.body)
    assert document["title"] == words
    assert document["message"].replace(HIDDEN, "").endswith("\nOpen: http://hud/series?case=1")
    assert document["message"].replace(HIDDEN, "") == words


def test_a_server_that_refuses_is_a_failure_that_is_tried_again() -> None:
    with receiving(lambda handler, _: handler.answer(500)) as inbox:
        receiver = make_receiver(settings(), env={"A": inbox.url.replace("http://", "json://")})
        answer = receiver.send(message(item()))
    assert (str(answer.kind), answer.is_certain) == ("failed", False)
    assert "127.0.0.1" not in answer.text


def test_an_address_that_apprise_does_not_know_is_reported() -> None:
    receiver = make_receiver(settings(), env={"A": "nosuch://host"})
    assert receiver.send(message(item())).text.endswith(" URL ***://host")


def test_what_hangs_is_ended() -> None:
    answer = speaking("import time; time.sleep(60)", timeout_s=0.2).send(message(item()))
    assert (str(answer.kind), answer.text) == ("failed", "no answer within 0.2 s")


def test_the_address_is_neither_in_the_arguments_nor_in_the_output() -> None:
    receiver = speaking(
        "import sys, json; sys.exit(str(sys.argv) + json.load(sys.stdin)['url'])",
        url="slack://hunter2token/second4secret",
    )
    assert "hunter2" not in repr(receiver)
    assert receiver.send(message(item())).text == "['-c']***://***/***"


def test_names_are_neither_mentions_nor_markup() -> None:
    hostile = message(item(title=HOSTILE, case=make_case(HOSTILE)))
    with receiving() as inbox:
        address = inbox.url.replace("http://", "json://")
        make_receiver(settings(), env={"A": address}).send(hostile)
    document = json.loads(inbox.requests[0].body)
    text = document["title"] + document["message"]
    assert HOSTILE[:10] in text.replace(HIDDEN, "")
    for call in ("@everyone", "@here", "<!channel>", "<@U1>", "**b**", "`c`", "[x]("):
        assert call not in text


def test_no_body_is_empty() -> None:
    words = render_message(bare())
    assert render_body(words) == words.heading


def test_commands_can_be_copied() -> None:
    assert neutralise("hud run --model nn_transformer") == "hud run --model nn_transformer"
    assert neutralise("_all_").count(HIDDEN) == 2


def test_without_apprise_everything_waits(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(receivers, "is_installed", lambda: False)
    receiver = make_receiver(settings(), env={"A": "json://localhost"})
    assert isinstance(receiver, UnreadyReceiver)
    assert receiver.reason == words

"""The required and the refused keys of each kind of receiver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.config.notifications import (
    address,
    check_receiver,
    secret_source,
)
from compile_hud.runner.config.section import SecretRefused, SectionError
from compile_hud.runner.notifications.receivers.settings import ReceiverKind, ReceiverSettings


def settings(kind: str, **fields: Any) -> ReceiverSettings:
    return ReceiverSettings(name="ops", base=Path(), kind=ReceiverKind(kind), **fields)


@pytest.mark.parametrize(
    ("kind", "fields", "key"),
    [
        ("webhook", {}, None),
        ("discord", {"url": "env:A", "to": ("a@b.c",)}, "to"),
        ("slack", {"url": "env:U", "channel": "C1"}, None),
        ("slack", {"url": "env:U", "token": "env:A"}, None),
        ("apprise", {"url": "env:A"}, None),
        ("apprise", {"url": "json://h", "allow_private": True}, "url"),
        ("webhook", {"url": "smtp://mail.example.org"}, "url"),
    ],
)
def test_an_invalid_receiver_is_reported_with_its_key(
    kind: str, fields: dict[str, Any], key: str | None, words: SnapshotAssertion
) -> None:
    with pytest.raises(SectionError) as caught:
        check_receiver(settings(kind, **fields))
    assert str(caught.value) == words
    assert caught.value.key == key


def test_whole_section_passes() -> None:
    check_receiver(settings("webhook", url="https://hooks.example.org", secret="env:A"))
    check_receiver(settings("slack", url="env:U", channel="C1", token="env:A"))


@pytest.mark.parametrize("secret", ["xoxb-1", 7, ""])
def test_a_secret_itself_is_refused_and_not_shown(secret: Any, words: SnapshotAssertion) -> None:
    with pytest.raises(SecretRefused) as raised:
        secret_source(secret)
    assert str(raised.value) == words


@pytest.mark.parametrize(
    "url",
    [
        "hooks.example.org/services/T0KEN",
        "https://me:T0KEN@hooks.example.org",
        "https://hooks.example.org:T0KEN/",
        "https://hooks.example.org/services/T0KEN with a space",
        ["https://hooks.example.org/services/T0KEN"],
    ],
)
def test_a_wrong_address_is_refused_and_not_shown(url: Any, words: SnapshotAssertion) -> None:
    with pytest.raises(SecretRefused) as raised:
        address(url)
    assert str(raised.value) == words
    assert "T0KEN" not in str(raised.value)

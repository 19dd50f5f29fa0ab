"""The body and the signature of a webhook, and the meaning of answers."""

from __future__ import annotations

import base64
import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.notifications.delivery_policy import ResponseKind
from compile_hud.runner.notifications.dispatcher import Item, Message
from compile_hud.runner.notifications.http_client import (
    HttpReply,
    HttpRules,
    RequestFailed,
    TargetRefused,
    check_url,
    is_public,
    post,
)
from compile_hud.runner.notifications.http_response import (
    Poster,
    failure_response,
    response_of,
    retry_after_s,
)
from compile_hud.runner.notifications.receivers.webhook import (
    BadSecret,
    Webhook,
    envelope,
    key_of,
    signed_headers,
)
from tests.support.builders import START, make_alert, make_notification

KEY = bytes(range(32))
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


def message(*names: str) -> Message:
    items = tuple(
        Item(notification=make_notification(name), alerts=(make_alert().to_json(),), num_alerts=1)
        for name in names
    )
    return Message(id="msg_1", at=START, items=items)


def reply(status: int, body: str = "", **headers: str) -> HttpReply:
    return HttpReply(status=status, headers=headers, body=body)


def test_envelope_carries_the_objects_of_the_command_line() -> None:
    document = envelope(message("a"))
    assert (document["schema_version"], document["type"]) == (1, "alerts.opened")
    assert document["timestamp"] == "2026-01-01T02:30:00+00:00"
    (notification,) = document["data"]["notifications"]
    assert notification["alerts"] == [make_alert().to_json()]
    assert (notification["id"], notification["kind"], notification["num_alerts"]) == (
        "a",
        "opened",
        1,
    )
    assert envelope(message("a", "b"))["type"] == "alerts.digest"


def posted(message: Message, *, key: bytes | None) -> tuple[bytes, dict[str, str]]:
    seen: list[tuple[bytes, dict[str, str]]] = []

    def keep(_url: str, *, body: bytes, headers: dict[str, str], rules: Any) -> HttpReply:
        del rules
        seen.append((body, headers))
        return reply(200)

    hook = Webhook(poster=Poster(url="https://example.com/x", post=keep), key=key)
    assert hook.send(message).kind is ResponseKind.SENT
    return seen[0]


def test_key_of_the_message_is_sent_without_a_secret_too() -> None:
    body, headers = posted(message("a"), key=None)
    assert headers == {"Content-Type": "application/json", "webhook-id": "msg_1"}
    assert json.loads(body)["type"] == "alerts.opened"


def test_nothing_shows_address_or_secret() -> None:
    hook = Webhook(poster=Poster(url="https://example.com/token-123"), key=KEY)
    assert "token-123" not in repr(hook)
    assert repr(KEY) not in repr(hook)


@pytest.mark.parametrize(
    "secret", ["", "abc", "whsec_", "whsec_abc", SECRET[6:], "whsec_" + "A" * 28, "whsec_%%%"]
)
def test_an_invalid_secret_is_reported_without_its_text(
    secret: str, words: SnapshotAssertion
) -> None:
    with pytest.raises(BadSecret) as caught:
        key_of(secret)
    assert str(caught.value) == words
    assert not secret or secret == "whsec_" or secret not in str(caught.value)


def test_the_reference_library_verifies_a_signature_and_no_changed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = b'{"a": 1}'
    headers = signed_headers(body, message_id="msg_1", at=START, key=key_of(f" {SECRET}\n"))
    verifier = Verifier(SECRET)

    def at(moment: Any) -> None:
        class Clock(type(START)):  # type: ignore[misc]
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return moment.astimezone(tz)

        monkeypatch.setattr("standardwebhooks.webhooks.datetime", Clock)

    at(START)
    assert verifier.verify(body, headers) == {"a": 1}
    for changed in (
        (b'{"a": 2}', headers),
        (body, {**headers, "webhook-id": "msg_2"}),
        (body, {**headers, "webhook-timestamp": str(int(START.timestamp()) + 1)}),
    ):
        with pytest.raises(WebhookVerificationError):
            verifier.verify(*changed)
    # Replayed later, it is too old.
    at(START + timedelta(minutes=6))
    with pytest.raises(WebhookVerificationError, match="too old"):
        verifier.verify(body, headers)


@pytest.mark.parametrize(
    ("status", "kind", "is_down"),
    [
        (200, "sent", False),
        (204, "sent", False),
        (301, "failed", True),
        (307, "failed", True),
        (400, "refused", False),
        (401, "refused", False),
        (408, "failed", True),
        (410, "refused", False),
        (425, "failed", True),
        (429, "failed", True),
        (500, "failed", False),
        (503, "failed", True),
        (600, "failed", False),
    ],
)
def test_status_decides(status: int, kind: str, is_down: bool) -> None:
    answer = response_of(reply(status), now=START)
    assert (str(answer.kind), answer.is_down, answer.is_certain) == (kind, is_down, True)


def test_reason_is_reported_in_a_line(words: SnapshotAssertion) -> None:
    assert response_of(reply(404, "no\n\x1b[31msuch hook"), now=START).text == (words)
    document = {
        "https://me:pass@hooks.example/services/TOKEN": "https://hooks.example",
        "/services/TOKEN": "another path",
        "https://[TOKEN": "no address",
    }
    for where, shown in document.items():
        answer = response_of(reply(302, location=where), now=START)
        assert answer.text == f"302 Found: redirects to {shown}"
    assert len(response_of(reply(500, "x" * 10_000), now=START).text) < 300


def test_without_an_answer_the_delivery_is_uncertain() -> None:
    failure = failure_response(RequestFailed("timed out", may_have_arrived=True))
    never = failure_response(RequestFailed("refused"))
    assert (failure.is_certain, failure.is_down) == (False, False)
    assert (never.is_certain, never.is_down) == (True, True)


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("Thu, 01 Jan 2026 02:31:00 GMT", 60.0),
        ("Thu, 01 Jan 2026 02:00:00 GMT", 0.0),
        ("Thu, 01 Jan 2026 02:31:00 -0000", 60.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1e9", None),
        ("9" * 400, None),
        (f"Mon, 3 Mar 2026{'5' * 20} 01:02:03 GMT", None),
        (f"Mon, {'3' * 12} Mar 2026 01:02:03 GMT", None),
        (f"Mon, 3 Mar 2026 01:02:{'9' * 25} GMT", None),
        (f"Mon, 3 Mar 2026 01:02:03 +{'4' * 15}", None),
        ("Fri, 31 Dec 9999 23:59:59 -1200", 251635109399.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, wait_s: float | None) -> None:
    assert retry_after_s({"retry-after": value}, now=START) == wait_s


def test_a_reply_that_repeats_the_address_shows_no_secret(words: SnapshotAssertion) -> None:
    body = "no hook /services/T0KEN?key=K3Y here"
    poster = Poster(
        url="https://hooks.example/services/T0KEN?key=K3Y",
        post=lambda *_args, **_options: reply(404, body),
    )
    answer = poster.send(b"", headers={}, now=START)
    assert answer.text == words


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.org:secret/x",
        "https://[secret]/x",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "//example.com",
        "http://user:secret@example.com/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://exa mple.com/",
        "http://example.com/\r\nX-Evil: 1",
        "http://[::1",
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(TargetRefused) as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::5db8:d822", True),
        ("2002:7f00:1::", False),
    ],
)
def test_private_addresses_are_known_in_every_wrapping(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_a_name_that_leads_to_a_private_address_is_not_sent_to(words: SnapshotAssertion) -> None:
    rules = HttpRules(lookup=lambda _host, _port: ["93.184.216.34", "127.0.0.1"])
    with pytest.raises(TargetRefused, match=r"is 127\.0\.0\.1, .*allow_private = true"):
        post("http://rebind.example/", body=b"", headers={}, rules=rules)
    with pytest.raises(TargetRefused) as caught:
        post("http://127.0.0.1/", body=b"", headers={}, rules=HttpRules())
    assert str(caught.value) == words
    answer = Poster(url="http://rebind.example/", rules=rules).send(b"", headers={}, now=START)
    assert (answer.kind, answer.is_down) == (ResponseKind.FAILED, True)


def test_a_silent_name_server_does_not_block(words: SnapshotAssertion) -> None:
    never = threading.Event()

    def lookup(_host: str, _port: int) -> list[str]:
        never.wait()
        return []

    rules = HttpRules(lookup=lookup, connect_s=0.01)
    answer = Poster(url="http://hooks.example/", rules=rules).send(b"", headers={}, now=START)
    never.set()
    assert answer.text == words
    assert (answer.kind, answer.is_certain, answer.is_down) == (ResponseKind.FAILED, True, True)


def test_an_unknown_host_fails_at_once(words: SnapshotAssertion) -> None:
    def lookup(_host: str, _port: int) -> list[str]:
        raise OSError("Name or service not known")

    rules = HttpRules(lookup=lookup)
    answer = Poster(url="http://hooks.example/", rules=rules).send(b"", headers={}, now=START)
    assert answer.kind is ResponseKind.FAILED
    assert answer.text == words

"""Posting to real servers, good and bad ones."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from benchmarks.receiving import Handler, receiving
from compile_hud.runner.notifications.delivery_policy import ResponseKind
from compile_hud.runner.notifications.http_client import (
    MAX_ANSWER_BYTES,
    HttpRules,
    RequestFailed,
    post,
)
from compile_hud.runner.notifications.http_response import Poster
from compile_hud.runner.notifications.receivers.webhook import Webhook
from tests.unit.runner.notifications.receivers.test_webhook import KEY, SECRET, message

QUICK = HttpRules(allow_private=True, connect_s=2.0, total_s=0.5)


def test_what_a_server_gets_is_verified_by_the_reference_library() -> None:
    now = datetime.now(timezone.utc)
    with receiving() as inbox:
        hook = Webhook(poster=Poster(url=inbox.url, rules=QUICK), key=KEY)
        sent = message("a")
        answer = hook.send(type(sent)(id=sent.id, at=now, items=sent.items))
    assert answer.kind is ResponseKind.SENT
    (request,) = inbox.requests
    assert Verifier(SECRET).verify(request.body, dict(request.headers)) == json.loads(request.body)
    with pytest.raises(WebhookVerificationError):
        Verifier(SECRET).verify(request.body + b" ", dict(request.headers))
    assert request.headers["host"] == inbox.url.split("/")[2]
    assert request.path == "/hook"


@pytest.mark.parametrize(
    ("behave", "text", "may_have_arrived"),
    [
        (lambda handler, _: handler.hang(s=5), "timed out", True),
        (lambda handler, _: handler.drip(every_s=0.05), "timed out", True),
        (lambda handler, _: handler.reset(), "reset|closed", True),
    ],
)
def test_bad_servers_end_in_time(
    behave: Callable[[Handler, int], None], text: str, may_have_arrived: bool
) -> None:
    with receiving(behave) as inbox:
        started = time.monotonic()
        with pytest.raises(RequestFailed, match=text) as caught:
            post(inbox.url, body=b"{}", headers={}, rules=QUICK)
        # Ten times the deadline: it is a bound, and the machine may be busy.
        assert time.monotonic() - started < 5.0
    assert caught.value.may_have_arrived is may_have_arrived


def test_an_endless_answer_is_read_to_a_limit() -> None:
    def flood(handler: Handler, _number: int) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            for _ in range(1000):
                handler.wfile.write(b"x" * 65536)
        except OSError:
            handler.close_connection = True

    with receiving(flood) as inbox:
        rules = HttpRules(allow_private=True)
        assert len(post(inbox.url, body=b"", headers={}, rules=rules).body) == MAX_ANSWER_BYTES


def test_the_status_counts_where_the_rest_of_the_answer_never_comes() -> None:
    def stall(handler: Handler, _number: int) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "10")
        handler.end_headers()
        handler.hang(s=5)

    with receiving(stall) as inbox:
        assert post(inbox.url, body=b"", headers={}, rules=QUICK).status == 200


def test_a_redirect_is_not_followed() -> None:
    with receiving() as other:
        where = other.url
        with receiving(lambda handler, _: handler.answer(307, Location=where)) as inbox:
            answer = Poster(url=inbox.url, rules=QUICK).send(
                b"{}", headers={}, now=datetime.now(timezone.utc)
            )
    assert (answer.kind, other.requests) == (ResponseKind.FAILED, [])


def test_a_refused_connection_is_certainly_undelivered() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        with pytest.raises(RequestFailed, match="refused") as caught:
            post(url, body=b"", headers={}, rules=QUICK)
    assert not caught.value.may_have_arrived


def test_a_self_signed_certificate_is_not_trusted(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    trusting = HttpRules(
        allow_private=True, context=lambda: ssl.create_default_context(cafile=str(certificate))
    )
    with receiving(context=server) as inbox:
        url = inbox.url.replace("http:", "https:").replace("127.0.0.1", "localhost")
        with pytest.raises(RequestFailed, match="certificate verify failed") as caught:
            post(url, body=b"", headers={}, rules=QUICK)
        assert not caught.value.may_have_arrived
        assert inbox.requests == []
        assert post(url, body=b"{}", headers={}, rules=trusting).status == 204
        # Trusted, but for another name.
        with pytest.raises(RequestFailed, match="certificate verify failed"):
            post(url.replace("localhost", "127.0.0.1"), body=b"", headers={}, rules=trusting)


def self_signed(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path

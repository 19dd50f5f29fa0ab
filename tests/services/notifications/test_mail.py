"""Mail goes to real servers, whose answers are parsed."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.config.load import parse_config
from compile_hud.runner.notifications.delivery_policy import Response
from compile_hud.runner.notifications.http_client import HttpRules
from compile_hud.runner.notifications.receivers.factory import make_receiver
from compile_hud.runner.notifications.receivers.mail import Mail
from compile_hud.runner.notifications.receivers.settings import ReceiverSettings
from compile_hud.runner.notifications.receivers.smtp import MailServer
from tests.services.notifications.test_webhook import self_signed
from tests.support.servers.mail_server import HANG_UP, MailBox, mail_server
from tests.support.terminal import CONFIG, Terminal
from tests.unit.runner.notifications.receivers.test_chat import item, message

RULES = HttpRules(allow_private=True, connect_s=2.0, total_s=2.0)
TO = ("a@example.org", "b@example.org")
B = "RCPT TO:<b@example.org>"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("certificate"))


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def trusting(certificate: Path) -> HttpRules:
    return HttpRules(
        allow_private=True,
        total_s=5.0,
        context=lambda: ssl.create_default_context(cafile=str(certificate)),
    )


def send(
    box: MailBox,
    *,
    scheme: str = "smtp+plain",
    rules: HttpRules = RULES,
    user: str = "",
    num_attempts: int = 0,
) -> Response:
    server = MailServer(
        url=f"{scheme}://localhost:{box.port}", user=user, password="hunter2", rules=rules
    )
    mail = Mail(server=server, sender="hud@example.org", to=TO)
    message_item = item()
    notification = replace(message_item.notification, num_attempts=num_attempts)
    return mail.send(message(replace(message_item, notification=notification)))


def test_all_get_one_mail() -> None:
    with mail_server() as box:
        assert str(send(box).kind) == "sent"
    ((recipients, content),) = box.letters
    assert recipients == list(TO)
    assert b"\nMessage-ID: <msg_1@example.org>" in content.replace(b"\r", b"")


def test_starttls_comes_before_the_password(certificate: Path) -> None:
    with mail_server(offers=("STARTTLS", "AUTH PLAIN"), context=server_context(certificate)) as box:
        assert send(box, scheme="smtp", rules=trusting(certificate), user="me").text == ""
    verbs = [line.split()[0].upper() for line in box.lines]
    assert verbs[:4] == ["EHLO", "STARTTLS", "EHLO", "AUTH"]
    assert len(box.letters) == 1


def test_tls_from_the_start(certificate: Path) -> None:
    context = server_context(certificate)
    with mail_server(offers=("AUTH PLAIN",), context=context, speaks_tls=True) as box:
        answer = send(box, scheme="smtps", rules=trusting(certificate), user="me")
        assert str(answer.kind) == "sent"


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_a_self_signed_certificate_is_not_trusted(certificate: Path, scheme: str) -> None:
    with mail_server(
        offers=("STARTTLS",), context=server_context(certificate), speaks_tls=scheme == "smtps"
    ) as box:
        answer = send(box, scheme=scheme, user="me")
    assert (str(answer.kind), answer.is_down, box.letters) == ("failed", True, [])
    assert "CERTIFICATE_VERIFY_FAILED" in answer.text
    assert not any("AUTH" in line for line in box.lines)


def test_a_server_without_tls_gets_neither_mail_nor_password(words: SnapshotAssertion) -> None:
    with mail_server(offers=("AUTH PLAIN",)) as box:
        assert "localhost offers no STARTTLS" in send(box, scheme="smtp", user="me").text
        assert send(box, user="me").text == words
    assert box.letters == []
    assert not any("AUTH" in line for line in box.lines)


@pytest.mark.parametrize(
    ("answers", "kind", "is_down", "text"),
    [
        # Whatever the message, it would be refused: of the sender, or of this machine.
        ({"MAIL": "451 later"}, "failed", True, "451 later"),
        ({"MAIL": "550 no such sender"}, "failed", True, "550 no such sender"),
        ({"GREETING": "554 not for you"}, "failed", True, "554 not for you"),
        (
            {"RCPT": "550 gone"},
            "refused",
            False,
            "a@example.org: 550 gone, b@example.org: 550 gone",
        ),
        ({"RCPT": "450 grey"}, "failed", False, "a@example.org: 450 grey, b@example.org: 450 grey"),
        ({"GREETING": "421 busy"}, "failed", True, "421 busy"),
        ({"DATA": "452 full"}, "failed", False, "452 full"),
        ({"END": "554 spam"}, "refused", False, "554 spam"),
        ({"END": "452 full"}, "failed", False, "452 full"),
        ({"MAIL": HANG_UP}, "failed", True, "Connection unexpectedly closed"),
    ],
)
def test_what_passes_is_tried_again_and_the_rest_given_up(
    answers: dict[str, str], kind: str, is_down: bool, text: str
) -> None:
    with mail_server(answers) as box:
        answer = send(box)
    assert (str(answer.kind), answer.is_down, answer.text, answer.is_certain) == (
        kind,
        is_down,
        text,
        True,
    )
    assert box.letters == []


def test_a_password_that_is_refused_loses_nothing(certificate: Path) -> None:
    with mail_server(
        {"AUTH": "535 wrong"},
        offers=("STARTTLS", "AUTH PLAIN"),
        context=server_context(certificate),
    ) as box:
        answer = send(box, scheme="smtp", rules=trusting(certificate), user="me")
    assert (str(answer.kind), answer.is_down, answer.text) == ("failed", True, "535 wrong")


def test_what_may_have_been_taken_is_not_called_certain() -> None:
    with mail_server({"END": HANG_UP}) as box:
        answer = send(box)
    assert (str(answer.kind), answer.is_certain) == ("failed", False)


def test_a_temporary_refusal_does_not_repeat_the_mail_to_others(words: SnapshotAssertion) -> None:
    with mail_server({B: "450 greylisted"}) as box:
        first = send(box)
        assert (str(first.kind), box.letters) == ("failed", [])
        last = send(box, num_attempts=3)
    assert str(last.kind) == "sent"
    assert last.text == words
    assert [recipients for recipients, _ in box.letters] == [["a@example.org"]]


def test_an_unknown_address_does_not_block_the_others(words: SnapshotAssertion) -> None:
    with mail_server({B: "550 no such user"}) as box:
        answer = send(box)
    assert str(answer.kind) == "sent"
    assert answer.text == words
    assert [recipients for recipients, _ in box.letters] == [["a@example.org"]]


def test_private_addresses_only_on_demand(words: SnapshotAssertion) -> None:
    with mail_server() as box:
        answer = send(box, rules=HttpRules())
    assert (str(answer.kind), box.lines) == ("failed", [])
    assert answer.text == words


def test_a_test_message_is_mailed_and_unreached_addresses_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    with mail_server({B: "550 no such user"}) as box:
        (tmp_path / "hud.toml").write_text(f"""{CONFIG}
            [receivers.post]
            kind = "email"
            url = "smtp+plain://localhost:{box.port}"
            sender = "hud@example.org"
            to = ["a@example.org", "b@example.org"]
            allow_private = true
        """)
        result = terminal.hud("alerts", "test")
    assert result.stdout == words
    assert result.exit_code == 0
    assert b"Test: the receiver post gets" in box.letters[0][1]


def settings(more: str = "") -> ReceiverSettings:
    section = f"""
        [receivers.post]
        kind = "email"
        url = "smtp://mail.example.org"
        sender = "hud@example.org"
        to = ["a@example.org", "b@example.org"]
        {more}
    """
    return parse_config(section, path=Path("/project/hud.toml"), env={}).receivers["post"]


def test_hud_toml_makes_one_and_its_password_is_never_shown() -> None:
    receiver = make_receiver(
        settings('user = "hud"\npassword = "env:PASSWORD"'), env={"PASSWORD": "hunter2"}
    )
    assert isinstance(receiver, Mail)
    assert (receiver.server.user, receiver.server.password, tuple(receiver.to)) == (
        "hud",
        "hunter2",
        TO,
    )
    assert "hunter2" not in repr(receiver)

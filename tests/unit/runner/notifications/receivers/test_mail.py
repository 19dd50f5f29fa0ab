"""Mail as people get it: golden, hostile, in threads."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from email.message import EmailMessage

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.notifications.dispatcher import Message
from compile_hud.runner.notifications.receivers.mail import make_email
from tests.support.builders import START, make_case
from tests.unit.runner.notifications.receivers.test_chat import HOSTILE, item, message

HEADERS = "\r\nBcc: all@evil.example\r\n\r\nbody"
PNG = b"\x89PNG\r\n\x1a\n"
RIGHT_TO_LEFT = "\u202egnp.exe"


def letter(content: Message, *, to: tuple[str, ...] = ("team@example.org",)) -> EmailMessage:
    """Return what a program of mail makes of what is sent."""
    sent = make_email(content, sender="hud@example.org", to=to).as_bytes()
    assert sent.isascii()
    parsed = email.message_from_bytes(sent, policy=email.policy.default)
    assert isinstance(parsed, EmailMessage)
    return parsed


def text_of(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


def test_golden_message_of_mail(words: SnapshotAssertion) -> None:
    mail = letter(message(item()), to=("a@example.org", "b@example.org"))
    thread = mail["References"]
    assert {name: str(value) for name, value in mail.items()} == {
        "From": "hud@example.org",
        "To": "a@example.org, b@example.org",
        "Subject": words(name="subject"),
        "Date": "Thu, 01 Jan 2026 02:30:00 +0000",
        "Message-ID": "<msg_1@example.org>",
        "In-Reply-To": thread,
        "References": thread,
        "Auto-Submitted": "auto-generated",
        "MIME-Version": "1.0",
        "Content-Type": mail["Content-Type"],
    }
    assert text_of(mail, "plain") == words
    assert text_of(mail, "html") == words


def test_what_can_be_done_is_linked() -> None:
    linked_item = replace(item(), actions={"acknowledge": "https://hud/a?t=1&u=2"})
    mail = letter(message(linked_item))
    assert '<a href="https://hud/a?t=1&amp;u=2">Acknowledge</a>' in text_of(mail, "html")
    assert "Acknowledge: https://hud/a?t=1&u=2" in text_of(mail, "plain")


def test_trends_are_shown_in_the_mail_itself() -> None:
    requests: list[list[str]] = []

    def draw(ids: Sequence[str]) -> Mapping[str, bytes]:
        requests.append(list(ids))
        return {ids[0]: PNG}

    content = replace(message(item("a")), draw=draw)
    mail = letter(content)
    (picture,) = [part for part in mail.walk() if part.get_content_type() == "image/png"]
    assert picture.get_content() == PNG
    assert picture["Content-ID"] == "<trend-1.msg_1>"
    assert text_of(mail, "html").count('<img src="cid:trend-1.msg_1" alt="Trend" width="620">') == 1
    assert requests == [[alert["id"] for one in content.items for alert in one.alerts]]
    assert picture["Content-Disposition"].startswith("inline")


def test_an_address_of_another_kind_is_no_link() -> None:
    linked_item = replace(item(), actions={"run": "javascript:alert(1)"})
    assert "javascript" not in text_of(letter(message(linked_item)), "html")


@pytest.mark.parametrize("name", [HOSTILE, HEADERS, RIGHT_TO_LEFT, "x" * 10_000, "\udcff\x00"])
def test_names_neither_add_headers_nor_markup(name: str) -> None:
    plain, hostile = (
        letter(message(item())),
        letter(message(item(title=name, case=make_case(name)))),
    )
    assert list(hostile.keys()) == list(plain.keys())
    assert len(hostile["Subject"]) < 300
    shown = text_of(hostile, "html")
    assert set(re.findall(r"<(/?\w+)", shown)) == set(
        re.findall(r"<(/?\w+)", text_of(plain, "html"))
    )
    assert "\u202e" not in shown + text_of(hostile, "plain") + hostile["Subject"]


def test_mails_about_one_event_are_one_thread_and_those_of_a_digest_are_none() -> None:
    about = item(name="a").notification.subject
    later = item(name="b")
    later = replace(later, notification=replace(later.notification, subject=about))
    first, second = letter(message(item(name="a"))), letter(message(later))
    assert first["References"] == second["References"] != letter(message(item("c")))["References"]
    digest = letter(message(item(name="a"), item(name="c")))
    assert digest["References"] is None
    assert digest["Subject"] == "Compile HUD: 2 new"


def test_what_is_left_out_is_counted(words: SnapshotAssertion) -> None:
    mail = letter(message(*(item(str(number)) for number in range(25))))
    for kind in ("plain", "html"):
        rest = text_of(mail, kind).rsplit("Open", 1)[1]
        assert re.findall(r"\b\d+ more\b", rest) == ["15 more"]
        assert rest == words


def test_a_mail_that_is_sent_again_has_the_same_id() -> None:
    later = replace(message(item()), at=START.replace(year=2027))
    assert letter(later)["Message-ID"] == letter(message(item()))["Message-ID"]

"""The receiver of mail: a message as plain text and as HTML, in one thread for each alert.

The `Message-ID` is derived from the delivery's idempotency key. A message that is sent twice has
one id, by which servers and mail programs recognise it.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from compile_hud.db.records.notifications import stable_id
from compile_hud.runner.notifications.delivery_policy import NUM_SAME_RETRIES, Response
from compile_hud.runner.notifications.dispatcher import Message
from compile_hud.runner.notifications.http_client import HTTP, TargetRefused, check_url
from compile_hud.runner.notifications.message_text import RenderedMessage, Section, render_message
from compile_hud.runner.notifications.receivers.smtp import Email, MailServer

# Lines of mail are 7-bit, since some servers accept nothing else.
_POLICY = SMTP.clone(cte_type="7bit")
# The unit is CSS pixels: pictures have twice the resolution for fine displays.
_PICTURE_WIDTH = 620
_STYLE = "font-family: sans-serif; font-size: 14px; line-height: 1.4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """Sends messages from `sender` to all of `to` through `server`."""

    server: MailServer
    sender: str
    to: Sequence[str]

    def send(self, message: Message) -> Response:
        """Send `message` once and return the response."""
        num_attempts = max(item.notification.num_attempts for item in message.items)
        content = make_email(message, sender=self.sender, to=self.to).as_bytes(policy=_POLICY)
        email = Email(sender=self.sender, to=tuple(self.to), content=content)
        return self.server.send(email, waits_for_all=num_attempts < NUM_SAME_RETRIES)


def make_email(message: Message, *, sender: str, to: Sequence[str]) -> EmailMessage:
    """Return `message` as mail with its pictures; user-defined names are plain text."""
    words = render_message(message)
    pictures = message.draw([item.alert_id for item in words.sections if item.alert_id])
    ids = {id: f"trend-{number}.{message.id}" for number, id in enumerate(pictures, 1)}
    host = sender.rpartition("@")[2]
    email = EmailMessage(policy=_POLICY)
    email["From"] = sender
    email["To"] = ", ".join(to)
    email["Subject"] = words.heading
    email["Date"] = format_datetime(message.at)
    email["Message-ID"] = f"<{message.id}@{host}>"
    subjects = {item.notification.subject for item in message.items}
    if len(subjects) == 1:
        # No mail has this id; mails that refer to it appear as one thread.
        thread = f"<{stable_id('thread', *subjects)}@{host}>"
        email["In-Reply-To"] = thread
        email["References"] = thread
    # https://www.rfc-editor.org/rfc/rfc3834: the header prevents automatic replies.
    email["Auto-Submitted"] = "auto-generated"
    email.set_content(_plain(words))
    email.add_alternative(_html(words, ids), subtype="html")
    shown = email.get_body(("html",))
    assert isinstance(shown, EmailMessage)
    for id, png in pictures.items():
        # https://www.rfc-editor.org/rfc/rfc2392: the HTML refers to the attached part.
        shown.add_related(png, "image", "png", cid=f"<{ids[id]}>", disposition="inline")
    return email


def _plain(words: RenderedMessage) -> str:
    parts = [
        "\n".join((paragraph.title, *(f"  {line}" for line in _section_lines(paragraph))))
        for paragraph in words.sections
    ]
    return "\n\n".join((*parts, *_rest(words))) + "\n"


def _section_lines(paragraph: Section) -> list[str]:
    links = {"Open": paragraph.url, **paragraph.actions}
    return [*paragraph.lines, *(f"{name}: {url}" for name, url in links.items() if url)]


def _rest(words: RenderedMessage) -> list[str]:
    rest = words.overflow_line(len(words.sections))
    return [rest] if rest else []


def _html(words: RenderedMessage, picture_ids: Mapping[str, str]) -> str:
    parts = [
        _html_section(paragraph, picture_id=picture_ids.get(paragraph.alert_id, ""))
        for paragraph in words.sections
    ]
    rest = [f"<p>{html.escape(text)}</p>" for text in _rest(words)]
    body = "\n".join((*parts, *rest))
    return f'<!DOCTYPE html>\n<html><body style="{_STYLE}">\n{body}\n</body></html>\n'


def _html_section(paragraph: Section, *, picture_id: str) -> str:
    lines = "<br>\n".join(html.escape(line) for line in paragraph.lines)
    links = {"Open": paragraph.url, **paragraph.actions}
    shown = " | ".join(_link(name, url) for name, url in links.items() if _is_web(url))
    parts = [f"<h3>{html.escape(paragraph.title)}</h3>"]
    parts += [f"<p>{lines}</p>"] if lines else []
    parts += (
        [f'<p><img src="cid:{picture_id}" alt="Trend" width="{_PICTURE_WIDTH}"></p>']
        if picture_id
        else []
    )
    parts += [f"<p>{shown}</p>"] if shown else []
    return "\n".join(parts)


def _link(name: str, url: str) -> str:
    return f'<a href="{html.escape(url)}">{html.escape(name)}</a>'


def _is_web(url: str) -> bool:
    try:
        check_url(url, schemes=HTTP)
    except TargetRefused:
        return False
    return True

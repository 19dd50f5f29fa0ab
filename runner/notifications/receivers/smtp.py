"""Send mail to a server, with the address rules and deadlines of webhooks.

A 4xx refusal is temporary and a 5xx one permanent (https://www.rfc-editor.org/rfc/rfc5321, 4.2.1).
Before the recipients, however, a refusal concerns this machine, the user or the sender. It can be
corrected, so the mail waits.

No recipient gets a mail twice because another one was refused. While one recipient is temporarily
refused, the mail waits for a few attempts. Then it goes to the accepted recipients, and the
response names the others.
"""

from __future__ import annotations

import smtplib
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult

from compile_hud.db.shared.text import one_line, shortened
from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.http_client import (
    MAIL,
    HttpRules,
    TargetRefused,
    TimedSocket,
    check_url,
    connect,
)

_SHOWN_LENGTH = 200
_READY, _OK, _WILL_FORWARD, _CLOSING = 220, 250, 251, 421
_PLAIN = "smtp+plain"
_Reply = tuple[int, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """A mail with its content and the addresses of its envelope."""

    sender: str
    to: Sequence[str]
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The server at `url`; `user` and `password` are sent only under TLS, and not shown."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    rules: HttpRules = field(default_factory=HttpRules)

    def send(self, email: Email, *, waits_for_all: bool) -> Response:
        """Send `email` once; with `waits_for_all` only if no recipient is temporarily refused."""
        deadline = self.rules.monotonic() + self.rules.total_s
        try:
            parts = check_url(self.url, schemes=MAIL)
            connection = connect(parts, rules=self.rules, deadline=deadline)
        except (OSError, ValueError, TargetRefused) as error:
            return _down(error)
        has_begun = False
        try:
            client = self._client(connection, parts)
            _expect(client.mail(email.sender), _OK)
            has_begun = True
            return _hand_over(client, email, waits_for_all=waits_for_all)
        except smtplib.SMTPResponseException as refused:
            return _answer(refused, is_of_message=has_begun)
        except (OSError, ValueError) as error:
            return _down(error)
        finally:
            connection.end()

    def _client(self, connection: TimedSocket, parts: SplitResult) -> smtplib.SMTP:
        host = socket.gethostname()
        # Asking for the full name of this machine may take minutes; without one its address is
        # given: https://www.rfc-editor.org/rfc/rfc5321, 4.1.4.
        client = smtplib.SMTP(local_hostname=host if "." in host else "[127.0.0.1]")
        # The library gets our socket, which has the deadline and connects to the checked address.
        client.sock = connection  # type: ignore[assignment]
        _expect(client.getreply(), _READY)
        client.ehlo_or_helo_if_needed()
        if parts.scheme == "smtp":
            self._secure(client, connection, host=parts.hostname or "")
        if self.user and parts.scheme == _PLAIN:
            raise ValueError(f"no password is sent over {_PLAIN}://; take smtp:// or smtps://")
        if self.user:
            client.login(self.user, self.password)
        return client

    def _secure(self, client: smtplib.SMTP, connection: TimedSocket, *, host: str) -> None:
        if not client.has_extn("starttls"):
            raise ValueError(
                f"{host} offers no STARTTLS; take smtps://, or {_PLAIN}:// without TLS"
            )
        _expect(client.docmd("STARTTLS"), _READY)
        connection.secure(self.rules.context(), host=host)
        # Data from before the handshake is discarded: an attacker may have injected it.
        client.file = None
        client.ehlo_resp = client.helo_resp = None
        client.esmtp_features = {}
        client.does_esmtp = False
        client.ehlo_or_helo_if_needed()


def _hand_over(client: smtplib.SMTP, email: Email, *, waits_for_all: bool) -> Response:
    replies = {address: client.rcpt(address) for address in email.to}
    refused = {
        address: reply for address, reply in replies.items() if reply[0] not in (_OK, _WILL_FORWARD)
    }
    passes = any(code < 500 for code, _ in refused.values())
    named = ", ".join(f"{address}: {_reply_text(reply)}" for address, reply in refused.items())
    if len(refused) == len(email.to) or (passes and waits_for_all):
        return Response(kind=ResponseKind.FAILED if passes else ResponseKind.REFUSED, text=named)
    try:
        reply = client.data(email.content)
    except smtplib.SMTPResponseException:
        raise
    except OSError as error:
        # The server may or may not have accepted the mail.
        return Response(kind=ResponseKind.FAILED, text=_error_text(error), is_certain=False)
    _expect(reply, _OK)
    return Response(kind=ResponseKind.SENT, text=f"did not reach {named}" if named else "")


def _expect(reply: _Reply, code: int) -> None:
    if reply[0] != code:
        raise smtplib.SMTPResponseException(*reply)


def _answer(refused: smtplib.SMTPResponseException, *, is_of_message: bool) -> Response:
    """Return the response for a refusal; one of the machine, user or sender can be corrected."""
    code, text = refused.smtp_code, refused.smtp_error
    reply = (code, text if isinstance(text, bytes) else text.encode())
    return Response(
        kind=ResponseKind.REFUSED if code >= 500 and is_of_message else ResponseKind.FAILED,
        text=_reply_text(reply),
        is_down=not is_of_message or code == _CLOSING,
    )


def _down(error: Exception) -> Response:
    return Response(kind=ResponseKind.FAILED, text=_error_text(error), is_down=True)


def _reply_text(reply: _Reply) -> str:
    code, text = reply
    return f"{code} {_short(text.decode('utf-8', 'replace'))}".strip()


def _error_text(error: Exception) -> str:
    return _short(str(error)) or type(error).__name__


def _short(text: str) -> str:
    return shortened(one_line(text), limit=_SHOWN_LENGTH)

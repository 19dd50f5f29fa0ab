"""A real mail server on this machine whose answers a test sets."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

# After this line of an answer the connection ends silently.
HANG_UP = ""


@dataclass(slots=True, kw_only=True)
class MailBox:
    """Lines that the server received, and the messages it took: recipients and content."""

    port: int = 0
    lines: list[str] = field(default_factory=list)
    letters: list[tuple[list[str], bytes]] = field(default_factory=list)


class _Session(socketserver.StreamRequestHandler):
    box: MailBox
    answers: Mapping[str, str]
    offers: tuple[str, ...]
    context: ssl.SSLContext | None
    speaks_tls: bool

    def handle(self) -> None:
        with suppress(OSError):
            if self.speaks_tls:
                self._secure()
            self._say(self.answers.get("GREETING", "220 here"))
            self._talk()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.connection.close()

    def _talk(self) -> None:
        recipients: list[str] = []
        while line := self.rfile.readline().decode("utf-8", "replace").rstrip("\r\n"):
            verb = line.split(maxsplit=1)[0].upper()
            line = verb + line[len(verb) :]
            self.box.lines.append(line)
            answer = self.answers.get(line, self.answers.get(verb))
            if answer == HANG_UP:
                return
            if verb == "EHLO" and answer is None:
                lines = ("here", *self.offers)
                for number, text in enumerate(lines, start=1):
                    self._say(f"250{' ' if number == len(lines) else '-'}{text}")
            elif verb == "STARTTLS" and answer is None:
                self._say("220 go on")
                self._secure()
            elif verb == "DATA" and answer is None:
                self._say("354 go on")
                if not self._take(recipients):
                    return
            else:
                reply = answer or {"AUTH": "235 fine"}.get(verb, "250 fine")
                if verb == "RCPT" and reply.startswith("2"):
                    recipients.append(line.partition("<")[2].rstrip(">"))
                self._say(reply)

    def _take(self, recipients: list[str]) -> bool:
        content = b""
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            content += line.removeprefix(b".") if line.startswith(b"..") else line
        reply = self.answers.get("END", "250 taken")
        if reply == HANG_UP or reply.startswith("2"):
            self.box.letters.append((list(recipients), content))
        if reply == HANG_UP:
            return False
        self._say(reply)
        return True

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())

    def _secure(self) -> None:
        assert self.context is not None
        self.connection = self.context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", 0)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


@contextmanager
def mail_server(
    answers: Mapping[str, str] | None = None,
    *,
    offers: tuple[str, ...] = (),
    context: ssl.SSLContext | None = None,
    speaks_tls: bool = False,
) -> Iterator[MailBox]:
    """Yield the box of a server; `answers` are by verb, by whole line, GREETING and END (of data).

    `context` is for STARTTLS, or for the whole connection if it `speaks_tls` at once.
    """
    box = MailBox()
    own = {
        "box": box,
        "answers": answers or {},
        "offers": offers,
        "context": context,
        "speaks_tls": speaks_tls,
    }
    server = _Server(("127.0.0.1", 0), type("Own", (_Session,), own))
    box.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield box
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

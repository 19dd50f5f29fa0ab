"""Real HTTP servers that take notifications, or misbehave as bad ones do."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request: its headers by their names in small letters, and its body."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True, kw_only=True)
class Inbox:
    """Requests of a server, in order, and its address."""

    url: str = ""
    requests: list[Received] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    """One request; behaviours call its methods."""

    protocol_version = "HTTP/1.1"
    inbox: Inbox
    behave: Callable[[Handler, int], None]
    lock: threading.Lock

    def do_POST(self) -> None:
        """Record the request and behave."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.lock:
            self.inbox.requests.append(Received(path=self.path, headers=headers, body=body))
            number = len(self.inbox.requests) - 1
        type(self).behave(self, number)

    def answer(self, status: int, **headers: str) -> None:
        """Answer with `status`; underscores in names of headers are dashes."""
        self.close_connection = True
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def drip(self, *, every_s: float, num: int = 10_000) -> None:
        """Answer a byte at a time, for ever."""
        for _ in range(num):
            try:
                self.connection.sendall(b"H" if _ == 0 else b"T")
            except OSError:
                break
            time.sleep(every_s)
        self.close_connection = True

    def hang(self, *, s: float) -> None:
        """Wait for so long without an answer."""
        self.connection.settimeout(s)
        with suppress(OSError):
            self.connection.recv(1)
        self.close_connection = True

    def reset(self) -> None:
        """Cut the connection as a crash does."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
        self.close_connection = True

    def handle(self) -> None:
        """Suppress the traceback of an error of the client."""
        with suppress(OSError):
            super().handle()

    def finish(self) -> None:
        """Suppress the traceback of an error of the client."""
        with suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def shutdown_request(self, request: object) -> None:
        with suppress(OSError):
            super().shutdown_request(request)  # type: ignore[arg-type]


@contextmanager
def receiving(
    behave: Callable[[Handler, int], None] = lambda handler, _: handler.answer(204),
    *,
    context: ssl.SSLContext | None = None,
    port: int = 0,
) -> Iterator[Inbox]:
    """Yield the inbox of a server on this machine; `behave` is given each request's number.

    With `context` it uses TLS. `port` 0 takes a free one.
    """
    inbox = Inbox()
    kind = type("Own", (Handler,), {"inbox": inbox, "behave": behave, "lock": threading.Lock()})
    server = _Server(("127.0.0.1", port), kind)
    if context is not None:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    inbox.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield inbox
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""A proxy that disrupts connections to a server: it cuts, delays or refuses them."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_CHUNK = 65536
# Longer than any client waits; it ends a thread that has no further use.
_PATIENCE_S = 30.0
_LINGER = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """The disruption of a line: its share of broken connections, and its errors.

    `errors` are answers that it gives instead of the server, to a client that speaks first unless
    `greets`. An answer is cut after at most `cut_within` bytes.
    """

    share: float
    errors: tuple[bytes, ...]
    cut_within: int
    greets: bool = False


@dataclass(slots=True, kw_only=True)
class Line:
    """A line to `port`, and the outcome of its connections.

    `uncertain` has the messages of clients that could not know whether the server took them.
    """

    port: int
    disruption: Disruption
    chance: random.Random
    answers: Counter[str] = field(default_factory=Counter)
    uncertain: list[bytes] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, client: socket.socket) -> None:
        """Let one connection through, or break it."""
        kinds = ("reset", "silent", "error", "cut", "drip")
        with self.lock:
            is_bad = self.chance.random() < self.disruption.share
            name = self.chance.choice(kinds) if is_bad else "whole"
            within = self.chance.randint(0, self.disruption.cut_within)
            error = self.chance.choice(self.disruption.errors)
            self.answers[name] += 1
        with suppress(OSError), client:
            client.settimeout(_PATIENCE_S)
            if name == "reset":
                _reset(client)
            elif name == "silent":
                while client.recv(_CHUNK):
                    pass
            elif name == "error":
                self._refuse(client, error)
            else:
                self._pass_on(client, name=name, within=within)

    def _refuse(self, client: socket.socket, error: bytes) -> None:
        if not self.disruption.greets:
            client.recv(_CHUNK)
        client.sendall(error)
        client.shutdown(socket.SHUT_WR)
        while client.recv(_CHUNK):
            pass

    def _pass_on(self, client: socket.socket, *, name: str, within: int) -> None:
        """Forward both directions; record the message if the client may not have got the answer."""
        replies: list[bytes] = []
        is_sure = False
        try:
            with socket.create_connection(("127.0.0.1", self.port), _PATIENCE_S) as server:
                is_gone = _forwarding(client, server, chunks=replies)
                num_passed = 0
                while answer := server.recv(_CHUNK):
                    if name == "cut" and num_passed + len(answer) > within:
                        client.sendall(answer[: within - num_passed])
                        _reset(client)
                        break
                    _send(client, answer, is_slow=name == "drip")
                    num_passed += len(answer)
                    # A client that left before the answer did not get it.
                    is_sure = name == "whole" and not is_gone.is_set()
        finally:
            if not is_sure:
                with self.lock:
                    self.uncertain.append(b"".join(replies))


def _forwarding(
    client: socket.socket, server: socket.socket, *, chunks: list[bytes]
) -> threading.Event:
    """Forward the data of `client` and record it; the event is set when the client has left."""
    is_gone = threading.Event()

    def forward() -> None:
        with suppress(OSError):
            while chunk := client.recv(_CHUNK):
                chunks.append(chunk)
                server.sendall(chunk)
        is_gone.set()
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    threading.Thread(target=forward, daemon=True).start()
    return is_gone


def _send(client: socket.socket, answer: bytes, *, is_slow: bool) -> None:
    if not is_slow:
        client.sendall(answer)
        return
    for byte in answer:
        client.sendall(bytes([byte]))
        time.sleep(0.05)


def _reset(client: socket.socket) -> None:
    """Cut the connection as a crash does."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    # The thread that reads from it keeps it open otherwise.
    with suppress(OSError):
        client.shutdown(socket.SHUT_RD)
    client.close()


@contextmanager
def breaking(port: int, *, disruption: Disruption, seed: str) -> Iterator[tuple[int, Line]]:
    """Yield the port of a line to `port` of this machine, and the line."""
    line = Line(port=port, disruption=disruption, chance=random.Random(seed))
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        threading.Thread(target=_accept, args=(listening, line), daemon=True).start()
        try:
            yield listening.getsockname()[1], line
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, line: Line) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=line.serve, args=(client,), daemon=True).start()

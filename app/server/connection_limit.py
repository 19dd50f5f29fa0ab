"""A limit on the open connections, below that on open files.

A process without a free file can open neither the store nor its lock. A peer needs no rights to
open connections, so the server closes those beyond the limit as soon as they are accepted.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from typing import Any, Final, cast

import uvicorn

# Enough for some hundred open pages: each has a connection for its session and a few for files.
MAX_CONNECTIONS: Final = 2_000
# A message of a session: the state of the widgets of a page.
MAX_MESSAGE_BYTES: Final = 1 << 20
# The usual soft limit of 1,024 dates from a function that no program here uses.
_MAX_FILES: Final = 8_192
# A part of the files is for the store, its locks, modules, pictures and look-ups.
_SHARE: Final = 0.7

Protocol = Callable[..., asyncio.BaseProtocol]


class _Refusal(asyncio.Protocol):
    """Closes its connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()


def limited(protocol: Protocol, *, most: int) -> Protocol:
    """Return `protocol`, a factory of uvicorn, that refuses connections beyond `most`."""

    def make(**arguments: Any) -> asyncio.BaseProtocol:
        if len(arguments["server_state"].connections) >= most:
            return _Refusal()
        return protocol(**arguments)

    return make


def connection_limit(max_files: int) -> int:
    """Return the number of connections of a process that may open `max_files` files."""
    return min(MAX_CONNECTIONS, int(_SHARE * max_files))


def raise_file_limit() -> int:
    """Raise the limit on open files as far as allowed and needed; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _MAX_FILES if hard == resource.RLIM_INFINITY else min(_MAX_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return _MAX_FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return target


class LimitedConfig(uvicorn.Config):
    """The configuration of a server with at most as many connections as its files allow."""

    def load(self) -> None:
        """Load the application and the protocols."""
        super().load()
        most = connection_limit(raise_file_limit())
        factory = limited(self.http_protocol_class, most=most)
        # uvicorn calls it and needs no class.
        self.http_protocol_class = cast("type[asyncio.Protocol]", factory)

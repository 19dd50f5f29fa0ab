from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from compile_hud.app.server.connection_limit import (
    MAX_CONNECTIONS,
    LimitedConfig,
    connection_limit,
    limited,
)


class Transport:
    """A connection that notes its abort."""

    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def protocol_for(num_connections: int, *, most: int) -> Any:
    """Return the protocol of a new connection besides `num_connections` others."""
    state = SimpleNamespace(connections=set(range(num_connections)))
    return limited(lambda **_arguments: asyncio.Protocol(), most=most)(server_state=state)


def test_a_connection_below_the_limit_is_served() -> None:
    assert type(protocol_for(6, most=7)) is asyncio.Protocol


@pytest.mark.parametrize("num_connections", [7, 8])
def test_a_connection_beyond_the_limit_is_closed_at_once(num_connections: int) -> None:
    protocol = protocol_for(num_connections, most=7)
    transport = Transport()
    protocol.connection_made(transport)
    assert transport.is_aborted


@pytest.mark.parametrize("max_files", [64, 256, 1024, 100_000])
def test_connections_leave_files_for_the_store(max_files: int) -> None:
    limit = connection_limit(max_files)
    assert 0 < limit <= MAX_CONNECTIONS
    assert max_files - limit >= 0.3 * max_files - 1


def test_the_server_has_the_limit() -> None:
    config = LimitedConfig("compile_hud.app.clock:now")
    config.load()
    state = SimpleNamespace(connections=set(range(MAX_CONNECTIONS)))
    protocol: Any = config.http_protocol_class(server_state=state)  # type: ignore[call-arg]
    transport = Transport()
    protocol.connection_made(transport)
    assert transport.is_aborted

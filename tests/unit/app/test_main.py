"""The start of the dashboard."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from syrupy.assertion import SnapshotAssertion

from compile_hud.app import __main__ as command
from compile_hud.app.data.store import URL_VARIABLE


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what the server was started with."""
    arguments: dict[str, Any] = {}

    def run(server: uvicorn.Server) -> None:
        arguments.update(name=server.config.app, host=server.config.host, port=server.config.port)
        server.started = True

    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.setenv(URL_VARIABLE, "duckdb:///before.duckdb")
    return arguments


def test_the_default_host_is_loopback(served: dict[str, Any]) -> None:
    command.main([])
    assert (served["name"], served["host"], served["port"]) == (
        "compile_hud.app.asgi:app",
        "127.0.0.1",
        8501,
    )


def test_address_and_store_can_be_given(served: dict[str, Any]) -> None:
    command.main(["--host", "127.0.0.2", "--port", "99", "--store", "duckdb:///other.duckdb"])
    assert (served["host"], served["port"]) == ("127.0.0.2", 99)
    assert command.os.environ[URL_VARIABLE] == "duckdb:///other.duckdb"


def test_the_store_of_the_environment_variable_is_used(served: dict[str, Any]) -> None:
    command.main([])
    assert served
    assert command.os.environ[URL_VARIABLE] == "duckdb:///before.duckdb"


@pytest.mark.usefixtures("served")
def test_a_server_that_cannot_listen_ends_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn.Server, "run", lambda _server: None)
    with pytest.raises(SystemExit) as ended:
        command.main([])
    assert ended.value.code == 3


@pytest.mark.parametrize("starts", [True, False])
def test_it_says_when_it_answers(
    starts: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: SnapshotAssertion,
) -> None:
    async def startup(server: uvicorn.Server, _sockets: object) -> None:
        server.started = starts

    monkeypatch.setattr(uvicorn.Server, "startup", startup)
    asyncio.run(command.Server(uvicorn.Config("compile_hud.app.asgi:app")).startup())
    assert capsys.readouterr().out == words

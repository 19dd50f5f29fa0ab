"""How the dashboard is started."""

from __future__ import annotations

from typing import Any

import pytest
import uvicorn

from app import __main__ as command
from app.data import URL_VARIABLE


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what the server was started with."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(uvicorn, "run", lambda name, **options: given.update(options, name=name))
    monkeypatch.setenv(URL_VARIABLE, "duckdb:///before.duckdb")
    return given


def test_it_listens_on_this_machine_alone_unless_told(served: dict[str, Any]) -> None:
    command.main([])
    assert (served["name"], served["host"], served["port"]) == ("app.asgi:app", "127.0.0.1", 8501)


def test_address_and_store_can_be_given(served: dict[str, Any]) -> None:
    command.main(["--host", "0.0.0.0", "--port", "99", "--store", "duckdb:///other.duckdb"])
    assert (served["host"], served["port"]) == ("0.0.0.0", 99)
    assert command.os.environ[URL_VARIABLE] == "duckdb:///other.duckdb"


def test_the_store_of_the_environment_is_kept(served: dict[str, Any]) -> None:
    command.main([])
    assert served
    assert command.os.environ[URL_VARIABLE] == "duckdb:///before.duckdb"

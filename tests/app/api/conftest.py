"""A store with one of each object that the API sends, under the names of its examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from compile_hud.app.auth.access import API_TOKEN_FILE_VARIABLE, API_TOKEN_VARIABLE
from compile_hud.app.auth.middleware import Guard
from compile_hud.app.server.api.routes import api_routes
from compile_hud.db.store import Store
from tests.support.stores.api_stores import add_release, fill_for_api


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(API_TOKEN_FILE_VARIABLE, raising=False)


@pytest.fixture
def stored(store: Store) -> Store:
    """Return the store with two runs, kernels, findings and an alert."""
    fill_for_api(store)
    return store


@pytest.fixture
def released(stored: Store) -> Store:
    """Return the store with a release, too."""
    add_release(stored)
    return stored


@pytest.fixture
def client(store_path: Path) -> Iterator[TestClient]:
    """Return a client of the API, at an address that its server knows."""
    assert store_path
    with TestClient(Starlette(routes=api_routes()), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def guarded(store_path: Path) -> Iterator[TestClient]:
    """Return a client of the API behind the outermost middleware."""
    assert store_path
    routes = api_routes()
    guard = Guard(Starlette(routes=routes), paths=[route.path for route in routes])
    with TestClient(guard, base_url="http://127.0.0.1") as client:
        yield client

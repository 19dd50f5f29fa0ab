"""Stores in files, made once, and pages run without a browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.data.cache import read_cache
from compile_hud.app.data.store import URL_VARIABLE
from compile_hud.db.shared.access_rules import AccessRules, Role
from compile_hud.db.store import Store
from tests.support.pages.page_elements import too_long_texts
from tests.support.stores import dashboard_stores

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

OpenPage = Callable[..., "AppTest"]
SignIn = Callable[..., None]


def _page(path: str) -> None:
    # Runs as a script of its own, so it imports what it needs.
    from compile_hud.app.main import VIEWS, draw_framed

    draw_framed(next(view.show for view in VIEWS if view.path == path))


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a history and alerts; copy it before writing."""
    path = tmp_path_factory.mktemp("filled") / "hud.duckdb"
    dashboard_stores.fill(Store(f"duckdb:///{path}"))
    return path


@pytest.fixture
def store_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the dashboard of this test looks for its store; nothing is there yet."""
    path = tmp_path / "hud.duckdb"
    monkeypatch.setenv(URL_VARIABLE, f"duckdb:///{path}")
    monkeypatch.setattr(clock, "now", lambda: dashboard_stores.NOW)
    monkeypatch.setattr("compile_hud.app.data.store.LOCK_TIMEOUT_S", 0.0)
    return path


@pytest.fixture
def store(store_path: Path) -> Store:
    """Return the store of this test, empty."""
    return Store(f"duckdb:///{store_path}")


@pytest.fixture
def seeded(store_path: Path, filled: Path) -> Path:
    """Return the store of this test with a history in it."""
    shutil.copy(filled, store_path)
    return store_path


@pytest.fixture
def locked(seeded: Path) -> Iterator[str]:
    """Lock the store of this test from another process and return that one's id."""
    connection = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print(flush=True)"
    code = f"{connection}; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(seeded)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield str(holder.pid)
        holder.communicate()


@pytest.fixture
def anybody_triages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever opens a page decide, under any name."""
    rules = AccessRules(anonymous=Role.TRIAGER)
    monkeypatch.setattr(access, "rules", lambda: rules)


@pytest.fixture
def sign_in(monkeypatch: pytest.MonkeyPatch) -> SignIn:
    """Return a function that signs somebody in by the first part of an address; "" is nobody.

    ada is an admin, tom a triager, and whoever else signs in may look.
    """
    rules = AccessRules(
        issuer="https://login.example.org",
        client_id="hud",
        triagers=("tom@example.org",),
        admins=("ada@example.org",),
        anonymous=None,
    )
    monkeypatch.setattr(access, "rules", lambda: rules)

    def become(name: str, **changes: object) -> None:
        user_claims = {
            "iss": rules.issuer,
            "aud": rules.client_id,
            "sub": name,
            "iat": dashboard_stores.NOW.timestamp() - 60,
            "email": f"{name}@example.org",
            "email_verified": True,
        }
        monkeypatch.setattr(access, "claims", lambda: {**user_claims, **changes} if name else {})

    become("")
    return become


@pytest.fixture
def open_page(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenPage]:  # noqa: ARG001
    """Return a function that runs a page by its path with URL parameters."""

    import streamlit as st
    from streamlit.testing.v1 import AppTest

    def run(path: str, **params: str) -> AppTest:
        page = AppTest.from_function(_page, kwargs={"path": path}, default_timeout=30)
        for name, value in params.items():
            page.query_params[name] = value
        page.run()
        assert too_long_texts(page) == []
        return page

    # Each run looks for components in all installed packages, which takes longer than the page.
    scanner = "streamlit.components.v2.manifest_scanner.scan_component_manifests"
    monkeypatch.setattr(scanner, lambda *_args: [])
    yield run
    st.cache_data.clear()
    read_cache().clear()

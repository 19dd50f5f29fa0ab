"""The URL of the store that the dashboard shows."""

from __future__ import annotations

import pytest

from compile_hud.app.data.store import store_url


def test_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUD_DATABASE_URL", raising=False)
    assert store_url() == "duckdb:///.hud/store.duckdb"
    monkeypatch.setenv("HUD_DATABASE_URL", "duckdb:///elsewhere.duckdb")
    assert store_url() == "duckdb:///elsewhere.duckdb"

"""What the dashboard reads, and from which store."""

from __future__ import annotations

import pytest

from compile_hud.app.data import store as data
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.store import store_url
from compile_hud.db.errors import StoreLocked


def test_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUD_DATABASE_URL", raising=False)
    assert store_url() == "duckdb:///.hud/store.duckdb"
    monkeypatch.setenv("HUD_DATABASE_URL", "duckdb:///elsewhere.duckdb")
    assert store_url() == "duckdb:///elsewhere.duckdb"


def test_while_the_store_is_locked_what_was_read_last_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(url: str, generation: int, name: str) -> str:
        if generation > 7:
            raise StoreLocked("held by process 4711")
        return f"{name} of {url}"

    monkeypatch.setenv(data.URL_VARIABLE, "duckdb:///of_this_test_alone.duckdb")
    monkeypatch.setattr(data, "generation", lambda: 7)
    assert data.loaded(read, "a").stale_reason == ""
    monkeypatch.setattr(data, "generation", lambda: 8)
    assert data.loaded(read, "a") == Loaded(
        value="a of duckdb:///of_this_test_alone.duckdb",
        generation=7,
        stale_reason="held by process 4711",
    )
    with pytest.raises(StoreLocked):
        data.loaded(read, "never read")

"""What the dashboard reads, and from which store."""

from __future__ import annotations

import pytest

from app import data
from app.data import store_url
from db.errors import StoreLocked


def test_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUD_DATABASE_URL", raising=False)
    assert store_url() == "duckdb:///.hud/store.duckdb"
    monkeypatch.setenv("HUD_DATABASE_URL", "duckdb:///elsewhere.duckdb")
    assert store_url() == "duckdb:///elsewhere.duckdb"


def test_the_pages_kept_for_a_locked_store_are_the_last_32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(data.URL_VARIABLE, "duckdb:///of_this_test_alone.duckdb")
    monkeypatch.setattr(data, "generation", lambda: 7)
    monkeypatch.setattr(data, "cached", lambda _read: lambda *_: ())
    for number in range(32):
        data.load_result_samples(f"result-{number}", metric="latency_s")
    data.load_result_samples("result-0", metric="latency_s")
    data.load_result_samples("another", metric="latency_s")

    def locked(*_: object) -> None:
        raise StoreLocked("held by process 4711")

    monkeypatch.setattr(data, "cached", lambda _read: locked)
    for kept in ("result-0", "result-2", "another"):
        loaded = data.load_result_samples(kept, metric="latency_s")
        assert loaded.stale_reason == "held by process 4711"
    with pytest.raises(StoreLocked):
        data.load_result_samples("result-1", metric="latency_s")

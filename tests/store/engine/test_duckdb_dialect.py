"""The dialect of DuckDB opens nothing but the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from compile_hud.db.engine.duckdb_dialect import DuckDbDialect
from compile_hud.db.store import Store
from tests.support.builders import make_run


def test_a_store_is_read_without_another_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.duckdb"
    Store(f"duckdb:///{path}").save_run(make_run())
    opened: list[str] = []
    connect = duckdb.connect

    def recorded(database: str, **options: Any) -> duckdb.DuckDBPyConnection:
        opened.append(database)
        return connect(database, **options)

    monkeypatch.setattr(duckdb, "connect", recorded)
    with Store(f"duckdb:///{path}").read() as connection:
        assert isinstance(connection.dialect, DuckDbDialect)
        assert connection.dialect.supports_comments
    assert opened == [str(path)]

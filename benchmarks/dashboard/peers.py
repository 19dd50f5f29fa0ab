"""The same queries of the same rows on PostgreSQL and on SQLite.

PostgreSQL and SQLite have the indexes of a PostgreSQL store; DuckDB has none. Wall time counts,
since PostgreSQL works in a process of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from benchmarks.dashboard.history import History
from benchmarks.dashboard.queries import Questions, measure
from benchmarks.startup import BenchmarkError
from compile_hud.db.schema.tables import METADATA
from compile_hud.db.store import Store
from tests.support.servers.postgres import find_binaries, running_server

_ROWS_AT_ONCE: Final = 50_000


class _Sqlite:
    """A store on SQLite with the methods that queries need; its connection stays open."""

    def __init__(self, path: Path) -> None:
        self.engine = sa.create_engine(f"sqlite:///{path}")
        METADATA.create_all(self.engine)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection."""
        with self.engine.connect() as connection:
            yield connection


def measure_peers(
    store: Store, history: History, *, seed: int, num_questions: int
) -> dict[str, Any]:
    """Return the timings of all queries by the name of the database."""
    binaries = find_binaries()
    if binaries is None:
        raise BenchmarkError("no PostgreSQL server is installed: apt-get install postgresql")
    with tempfile.TemporaryDirectory() as folder, running_server(binaries) as server:
        sqlite = _Sqlite(Path(folder) / "peer.sqlite")
        url = server.create_database("peer")
        postgres = Store(url)
        postgres.migrate()
        for engine in (sqlite.engine, sa.create_engine(url)):
            _copy(store, engine)
        questions = {
            "duckdb": store,
            "postgresql": postgres,
            "sqlite": cast("Store", sqlite),
        }
        return {
            name: measure(Questions(one, history, seed=seed), num_questions=num_questions)
            for name, one in questions.items()
        }


def _copy(store: Store, engine: Engine) -> None:
    with store.read() as source, engine.begin() as target:
        for table in METADATA.sorted_tables:
            target.execute(sa.delete(table))
            rows = source.execution_options(yield_per=_ROWS_AT_ONCE).execute(sa.select(table))
            for part in rows.mappings().partitions(_ROWS_AT_ONCE):
                target.execute(sa.insert(table), [dict(row) for row in part])
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE"))

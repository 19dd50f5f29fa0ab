"""Files of other programs, named as the store: one error identifies them, and they stay."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from compile_hud.db.engine.readers_writer_lock import LockTimeout, ReadersWriterLock
from compile_hud.db.errors import StoreUnavailable
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.store import Store
from tests.support.builders import make_run
from tests.support.terminal import Terminal


def make_duckdb(path: Path) -> None:
    with duckdb.connect(path) as connection:
        for name in ("birds", "cats", "dogs", "eels"):
            connection.execute(f"CREATE TABLE {name} (id INTEGER)")


def make_sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE birds (id INTEGER)")
    connection.commit()
    connection.close()


def make_text(path: Path) -> None:
    path.write_text("[run]\n")


FOREIGN = {
    make_duckdb: "theirs is a DuckDB file of something else, with the tables birds, cats, dogs,"
    " ..., and no store. It was left as it is; name another file with --store",
    make_sqlite: "theirs is an SQLite file and no store, which is a DuckDB file or a PostgreSQL"
    " database. It was left as it is; name another with --store",
    make_text: "the store theirs is damaged or is no store: it does not begin as a DuckDB file"
    " does. Copy a backup back in its place, move the file and its .wal file away to start afresh,"
    " or name another with --store",
    Path.touch: "the store theirs is damaged or is no store: it is empty. Copy a backup back in"
    " its place, move the file and its .wal file away to start afresh, or name another with"
    " --store",
}


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


@pytest.mark.parametrize("make", FOREIGN, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "command",
    ["runs", "run", "db migrate", "alerts floor net/*#latency_s 5%", "up --port 0", "schedule"],
)
def test_a_file_of_another_program_is_reported_and_left_alone(
    terminal: Terminal, make: Callable[[Path], None], command: str
) -> None:
    path = Path("theirs")
    make(path)
    before = path.read_bytes()
    result = terminal.hud(*command.split(), "--store", str(path))
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"hud: {FOREIGN[make]}\n")
    assert path.read_bytes() == before
    assert [file.name for file in Path().glob("theirs*")] == ["theirs"]


def test_tables_of_another_program_are_reported_next_to_lock_files_too(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    make_duckdb(path)
    lock_timeout = LockTimeout(timeout_s=1.0, sleep=lambda _s: None, monotonic=lambda: 0.0)
    ReadersWriterLock(path, name="theirs", lock_timeout=lock_timeout).make()
    store = Store(f"duckdb:///{path}")
    with pytest.raises(StoreUnavailable, match="is a DuckDB file of something else"):
        load_runs(store)
    with pytest.raises(StoreUnavailable, match="is a DuckDB file of something else"):
        store.save_run(make_run())
    with duckdb.connect(path) as connection:
        assert len(connection.execute("SHOW TABLES").fetchall()) == 4


@pytest.mark.parametrize("where", ["main", "other"])
def test_a_table_of_revisions_that_says_none_makes_no_store(tmp_path: Path, where: str) -> None:
    path = tmp_path / "theirs"
    make_duckdb(path)
    with duckdb.connect(path) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {where}")
        connection.execute(f"CREATE TABLE {where}.alembic_version (version_num TEXT)")
    store = Store(f"duckdb:///{path}")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="with the tables birds, cats, dogs, ..."):
            store.migrate()
        # Beside lock files, too.
        for ending in ("door", "lock"):
            Path(f"{path}.{ending}").touch()


def test_a_pipe_is_reported_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreUnavailable, match="it is a pipe"):
        load_runs(Store(f"duckdb:///{tmp_path / 'pipe'}"))


def test_a_duckdb_file_without_a_table_becomes_a_store(tmp_path: Path) -> None:
    duckdb.connect(tmp_path / "new").close()
    store = Store(f"duckdb:///{tmp_path / 'new'}")
    assert not load_runs(store)
    store.save_run(make_run())
    assert len(load_runs(store)) == 1


def test_a_store_that_came_without_lock_files_is_read(duckdb_url: str) -> None:
    Store(duckdb_url).save_run(make_run())
    for ending in ("door", "lock"):
        Path(f"{duckdb_url.removeprefix('duckdb:///')}.{ending}").unlink()
    assert len(load_runs(Store(duckdb_url))) == 1

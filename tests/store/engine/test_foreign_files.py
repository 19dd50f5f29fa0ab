"""Files of other programs, named as the store: one error identifies them, and they stay."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.engine.readers_writer_lock import LockTimeout, ReadersWriterLock
from compile_hud.db.errors import StoreUnavailable
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.store import Store
from tests.support.builders import make_run
from tests.support.errors import error_of
from tests.support.terminal import Terminal

TABLES = ("birds", "cats", "dogs", "eels")


def make_duckdb(path: Path) -> None:
    with duckdb.connect(path) as connection:
        for name in TABLES:
            connection.execute(f"CREATE TABLE {name} (id INTEGER)")


def make_sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE birds (id INTEGER)")
    connection.commit()
    connection.close()


def make_text(path: Path) -> None:
    path.write_text("[run]\n")


FOREIGN = (make_duckdb, make_sqlite, make_text, Path.touch)


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
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"hud: {error_of(load_runs, Store('duckdb:///theirs'))}\n"
    assert path.read_bytes() == before
    assert [file.name for file in Path().glob("theirs*")] == ["theirs"]


def test_messages_describe_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    messages = {}
    for make in FOREIGN:
        path = Path(make.__name__)
        make(path)
        messages[path.name] = str(error_of(load_runs, Store(f"duckdb:///{path}")))
    assert messages == words


def test_tables_of_another_program_are_reported_next_to_lock_files_too(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    make_duckdb(path)
    lock_timeout = LockTimeout(timeout_s=1.0, sleep=lambda _s: None, monotonic=lambda: 0.0)
    ReadersWriterLock(path, name="theirs", lock_timeout=lock_timeout).make()
    store = Store(f"duckdb:///{path}")
    for attempt in (lambda: load_runs(store), lambda: store.save_run(make_run())):
        with pytest.raises(StoreUnavailable) as caught:
            attempt()
        assert caught.value.parameters["tables"] == TABLES
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
        with pytest.raises(StoreUnavailable) as caught:
            store.migrate()
        assert caught.value.parameters["tables"] == TABLES
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

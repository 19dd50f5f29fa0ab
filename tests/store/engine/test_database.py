"""A store that cannot be opened reports that, and opening touches nothing."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import StoreUnavailable
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.store import Store
from tests.support.builders import make_run
from tests.support.errors import error_of, message_of


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hud.duckdb",
        "duckdb://",
        "duckdb:///",
        "duckdb://host/x.duckdb",
        "duckdb:///x.duckdb?threads=1",
        "sqlite:///x.db",
        "postgresql://me@host/db",
        "postgresql+psycopg://me@host",
    ],
)
def test_a_bad_url_is_refused(url: str) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        Store(url)
    assert caught.value.parameters == {"url": url}


def test_a_bad_url_is_answered_with_the_allowed_forms(words: SnapshotAssertion) -> None:
    assert [str(error_of(Store, url)) for url in ("", "sqlite:///x.db")] == words


def test_a_password_is_never_shown() -> None:
    url = "postgresql+psycopg://me:secret@host/db"
    assert "secret" not in Store(url).name
    with pytest.raises(StoreUnavailable) as caught:
        Store(url.replace("+psycopg", "+other"))
    assert "secret" not in str(caught.value)


def test_a_relative_path_is_taken_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Store("duckdb:///folder/hud.duckdb").save_run(make_run())
    assert (tmp_path / "folder" / "hud.duckdb").exists()


def test_a_damaged_file_is_explained_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "hud.duckdb"
    path.write_bytes(b"this is no database" * 1000)
    before = path.read_bytes()
    store = Store(f"duckdb:///{path}")
    for attempt in (lambda: load_runs(store), lambda: store.save_run(make_run())):
        with pytest.raises(StoreUnavailable) as caught:
            attempt()
        assert caught.value.parameters["problem"] == "damaged"
    assert path.read_bytes() == before


def test_a_damaged_page_in_a_store_is_explained(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    store.save_run(make_run(environment={"filler": "x" * 100_000}))
    path = Path(store.name)
    content = bytearray(path.read_bytes())
    content[12_288:] = bytes(len(content) - 12_288)
    path.write_bytes(bytes(content))
    with pytest.raises(StoreUnavailable) as caught:
        load_runs(Store(duckdb_url))
    assert caught.value.parameters["problem"] == "damaged"


def test_a_folder_instead_of_the_store_is_explained(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=f"{tmp_path}"):
        Store(f"duckdb:///{tmp_path}").save_run(make_run())


def test_a_file_instead_of_the_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable) as caught:
        Store(f"duckdb:///{tmp_path}/file/hud.duckdb").save_run(make_run())
    assert caught.value.parameters["problem"] == "not-opened"


def test_a_log_without_its_store_is_not_mixed_into_a_new_one(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    (tmp_path / "hud.duckdb.wal").write_bytes(b"old")
    with pytest.raises(StoreUnavailable) as caught:
        Store(f"duckdb:///{tmp_path}/hud.duckdb").save_run(make_run())
    assert caught.value.parameters["log"] == "hud.duckdb.wal"
    assert message_of(caught.value, folder=tmp_path) == words


def test_a_draft_of_a_killed_first_write_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "hud.duckdb.new").write_bytes(b"half")
    (tmp_path / "hud.duckdb.new.wal").write_bytes(b"half")
    store = Store(f"duckdb:///{tmp_path}/hud.duckdb")
    store.save_run(make_run())
    assert len(load_runs(store)) == 1


def test_a_server_that_is_not_there_is_explained(tmp_path: Path) -> None:
    store = Store(f"postgresql+psycopg://postgres@/hud?host={tmp_path}")
    with pytest.raises(StoreUnavailable, match="failed: .*hud doctor"):
        load_runs(store)


def test_without_the_driver_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreUnavailable) as caught:
        Store("postgresql+psycopg://me@host/db")
    assert caught.value.parameters == {"package": "psycopg"}
    assert str(caught.value) == words


def test_a_broken_stamp_counts_as_none(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    store.migrate()
    stamp = Path(store.name + ".generation")
    stamp.write_text("")
    assert store.store_version() == 0
    store.save_run(make_run())
    assert store.store_version() == 1


def test_a_store_deleted_under_a_writer_is_made_again(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    store.save_run(make_run("a"))
    Path(store.name).unlink()
    assert load_runs(store) == []
    store.save_run(make_run("b"))
    assert [item.run.id for item in load_runs(store)] == ["b"]


def test_a_store_that_is_opened_for_every_job_leaves_nothing_in_memory(store_url: str) -> None:
    def work_through(*names: str) -> list[Dialect]:
        for name in names:
            store = Store(store_url)
            store.save_run(make_run(name))
            store.enqueue_job(dedupe_key=name, suite="mine", toolchain="current", trigger="test")
            store.lease_job()
        gc.collect()
        return [item for item in gc.get_objects() if issubclass(type(item), Dialect)]

    before = {id(item): item for item in work_through("a")}
    assert [item for item in work_through("b", "c") if id(item) not in before] == []


def test_a_store_cannot_read_other_files(duckdb_url: str, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    store = Store(duckdb_url)
    store.migrate()
    statement = sa.text(f"SELECT * FROM read_csv('{tmp_path}/secret.csv')")
    with pytest.raises(StoreUnavailable, match="disabled"):
        _execute(store, statement)


def _execute(store: Store, statement: sa.TextClause) -> None:
    with store.read() as connection:
        connection.execute(statement)


def test_reading_cannot_write(store_url: str) -> None:
    store = Store(store_url)
    store.save_run(make_run())
    with pytest.raises(StoreUnavailable, match="read-only"):
        _execute(store, sa.text("DELETE FROM runs"))

"""A frequent reader keeps the file open between reads, and no writer waits for that."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from compile_hud.db.engine import connection_cache as kept_open
from compile_hud.db.engine.connection_cache import CONNECTION_CACHE
from compile_hud.db.engine.readers_writer_lock import ReadersWriterLock
from compile_hud.db.errors import StoreUnavailable
from compile_hud.db.queries import results as queries
from compile_hud.db.queries import runs
from compile_hud.db.store import Store
from tests.support.builders import make_run
from tests.support.stores import store_processes
from tests.support.stores.store_processes import child


@pytest.fixture
def reader(duckdb_url: str) -> Iterator[Store]:
    Store(duckdb_url).save_run(make_run("first"))
    store = Store(duckdb_url, lock_timeout_s=20, keeps_open=True)
    yield store
    CONNECTION_CACHE.close(_path(store))


def _path(store: Store) -> Path:
    return Path(store.name)


def _ids(store: Store) -> list[str]:
    return [item.run.id for item in runs.load_runs(store)]


def _is_let_go(store: Store) -> bool:
    watching = [item for item in threading.enumerate() if item.name == "connection-cache"]
    for thread in watching:
        thread.join(20)
    return not CONNECTION_CACHE.has(_path(store))


def test_the_file_stays_open_for_who_requested_it_alone(reader: Store) -> None:
    assert _ids(Store(reader.url)) == ["first"]
    assert not CONNECTION_CACHE.has(_path(reader))
    assert _ids(reader) == ["first"]
    assert CONNECTION_CACHE.has(_path(reader))


def test_one_file_is_cached_at_a_time(reader: Store, tmp_path: Path) -> None:
    other = Store(f"duckdb:///{tmp_path}/other.duckdb", keeps_open=True)
    other.save_run(make_run("other"))
    assert [_ids(reader), _ids(other)] == [["first"], ["other"]]
    assert not CONNECTION_CACHE.has(_path(reader))
    assert CONNECTION_CACHE.has(_path(other))
    CONNECTION_CACHE.close(_path(other))


def test_a_writer_of_the_same_process_comes_in_at_once(
    reader: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than the test, which the watching thread outlives by as much.
    monkeypatch.setattr(kept_open, "POLL_S", 3)
    assert _ids(reader) == ["first"]
    Store(reader.url, lock_timeout_s=0).save_run(make_run("second"))
    assert sorted(_ids(reader)) == ["first", "second"]


def test_a_writer_of_another_process_comes_in_between_two_reads(reader: Store) -> None:
    assert _ids(reader) == ["first"]
    with child(store_processes.ingest, reader.url, ["a-1", "a-2"]) as (_, pipe):
        assert pipe.recv() == "ready"
        pipe.send("go")
        assert [pipe.recv(), pipe.recv()] == [("a-1", True), ("a-2", True)]
    assert sorted(_ids(reader)) == ["first", "shared"]


def test_who_reads_without_a_pause_starves_no_writer(reader: Store) -> None:
    names = [f"b-{number}" for number in range(5)]
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            _ids(reader)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    with child(store_processes.ingest, reader.url, names) as (_, pipe):
        assert pipe.recv() == "ready"
        pipe.send("go")
        assert [pipe.recv() for _ in names] == [(name, True) for name in names]
    is_over.set()
    for thread in threads:
        thread.join()


@pytest.mark.nightly
def test_what_a_killed_writer_committed_is_read_and_nothing_by_half(reader: Store) -> None:
    for kill in range(3):
        with child(store_processes.ingest_for_ever, reader.url, f"c{kill}") as (process, pipe):
            acknowledged = [pipe.recv()]
            assert "shared" in _ids(reader)
            acknowledged += store_processes.kill(process, pipe)
        for name in acknowledged:
            assert queries.load_result(reader, name) == store_processes.result_of(name)
        assert CONNECTION_CACHE.has(_path(reader))


def test_a_file_copied_over_the_store_is_read_instead(reader: Store, tmp_path: Path) -> None:
    backup = tmp_path / "backup.duckdb"
    shutil.copyfile(_path(reader), backup)
    Store(reader.url).save_run(make_run("second"))
    assert sorted(_ids(reader)) == ["first", "second"]
    os.replace(backup, _path(reader))
    assert _ids(reader) == ["first"]


def test_a_store_that_is_deleted_reads_as_empty(reader: Store) -> None:
    assert _ids(reader) == ["first"]
    shutil.rmtree(_path(reader).parent)
    assert _ids(reader) == []
    assert _is_let_go(reader)


def test_an_idle_file_is_closed(reader: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_open, "IDLE_S", 0)
    assert _ids(reader) == ["first"]
    assert _is_let_go(reader)


def test_a_file_of_which_much_is_in_memory_is_let_go_sooner(
    reader: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_open, "MAX_BYTES", 0)
    monkeypatch.setattr(kept_open, "_POLLS_PER_WEIGHING", 1)
    monkeypatch.setattr(kept_open, "LARGE_IDLE_S", 0)
    assert _ids(reader) == ["first"]
    assert _is_let_go(reader)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        StoreUnavailable("no locks"),
        MemoryError(),
        RuntimeError("unknown"),
    ],
)
def test_a_watcher_that_cannot_see_writers_lets_the_file_go_and_goes_on(
    reader: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    failures = [error] * 3
    has_writer = ReadersWriterLock.has_writer

    def look(lock: ReadersWriterLock) -> bool:
        if failures:
            raise failures.pop()
        return has_writer(lock)

    monkeypatch.setattr(ReadersWriterLock, "has_writer", look)
    for num_left in (2, 1, 0):
        assert _ids(reader) == ["first"]
        assert _is_let_go(reader)
        assert len(failures) == num_left
    assert CONNECTION_CACHE.problem == ""
    assert "connection-cache" in caplog.text
    # With nothing left to go wrong, the file stays open again.
    assert _ids(reader) == ["first"]
    assert CONNECTION_CACHE.has(_path(reader))


def test_without_a_thread_the_file_does_not_stay_open(
    reader: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        assert _ids(reader) == ["first"]
        assert not CONNECTION_CACHE.has(_path(reader))
    assert _ids(reader) == ["first"]
    assert CONNECTION_CACHE.has(_path(reader))


def test_a_copy_leaves_nothing_open_without_its_lock(reader: Store, tmp_path: Path) -> None:
    assert _ids(reader) == ["first"]
    with reader.snapshot(tmp_path):
        assert not CONNECTION_CACHE.has(_path(reader))

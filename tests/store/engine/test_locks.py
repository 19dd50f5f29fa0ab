"""Several processes on one store: all make progress, and a timeout names its reason."""

from __future__ import annotations

import errno
import fcntl
import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import sqlalchemy as sa
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.engine import readers_writer_lock
from compile_hud.db.errors import StoreLocked, StoreUnavailable
from compile_hud.db.queries import results as queries
from compile_hud.db.queries import runs
from compile_hud.db.store import Store
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.support.builders import START, make_run
from tests.support.stores import store_processes
from tests.support.stores.store_processes import FakeMonotonic, child


def _impatient(url: str, *, messages: list[str] | None = None) -> Store:
    clock = FakeMonotonic()
    return Store(
        url,
        now=lambda: START,
        lock_timeout_s=5,
        sleep=clock.sleep,
        monotonic=clock,
        on_wait=[].append if messages is None else messages.append,
    )


class Killing(logging.Filter):
    """Ends the process that is waited for when something is logged."""

    def __init__(self, process: BaseProcess) -> None:
        super().__init__()
        self._process = process

    def filter(self, record: logging.LogRecord) -> bool:
        self._process.kill()
        return super().filter(record)


@pytest.mark.parametrize("action", ["read", "write"])
def test_a_foreign_holder_of_the_file_is_named(duckdb_url: str, action: str) -> None:
    Store(duckdb_url).save_run(make_run())
    messages: list[str] = []
    store = _impatient(duckdb_url, messages=messages)
    with child(store_processes.hold_file, store.name) as (process, pipe):
        assert pipe.recv() == "held"
        with pytest.raises(StoreLocked) as caught:
            runs.load_runs(store) if action == "read" else store.save_run(make_run("b"))
        assert caught.value.parameters == {
            "store": store.name,
            "holder": process.pid,
            "waited_s": 5,
        }
        (text,) = messages
        assert store.name in text
        assert re.search(rf"\bprocess {process.pid};.* until \d\d:\d\d:\d\d UTC$", text)
    assert len(runs.load_runs(store)) == 1


@pytest.mark.parametrize(
    ("action_name", "action"), [("write", "read"), ("write", "write"), ("read", "write")]
)
def test_one_of_ours_that_stays_too_long_is_named(
    duckdb_url: str, action_name: str, action: str
) -> None:
    Store(duckdb_url).save_run(make_run())
    messages: list[str] = []
    store = _impatient(duckdb_url, messages=messages)
    with child(store_processes.hold_transaction, duckdb_url, action_name) as (process, pipe):
        assert pipe.recv() == "held"
        with pytest.raises(StoreLocked) as caught:
            runs.load_runs(store) if action == "read" else store.save_run(make_run("b"))
        assert caught.value.parameters["holder"] == process.pid
        assert [f"process {process.pid};" in text for text in messages] == [True]


def test_who_is_in_a_hurry_waits_for_three_seconds(duckdb_url: str) -> None:
    Store(duckdb_url).save_run(make_run())
    messages: list[str] = []
    store = _impatient(duckdb_url, messages=messages)
    hurried = store.with_short_timeout()
    assert store.with_short_timeout() is hurried
    with child(store_processes.hold_file, hurried.name) as (process, pipe):
        assert pipe.recv() == "held"
        with pytest.raises(StoreLocked) as caught:
            hurried.save_run(make_run("b"))
        assert caught.value.parameters["waited_s"] == 3
    # Else a heartbeat would say that it waits.
    assert messages == []
    hurried.save_run(make_run("b"))
    assert len(runs.load_runs(hurried)) == 2


def test_a_heartbeat_keeps_no_run_waiting(duckdb_url: str) -> None:
    store = _impatient(duckdb_url)
    store.save_run(make_run())
    clock = FakeMonotonic()
    writer = ResultWriter(
        Store(duckdb_url, sleep=clock.sleep, monotonic=clock), spool=None, notify=[].append
    )
    with child(store_processes.hold_file, store.name) as (_, pipe):
        assert pipe.recv() == "held"
        writer.record_heartbeat("run")
    assert 3 <= clock() < 4


def test_a_store_in_memory_is_the_same_in_a_hurry() -> None:
    store = Store("duckdb:///:memory:")
    store.save_run(make_run())
    assert len(runs.load_runs(store.with_short_timeout())) == 1


def test_a_command_says_what_it_waits_for(
    duckdb_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Store(duckdb_url).save_run(make_run())
    monkeypatch.setattr(readers_writer_lock, "REPORT_AFTER_S", 0.0)
    config = parse_config("", path=None, env={"HUD_DATABASE_URL": duckdb_url})
    store = Workspace(config=config, dependencies=Dependencies()).store()
    with child(store_processes.hold_transaction, duckdb_url, "write") as (process, pipe):
        assert pipe.recv() == "held"
        with caplog.filtering(Killing(process)):
            assert len(runs.load_runs(store)) == 1
        (text,) = caplog.messages
        assert re.search(rf"{re.escape(store.name)} .*\bprocess {process.pid};", text)


def test_readers_do_not_wait_for_readers(duckdb_url: str) -> None:
    Store(duckdb_url).save_run(make_run())
    with child(store_processes.hold_transaction, duckdb_url, "read") as (_, pipe):
        assert pipe.recv() == "held"
        assert len(runs.load_runs(_impatient(duckdb_url))) == 1


def test_a_lock_dies_with_its_holder(duckdb_url: str) -> None:
    Store(duckdb_url).save_run(make_run())
    with child(store_processes.hold_transaction, duckdb_url, "write") as (process, pipe):
        assert pipe.recv() == "held"
        process.kill()
        process.join()
        _impatient(duckdb_url).save_run(make_run("b"))


def test_a_waiting_writer_goes_before_new_readers(duckdb_url: str) -> None:
    Store(duckdb_url).save_run(make_run())
    is_waiting, may_go_on = threading.Event(), threading.Event()

    def sleep(_: float) -> None:
        is_waiting.set()
        may_go_on.wait()

    writer = Store(duckdb_url, sleep=sleep)
    thread = threading.Thread(target=lambda: writer.save_run(make_run("b")))
    with Store(duckdb_url).read():
        thread.start()
        is_waiting.wait()
        with pytest.raises(StoreLocked):
            runs.load_runs(_impatient(duckdb_url))
    may_go_on.set()
    thread.join()
    assert len(runs.load_runs(_impatient(duckdb_url))) == 2


def test_the_holder_of_a_lock_may_be_unknown(tmp_path: Path) -> None:
    free = tmp_path / "free.lock"
    free.write_text("")
    assert readers_writer_lock.flock_holder(free) is None
    assert readers_writer_lock.flock_holder(tmp_path / "missing.lock") is None


def test_a_disk_that_cannot_lock_is_explained(
    duckdb_url: str, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    def flock(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StoreUnavailable) as caught:
        Store(duckdb_url).save_run(make_run())
    assert caught.value.parameters == {"problem": "no-locks", "reason": "No locks available"}
    assert str(caught.value) == words


def test_a_short_timeout_applies_to_a_silent_postgresql_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: list[int] = []

    def create_engine(*_: object, connect_args: dict[str, int], **__: object) -> None:
        options.append(connect_args["connect_timeout"])

    monkeypatch.setattr("compile_hud.db.engine.database.sa.create_engine", create_engine)
    Store("postgresql+psycopg://hud@nowhere/of-this-test").with_short_timeout()
    assert options == [10, 3]


def test_a_locked_postgresql_store_is_an_error_after_the_timeout(postgres_url: str) -> None:
    Store(postgres_url).save_run(make_run())
    store = Store(postgres_url, lock_timeout_s=0.05)
    with child(store_processes.hold_transaction, postgres_url, "write") as (_, pipe):
        assert pipe.recv() == "held"
        with pytest.raises(StoreLocked, match="within 0.05 s"):
            store.save_run(make_run("b"))
        assert len(runs.load_runs(store)) == 1


def test_two_processes_with_the_same_files_store_each_once(store_url: str) -> None:
    names = [f"file-{number}" for number in range(15)]
    with (
        child(store_processes.ingest, store_url, names) as (_, first),
        child(store_processes.ingest, store_url, names) as (_, second),
    ):
        for pipe in (first, second):
            assert pipe.recv() == "ready"
        for pipe in (first, second):
            pipe.send("go")
        answers = [pipe.recv() for _ in names for pipe in (first, second)]
    stored = [name for name, is_new in answers if is_new]
    assert sorted(stored) == sorted(names)
    store = Store(store_url)
    for name in names:
        assert queries.load_result(store, name) == store_processes.result_of(name)
    with store.read() as connection:
        for table in ("case_results", "ingested"):
            assert connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar() == 15


@pytest.mark.nightly
def test_two_writers_and_two_readers_make_progress(store_url: str) -> None:
    Store(store_url).save_run(store_processes.run_of_many())
    names = [[f"{writer}-{number}" for number in range(10)] for writer in ("a", "b")]
    with (
        child(store_processes.read_for_ever, store_url) as (_, reader),
        child(store_processes.read_for_ever, store_url) as (_, other_reader),
        child(store_processes.ingest, store_url, names[0]) as (_, writer),
        child(store_processes.ingest, store_url, names[1]) as (_, other_writer),
    ):
        for pipe in (writer, other_writer):
            assert pipe.recv() == "ready"
            pipe.send("go")
        for pipe, expected in ((writer, names[0]), (other_writer, names[1])):
            assert [pipe.recv() for _ in expected] == [(name, True) for name in expected]
        for pipe in (reader, other_reader):
            assert [pipe.recv() for _ in range(3)] == [1, 2, 3]


def test_threads_of_one_process_share_the_store(store: Store) -> None:
    store.migrate()

    def work(number: int) -> None:
        for index in range(3):
            store.save_run(make_run(f"run-{number}-{index}"))
            runs.load_runs(store)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(runs.load_runs(store)) == 12

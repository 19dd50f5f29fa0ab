"""Functions that the store tests run in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import duckdb

from compile_hud.db.maintenance.backup import restore_backup
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import CaseResult, Run
from compile_hud.db.store import Store
from tests.support.builders import make_case, make_measurement, make_result, make_run

# Children start from a process that has imported all this, in milliseconds instead of seconds.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


class FakeMonotonic:
    """A clock in seconds that only sleeping moves."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def __call__(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Move the clock at once."""
        self._now_s += seconds


@contextmanager
def child(target: Callable[..., None], *args: Any) -> Iterator[tuple[BaseProcess, Connection]]:
    """Yield a process that runs `target(connection, *args)`, and our end of the connection."""
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=target, args=(theirs, *args), daemon=True)
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()


def kill(process: BaseProcess, pipe: Connection) -> list[str]:
    """Kill a process without notice; return its unread messages."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    sent: list[str] = []
    while pipe.poll():
        try:
            sent.append(pipe.recv())
        except EOFError:
            break
    return sent


def run_of_many() -> Run:
    """Return the run that the processes write to."""
    return make_run("shared", plan=[make_case(f"model-{number}") for number in range(5)])


def result_of(name: str) -> CaseResult:
    """Return the one result that has this id; `name` ends in a number."""
    number = int(name.rpartition("-")[2])
    run = run_of_many()
    samples = [number + index / 100 for index in range(50)]
    return make_result(
        name,
        run=run,
        case=run.plan[number % len(run.plan)],
        measurements=[
            make_measurement(samples=samples, warmups=(1.0, 2.0)),
            make_measurement("speedup", samples=samples[:3]),
        ],
    )


def hold_file(pipe: Connection, path: str) -> None:
    """Keep the DuckDB file open, as the DuckDB shell does, until a message comes."""
    with duckdb.connect(path):
        pipe.send("held")
        pipe.recv()


def hold_transaction(pipe: Connection, url: str, kind: str) -> None:
    """Stay in one transaction of the store until a message comes."""
    store = Store(url)
    with store.write() if kind == "write" else store.read():
        pipe.send("held")
        pipe.recv()


def ingest(pipe: Connection, url: str, names: list[str]) -> None:
    """Ingest each result whose name comes as a message, and answer whether it was new."""
    store = Store(url)
    pipe.send("ready")
    pipe.recv()
    for name in names:
        pipe.send((name, store.ingest(run_of_many(), result_of(name), spool_id=name)))


def ingest_for_ever(pipe: Connection, url: str, prefix: str) -> None:
    """Ingest result after result, saying each name after its commit."""
    store = Store(url)
    number = 0
    while True:
        name = f"{prefix}-{number}"
        store.ingest(run_of_many(), result_of(name), spool_id=name)
        pipe.send(name)
        number += 1


def read_for_ever(pipe: Connection, url: str) -> None:
    """Read without a pause, counting aloud."""
    store = Store(url)
    number = 0
    while True:
        load_runs(store)
        number += 1
        pipe.send(number)


def commit_and_die(pipe: Connection, path: str, spool_id: str) -> None:
    """Commit a row that stays in the log of the file, as after a kill."""
    connection = duckdb.connect(path)
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    connection.execute("INSERT INTO ingested VALUES (?, TIMESTAMP '2026-01-01')", [spool_id])
    pipe.send("committed")
    os._exit(9)


def restore_and_die(pipe: Connection, url: str, backup: str, num_renames: int) -> None:
    """Restore a backup, and die after so many changes of names in the folder of the store."""
    names = iter(range(num_renames))

    def counted(change: Callable[..., None]) -> Callable[..., None]:
        def changed(*arguments: Any, **options: Any) -> None:
            change(*arguments, **options)
            if next(names, None) == num_renames - 1:
                os._exit(9)

        return changed

    for name in ("replace", "link", "unlink"):
        setattr(os, name, counted(getattr(os, name)))
    restore_backup(Path(backup), Store(url), is_forced=True)
    pipe.send("restored")

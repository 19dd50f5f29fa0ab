from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import StoreFull, StoreLocked
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import CaseResult, Run, RunState
from compile_hud.db.store import Store
from compile_hud.runner.errors import SpoolFull
from compile_hud.runner.persistence.spool import Spool
from tests.support.builders import make_case, make_result, make_run
from tests.support.fakes import FakeClock

RUN = make_run(plan=[make_case(mode="eager"), make_case(mode="default")])


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", now=FakeClock())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"duckdb:///{tmp_path / 'store.duckdb'}", lock_timeout_s=0.2)


def write_two(spool: Spool) -> None:
    for number, case in enumerate(RUN.plan):
        spool.write(RUN, result=make_result(f"result-{number}", run=RUN, case=case))


class BrokenStore(Store):
    """A store that raises after `num_good` results."""

    def __init__(self, error: Exception, *, num_good: int) -> None:
        super().__init__("duckdb:///:memory:")
        self.error = error
        self.num_good = num_good

    def ingest(self, run: Run, result: CaseResult, *, spool_id: str) -> bool:
        if self.num_good == 0:
            raise self.error
        self.num_good -= 1
        return super().ingest(run, result, spool_id=spool_id)


def test_a_drained_spool_is_empty_and_the_store_has_everything(spool: Spool, store: Store) -> None:
    write_two(spool)
    assert spool.drain(store).num_ingested == 2
    assert spool.pending() == ()
    assert [r.id for r in load_document(store, "run-1").results] == ["result-0", "result-1"]


def test_a_file_that_is_in_already_counts_as_a_duplicate(spool: Spool, store: Store) -> None:
    write_two(spool)
    contents = {path: path.read_bytes() for path in spool.pending()}
    spool.drain(store)
    # As after a crash between the commit and the removal of the file.
    for path, content in contents.items():
        path.write_bytes(content)
    report = spool.drain(store)
    assert (report.num_ingested, report.num_duplicates) == (0, 2)
    assert spool.pending() == ()
    assert len(load_document(store, "run-1").results) == 2


def test_news_of_a_run_moves_its_state(spool: Spool, store: Store) -> None:
    spool.write(RUN)
    spool.write(make_run(plan=RUN.plan, state=RunState.FINISHED, finished_at=RUN.started_at))
    spool.drain(store)
    (summary,) = load_runs(store)
    assert summary.run.state is RunState.FINISHED


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def make_foreign(path: Path) -> None:
    path.write_text('{"schema_version": 1, "name": "something else"}')


def make_newer(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))


def make_list(path: Path) -> None:
    path.write_text("[]")


def spoil_id(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "spool_id": "\ud800"}))


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def nest_details(path: Path) -> None:
    document = json.loads(path.read_text())
    tree: dict[str, object] = {}
    for _ in range(340):
        tree = {"child": tree}
    document["result"]["details"]["tree"] = tree
    path.write_text(json.dumps(document))


def spoil_sample(path: Path) -> None:
    document = json.loads(path.read_text())
    document["result"]["measurements"][0]["samples"][1] = 6e-309
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "spoil",
    [
        *(truncate, make_foreign, make_newer, make_list, spoil_id, make_folder),
        *(nest_details, spoil_sample),
    ],
)
def test_a_broken_file_is_set_aside_and_blocks_no_other(
    spool: Spool, store: Store, spoil: Callable[[Path], None], words: SnapshotAssertion
) -> None:
    write_two(spool)
    spoil(spool.pending()[0])
    report = spool.drain(store)
    assert report.num_ingested == 1
    assert [broken.reason for broken in report.broken] == words
    assert report.broken[0].path.exists()
    assert spool.pending() == ()


def test_a_synthetic_run_is_set_aside_by_a_store_of_real_ones(
    spool: Spool, store: Store, words: SnapshotAssertion
) -> None:
    store.save_run(make_run("real"))
    run = make_run("made-up", is_synthetic=True)
    spool.write(run, result=make_result("x", run=run))
    (broken,) = spool.drain(store).broken
    assert broken.reason == words


@pytest.mark.parametrize("error", [StoreLocked("held by PID 7"), StoreFull("no room")])
def test_a_store_in_trouble_leaves_the_files(spool: Spool, error: Exception) -> None:
    write_two(spool)
    report = spool.drain(BrokenStore(error, num_good=1))
    assert (report.num_ingested, report.num_left) == (1, 1)
    assert report.error == str(error)
    assert len(spool.pending()) == 1


def test_a_locked_store_is_trouble_and_takes_everything_afterwards(
    spool: Spool, store: Store, tmp_path: Path
) -> None:
    store.migrate()
    write_two(spool)
    script = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "store.duckdb")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        report = spool.drain(store)
        assert str(holder.pid) in report.error
        assert report.num_left == 2
        holder.communicate(b"\n")
    assert spool.drain(store).num_ingested == 2


def test_a_full_disk_leaves_nothing_half(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    def no_room(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(SpoolFull) as caught:
        write_two(spool)
    assert caught.value.parameters["run"] == "run-1"
    assert str(caught.value) == words
    assert list(spool.directory.iterdir()) == []


def test_the_leftover_of_a_killed_writer_goes_and_that_of_a_living_one_stays(
    spool: Spool, store: Store
) -> None:
    write_two(spool)
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    dead = spool.directory / f".a.json.{ended.pid}.tmp"
    living = spool.directory / f".b.json.{os.getpid()}.tmp"
    dead.touch()
    living.touch()
    spool.drain(store)
    assert not dead.exists()
    assert living.exists()


def test_a_file_that_another_process_took_is_no_trouble(spool: Spool) -> None:
    write_two(spool)

    class Thief(Store):
        def ingest(self, run: Run, result: CaseResult, *, spool_id: str) -> bool:
            for path in spool.pending():
                path.unlink()
            return super().ingest(run, result, spool_id=spool_id)

    report = spool.drain(Thief("duckdb:///:memory:"))
    assert (report.num_ingested, report.error, report.broken) == (1, "", ())


@pytest.mark.parametrize(
    "error",
    [RecursionError("too deep"), OverflowError("int too large"), KeyError("kind"), TypeError("x")],
)
def test_a_file_whose_content_no_code_expects_is_set_aside(spool: Spool, error: Exception) -> None:
    write_two(spool)
    report = spool.drain(BrokenStore(error, num_good=0))
    assert (len(report.broken), report.num_left, report.error) == (2, 0, "")
    assert type(error).__name__ in report.broken[0].reason
    assert len(list(spool.broken_directory.iterdir())) == 2

"""No acknowledged result disappears, none is incomplete, and the next start continues."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from compile_hud.runner.persistence.run_processes import mark_killed_runs_interrupted
from compile_hud.runner.persistence.spool import Spool
from tests.support.nightly import daily_first
from tests.support.runs.run_process import ROOT

NUM_CASES = 4
# About as many lines of our code as a whole run has; a later death is no death.
NUM_LINES = 9000


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    script = ROOT / "tests" / "support" / "runs" / "run_process.py"
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), *options],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT}/src"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def values_after(output: str, word: str) -> list[str]:
    lines = (line.partition(" ") for line in output.splitlines())
    return [rest for first, _, rest in lines if first == word]


@pytest.mark.parametrize("seed", daily_first(range(8), num_daily=1))
def test_a_runner_killed_anywhere_loses_nothing(tmp_path: Path, seed: int) -> None:
    die_at = random.Random(seed).randrange(NUM_LINES)
    first, _ = start(tmp_path, "--die-at", str(die_at)).communicate()
    process = start(tmp_path)
    second, _ = process.communicate()
    assert process.returncode == 0
    store = Store(f"duckdb:///{tmp_path / 'store.duckdb'}")
    runs = [summary.run for summary in load_runs(store)]
    for run in runs:
        document = load_document(store, run.id)
        assert document.run.state is RunState.FINISHED
        assert [result.case for result in document.results] == list(document.run.plan)
        assert len(document.results) == NUM_CASES
    ids = values_after(first, "kept")
    if len(runs) == 2:
        # Killed after the end of its run was stored: the second process made a run of its own.
        assert len(ids) == NUM_CASES
    else:
        assert not set(ids) & set(values_after(second, "executing"))
    assert Spool(tmp_path / "spool").pending() == ()
    assert not (tmp_path / "spool" / "broken").exists()


@pytest.mark.nightly
def test_two_runners_at_once_take_turns(tmp_path: Path, words: SnapshotAssertion) -> None:
    one = start(tmp_path, "--hold")
    assert one.stdin is not None
    assert one.stdout is not None
    assert any(line.startswith("executing") for line in one.stdout)
    two = start(tmp_path, "--hold")
    assert two.stdin is not None
    assert two.stdout is not None
    assert two.stdout.readline().replace(str(one.pid), "ONE") == words
    for process in (one, two):
        process.communicate("go on\n")
        assert process.returncode == 0
    store = Store(f"duckdb:///{tmp_path / 'store.duckdb'}")
    runs = [summary.run for summary in load_runs(store)]
    assert [run.state for run in runs] == [RunState.FINISHED] * 2
    assert [len(load_document(store, run.id).results) for run in runs] == [NUM_CASES] * 2


def test_a_killed_run_is_interrupted_before_its_heartbeats_are_missing(tmp_path: Path) -> None:
    store = Store(f"duckdb:///{tmp_path / 'store.duckdb'}")
    processes = Spool(tmp_path / "spool").processes
    run = start(tmp_path, "--hold")
    assert run.stdout is not None
    assert any(line.startswith("executing") for line in run.stdout)
    mark_killed_runs_interrupted(store, processes)
    assert [summary.run.state for summary in load_runs(store)] == [RunState.RUNNING]
    run.kill()
    run.communicate()
    mark_killed_runs_interrupted(store, processes)
    assert [summary.run.state for summary in load_runs(store)] == [RunState.INTERRUPTED]
    resumed = start(tmp_path)
    resumed.communicate()
    mark_killed_runs_interrupted(store, processes)
    assert [summary.run.state for summary in load_runs(store)] == [RunState.FINISHED]
    assert processes.killed_runs() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_from_outside_ends_in_good_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start(tmp_path, "--hold")
    assert process.stdout is not None
    assert any(line.startswith("executing") for line in process.stdout)
    process.send_signal(number)
    process.communicate("go on\n")
    assert process.returncode == 0
    (summary,) = load_runs(Store(f"duckdb:///{tmp_path / 'store.duckdb'}"))
    assert summary.run.state is RunState.INTERRUPTED


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory on a file system of its own that holds 24 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        reason = "mounting a file system needs root"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_ends_the_run_with_one_error_and_it_continues_later(
    small_disk: Path, words: SnapshotAssertion
) -> None:
    process = start(small_disk, "--hold")
    assert process.stdin is not None
    assert process.stdout is not None
    assert any(line.startswith("executing") for line in process.stdout)
    ballast = small_disk / "ballast"
    fill(ballast)
    output, _ = process.communicate("go on\n")
    assert process.returncode == 2
    (error,) = values_after(output, "error")
    assert error == words
    assert "`hud run --resume" in error
    ballast.unlink()
    assert list((small_disk / "spool").glob(".*")) == []
    output, _ = start(small_disk).communicate()
    (run_id,) = values_after(output, "finished")
    document = load_document(Store(f"duckdb:///{small_disk / 'store.duckdb'}"), run_id)
    assert len(document.results) == NUM_CASES
    assert document.run.state is RunState.FINISHED


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as stream:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    stream.write(b"\0" * size)
            except OSError:
                continue

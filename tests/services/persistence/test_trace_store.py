"""Traces on their way from the executor into their folder, and out of it."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import StoreFull
from compile_hud.db.queries.results import load_result
from compile_hud.db.records.results import CaseResult
from compile_hud.db.store import Store
from compile_hud.runner.persistence.spool import ORPHAN_AGE_S, Spool
from compile_hud.runner.persistence.trace_retention import (
    TraceRules,
    prune_compile_traces,
    prune_traces,
)
from compile_hud.runner.persistence.trace_store import TraceFolder
from tests.support.builders import (
    START,
    make_alert,
    make_document,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.fakes import FakeClock
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

CONTENT = b"a trace"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"duckdb:///{tmp_path / 'store.duckdb'}")


def make_spool(tmp_path: Path, *, folder: Path | None) -> Spool:
    return Spool(tmp_path / "spool", now=FakeClock(), traces=TraceFolder(folder))


def result_with_trace(id: str = "r1", *, trace: str | None = None) -> CaseResult:
    profile: Mapping[str, Any] = {"trace": f"{id}.json.gz" if trace is None else trace, "busy": 1.0}
    return make_result(id, run=make_run(), details={"profile": profile})


def leave_trace(spool: Spool, result_id: str = "r1") -> Path:
    spool.directory.mkdir(exist_ok=True)
    path = spool.directory / f"{result_id}.json.gz"
    path.write_bytes(CONTENT)
    return path


def stored_profile(spool: Spool, store: Store, result: CaseResult) -> Mapping[str, Any]:
    spool.write(make_run(), result=result)
    assert spool.drain(store).num_ingested == 1
    profile: Mapping[str, Any] = load_result(store, result.id).details["profile"]
    return profile


def test_a_trace_moves_to_its_folder_when_its_result_is_stored(
    tmp_path: Path, store: Store
) -> None:
    spool = make_spool(tmp_path, folder=tmp_path / "kept")
    waiting = leave_trace(spool)
    profile = stored_profile(spool, store, result_with_trace())
    assert profile == {"trace": "r1.json.gz", "busy": 1.0}
    assert not waiting.exists()
    trace = spool.traces.find("r1")
    assert trace is not None
    assert trace.read_bytes() == CONTENT


def test_a_trace_that_is_missing_is_no_error_and_has_no_name(tmp_path: Path, store: Store) -> None:
    spool = make_spool(tmp_path, folder=tmp_path / "kept")
    assert stored_profile(spool, store, result_with_trace()) == {"trace": "", "busy": 1.0}
    assert spool.traces.find("r1") is None


def test_a_trace_that_moved_before_the_store_was_locked_keeps_its_name(
    tmp_path: Path, store: Store
) -> None:
    spool = make_spool(tmp_path, folder=tmp_path / "kept")
    leave_trace(spool)
    spool.traces.take(result_with_trace(), waiting=spool.directory)
    assert stored_profile(spool, store, result_with_trace())["trace"] == "r1.json.gz"


@pytest.mark.parametrize("trace", ["../../other.json.gz", "r2.json.gz", 7])
def test_a_name_that_is_not_of_the_result_is_dropped(
    tmp_path: Path, store: Store, trace: str
) -> None:
    spool = make_spool(tmp_path, folder=tmp_path / "kept")
    leave_trace(spool, "r2")
    assert stored_profile(spool, store, result_with_trace(trace=trace))["trace"] == ""
    assert not (tmp_path / "other.json.gz").exists()


def test_an_id_that_is_a_path_moves_nothing(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, folder=tmp_path / "kept")
    outside = tmp_path / "secret.json.gz"
    outside.write_bytes(CONTENT)
    path = spool.traces.take(result_with_trace("../secret"), waiting=spool.directory)
    assert path.details["profile"]["trace"] == ""
    assert outside.exists()


def test_a_folder_on_another_disk_gets_a_whole_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = make_spool(tmp_path, folder=tmp_path / "kept")
    waiting = leave_trace(spool)
    within = os.replace

    def replace(source: Path, target: Path) -> None:
        if source.parent != target.parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        within(source, target)

    monkeypatch.setattr(os, "replace", replace)
    result = spool.traces.take(result_with_trace(), waiting=spool.directory)
    assert result.details["profile"]["trace"] == "r1.json.gz"
    assert (tmp_path / "kept" / "r1.json.gz").read_bytes() == CONTENT
    assert not waiting.exists()


def test_a_full_disk_costs_the_trace_and_not_the_result(
    tmp_path: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    words: SnapshotAssertion,
) -> None:
    spool = make_spool(tmp_path, folder=tmp_path / "kept")
    waiting = leave_trace(spool)
    monkeypatch.setattr("compile_hud.runner.persistence.trace_store.move_file", _no_room)
    assert stored_profile(spool, store, result_with_trace())["trace"] == ""
    assert not waiting.exists()
    assert caplog.messages == words


def _no_room(_source: Path, _target: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_without_a_folder_traces_are_dropped_with_one_warning(
    tmp_path: Path, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    spool = make_spool(tmp_path, folder=None)
    for result_id in ("r1", "r2"):
        waiting = leave_trace(spool, result_id)
        assert stored_profile(spool, store, result_with_trace(result_id))["trace"] == ""
        assert not waiting.exists()
    messages = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(messages) == 1
    assert "[traces] folder" in messages[0]


def test_a_trace_that_no_result_came_for_goes_after_a_while(tmp_path: Path) -> None:
    clock = FakeClock()
    spool = Spool(tmp_path / "spool", now=clock)
    old, young = leave_trace(spool, "old"), leave_trace(spool, "young")
    os.utime(old, times=(clock().timestamp() - ORPHAN_AGE_S - 1,) * 2)
    os.utime(young, times=(clock().timestamp(),) * 2)
    waiting = spool.write(make_run(), result=result_with_trace("old"))
    spool.remove_unclaimed_traces()
    assert old.exists()
    waiting.unlink()
    spool.remove_unclaimed_traces()
    assert (old.exists(), young.exists()) == (False, True)


def test_old_traces_go_those_of_alerts_stay_and_every_row_stays(
    tmp_path: Path, store: Store, words: SnapshotAssertion
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    runs = [make_run(f"run-{n}", started_at=START + timedelta(days=n)) for n in range(5)]
    for run in runs:
        result = make_result(f"of-{run.id}", run=run, details={"profile": {"trace": "x"}})
        store.ingest(run, result, spool_id=result.id)
        (folder / f"{result.id}.json.gz").write_bytes(CONTENT)
    (folder / "notes.txt").write_text("of somebody else")
    good, bad = make_run_ref(runs[0]), make_run_ref(runs[1])
    save_alerts(store, [make_alert(last_good=good, first_bad=bad)])
    rules = TraceRules(num_nights=2)
    removed = prune_traces(folder, store=store, rules=rules)
    assert removed == words
    left = {path.name for path in folder.iterdir()}
    assert left == {"notes.txt", *(f"of-run-{n}.json.gz" for n in (0, 1, 3, 4))}
    assert load_result(store, "of-run-2").details["profile"] == {"trace": "x"}
    assert prune_traces(folder, store=store, rules=rules) == ""


def test_a_trace_of_a_result_that_waits_for_the_store_is_as_old_as_its_file(
    tmp_path: Path, store: Store
) -> None:
    for night in range(3):
        path = tmp_path / f"n{night}.json.gz"
        path.write_bytes(CONTENT)
        os.utime(path, times=((START + timedelta(days=night)).timestamp(),) * 2)
    prune_traces(tmp_path, store=store, rules=TraceRules(num_nights=2))
    assert sorted(path.name for path in tmp_path.glob("*.gz")) == ["n1.json.gz", "n2.json.gz"]


def leave_logs(folder: Path, *, num_nights: int) -> None:
    """Write the logs of the compiler of a run each night."""
    for night in range(num_nights):
        case = folder / f"run-{night}" / "bert-default" / "tlparse"
        case.mkdir(parents=True)
        (case.parent / "dedicated_log.log").write_bytes(CONTENT)
        os.utime(folder / f"run-{night}", times=((START + timedelta(days=night)).timestamp(),) * 2)


def test_logs_of_the_compiler_go_as_traces_do(
    tmp_path: Path, store: Store, words: SnapshotAssertion
) -> None:
    folder = tmp_path / "logs"
    leave_logs(folder, num_nights=5)
    (folder / "generated-code.json").write_text("{}")
    runs = [make_run(f"run-{n}", started_at=START + timedelta(days=n)) for n in (0, 1)]
    good, bad = map(make_run_ref, runs)
    save_alerts(store, [make_alert(last_good=good, first_bad=bad)])
    rules = TraceRules(num_nights=2)
    planned = prune_compile_traces(folder, store=store, rules=rules, is_dry_run=True)
    assert len([*folder.iterdir()]) == 6
    assert [planned, prune_compile_traces(folder, store=store, rules=rules)] == words
    left = {path.name for path in folder.iterdir()}
    assert left == {"generated-code.json", "run-0", "run-1", "run-3", "run-4"}
    assert prune_compile_traces(folder, store=store, rules=rules) == ""
    small = TraceRules(num_nights=9, max_bytes=2 * len(CONTENT))
    prune_compile_traces(folder, store=store, rules=small)
    assert {path.name for path in folder.glob("run-*")} == {"run-0", "run-1"}
    assert prune_compile_traces(tmp_path / "missing", store=store, rules=rules) == ""


def test_a_run_removes_old_logs_of_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    (tmp_path / "hud.toml").write_text("[traces]\nnights = 1\n")
    folder = tmp_path / ".hud" / "compile-traces"
    leave_logs(folder, num_nights=2)
    result = terminal.hud("run", "--model", "bert", "--mode", "eager", "--no-reference")
    assert ("the compiler" in result.stderr, result.exit_code) == (True, 0)
    assert [path.name for path in folder.iterdir()] == ["run-1"]


def test_a_run_ends_by_removing_what_no_rule_keeps_and_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    (tmp_path / "hud.toml").write_text("[traces]\nnights = 1\n")
    folder = tmp_path / ".hud" / "store.duckdb.traces"
    folder.mkdir(parents=True)
    for night in range(2):
        path = folder / f"n{night}.json.gz"
        path.write_bytes(CONTENT)
        os.utime(path, times=((START + timedelta(days=night)).timestamp(),) * 2)
    run = ("run", "--model", "bert", "--mode", "eager", "--no-reference")
    unclaimed = tmp_path / ".hud" / "spool" / "of-nobody.json.gz"
    unclaimed.parent.mkdir()
    unclaimed.write_bytes(CONTENT)
    os.utime(unclaimed, times=(START.timestamp() - ORPHAN_AGE_S - 1,) * 2)
    result = terminal.hud(*run, "--no-store")
    assert not unclaimed.exists()
    assert "traces" not in result.stderr
    assert result.exit_code == 0
    assert "removed 1 of 2 traces" in terminal.hud(*run).stderr
    assert [path.name for path in folder.iterdir()] == ["n1.json.gz"]
    assert "traces" not in terminal.hud(*run).stderr


def test_a_run_that_finds_no_room_for_its_results_makes_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def no_room(*_args: object, **_options: object) -> bool:
        raise StoreFull("no room left")

    def prune_some(*_args: object, **_options: object) -> str:
        return "removed 1 of 2 traces"

    monkeypatch.setattr(Store, "ingest", no_room)
    monkeypatch.setattr("compile_hud.runner.persistence.retention.prune_traces", prune_some)
    result = Terminal(tmp_path).hud("run", "--model", "bert", "--mode", "eager", "--no-reference")
    assert result.exit_code == 1
    assert "no room left" in result.stderr
    assert "removed 1 of 2 traces" in result.stderr


def test_a_folder_that_cannot_be_pruned_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("compile_hud.runner.persistence.retention.prune_traces", _no_access)
    result = Terminal(tmp_path).hud("run", "--model", "bert", "--mode", "eager", "--no-reference")
    assert result.exit_code == 0
    assert result.stderr == words


def _no_access(*_args: object, **_options: object) -> str:
    raise PermissionError("no access")


def test_a_document_of_another_machine_comes_without_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    document = make_document(make_run(), results=[result_with_trace()])
    (tmp_path / "out.json").write_text(json.dumps(document.to_json()))
    assert terminal.json("ingest", "out.json", "--json")["ingested"] == 1
    assert load_result(terminal.store(), "r1").details["profile"]["trace"] == ""

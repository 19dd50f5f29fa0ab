"""Measured and synthetic runs never share a store, and neither is dropped silently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.engine.readers_writer_lock import LockTimeout
from compile_hud.db.errors import RecordError, StoreError, StoreLocked, StoreTooOld
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import Run, RunState
from compile_hud.db.store import LOCK_TIMEOUT_S, Store
from tests.support.builders import make_run
from tests.support.records.v3_records import make_record, write_lines
from tests.support.stores import store_processes
from tests.support.stores.store_processes import child, kill
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def waiting_in(terminal: Terminal) -> list[Path]:
    return [path for path in (terminal.folder / ".hud" / "spool").rglob("*") if path.is_file()]


def refusing(error: StoreError) -> Callable[..., NoReturn]:
    """Return a method of Store that raises `error` whatever it is given."""

    def refuse(*_facts: object, **_others: object) -> NoReturn:
        raise error

    return refuse


def test_nothing_is_measured_for_a_store_of_synthetic_runs(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    Store("duckdb:///made-up").save_run(make_run("demo", is_synthetic=True))
    result = terminal.hud("run", "--suite", "mine", "--store", "made-up")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (words)
    assert (terminal.executors, waiting_in(terminal)) == ([], [])


def test_demo_refuses_a_store_of_real_runs(terminal: Terminal, words: SnapshotAssertion) -> None:
    terminal.hud("run", "--suite", "mine")
    result = terminal.hud("demo", "--nights", "3", "--store", ".hud/store.duckdb")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == words
    assert len(load_runs(terminal.store())) == 1


def test_what_others_measured_and_what_is_measured_here_share_a_store(terminal: Terminal) -> None:
    write_lines(terminal.folder / "theirs.json", [make_record("abs_latency", 10.0)])
    terminal.json("import", "theirs.json", "--json")
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    assert len(load_runs(terminal.store())) == 2


@pytest.mark.parametrize("error", [StoreLocked("held by PID 7"), StoreTooOld("of last year")])
def test_a_store_that_is_unavailable_now_is_measured_for(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    monkeypatch.setattr(Store, "check_takes_measured", refusing(error))
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    assert len(load_runs(terminal.store())) == 1


def giving_up(on_wait: Callable[[int | None, float], None]) -> Callable[..., bool]:
    """Return a `LockTimeout.wait` that does not wait.

    It tells `on_wait` who has the lock, and how many seconds it would have waited.
    """

    def wait(
        lock_timeout: LockTimeout,
        *,
        is_free: Callable[[], bool],
        holder: Callable[[], int | None] = lambda: None,
        **_rests: bool,
    ) -> bool:
        if is_free():
            return True
        on_wait(holder(), lock_timeout.timeout_s)
        lock_timeout.on_wait(holder(), lock_timeout.timeout_s)
        return False

    return wait


def test_a_store_that_comes_free_after_the_last_case_takes_what_was_measured(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = terminal.store()
    store.migrate()
    measured: list[object] = []
    terminal.on_execute = measured.append
    with child(store_processes.hold_file, store.name) as (process, pipe):
        assert pipe.recv() == "held"

        def on_wait(_holder: int | None, timeout_s: float) -> None:
            # What was measured was offered, and in vain.
            if len(measured) == 2 and timeout_s == LOCK_TIMEOUT_S:
                kill(process, pipe)

        monkeypatch.setattr(LockTimeout, "wait", giving_up(on_wait))
        result = terminal.hud("run", "--suite", "mine")
    assert result.exit_code == 0, result.stderr
    assert "in the spool and is not judged" not in result.stderr
    assert "the store takes results again; nothing was lost\n" in result.stderr
    (summary,) = load_runs(store)
    assert len(load_document(store, summary.run.id).results) == 2


def test_a_store_that_is_locked_is_waited_for_before_the_first_case_and_after_the_last(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = terminal.store()
    store.migrate()
    holders: set[int | None] = set()
    waits: list[float] = []
    waits_before_a_case: list[int] = []

    def on_wait(holder: int | None, timeout_s: float) -> None:
        holders.add(holder)
        # Less is what heartbeats wait, and who asks once more.
        if timeout_s == LOCK_TIMEOUT_S:
            waits.append(timeout_s)

    monkeypatch.setattr(LockTimeout, "wait", giving_up(on_wait))
    # A suite with a time budget asks the store whose turn it is.
    with (terminal.folder / "hud.toml").open("a") as settings:
        settings.write('time_budget = "1 h"\n')
    terminal.on_execute = lambda _order: waits_before_a_case.append(len(waits))
    with child(store_processes.hold_file, store.name) as (process, pipe):
        assert pipe.recv() == "held"
        result = terminal.hud("run", "--suite", "mine", "--fail-on", "none")
        assert result.exit_code == 0
        assert (waits_before_a_case, len(waits)) == ([1, 1], 2)
        assert holders == {process.pid}
    assert "UTC. Then it is measured all the same: the spool keeps the results\n" in result.stderr
    assert "Measuring all the same: the spool keeps the results" in result.stderr
    assert "what was measured waits in the spool and is not judged. `hud ingest`" in result.stderr
    assert "removed" not in result.stderr
    assert terminal.json("ingest", "--json")["left"] == 0
    (summary,) = load_runs(store)
    assert len(load_document(store, summary.run.id).results) == len(waits_before_a_case) == 2


def test_an_end_of_a_run_that_was_refused_once_is_stored_and_that_is_reported(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[Run] = []
    save_run = Store.save_run

    def refuse_once(store: Store, run: Run) -> None:
        if run.state is RunState.FINISHED and not refused:
            refused.append(run)
            raise StoreLocked("held by PID 7")
        save_run(store, run)

    monkeypatch.setattr(Store, "save_run", refuse_once)
    result = terminal.hud("run", "--suite", "mine")
    assert result.exit_code == 0, result.stderr
    assert "held by PID 7. The spool keeps 1 file" in result.stderr
    assert "the store takes results again; nothing was lost\n" in result.stderr
    (summary,) = load_runs(terminal.store())
    assert summary.run.state is RunState.FINISHED


@pytest.mark.parametrize("error", [RecordError("of another run"), StoreLocked("held by PID 7")])
def test_results_that_are_not_stored_fail_the_run(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Store, "ingest", refusing(error))
        assert terminal.hud("run", "--suite", "mine").exit_code == 1
        assert terminal.hud("run", "--suite", "mine", "--fail-on", "failure").exit_code == 1
        assert terminal.hud("run", "--suite", "mine", "--fail-on", "none").exit_code == 0
        assert terminal.hud("run", "--suite", "mine", "--no-store").exit_code == 0
    # What stays of other runs is none of this one's, and nor is what nobody can read.
    (terminal.folder / ".hud" / "spool" / "broken").mkdir(exist_ok=True)
    (terminal.folder / ".hud" / "spool" / "broken" / "half.json").write_text("{")
    assert terminal.hud("run", "--suite", "mine").exit_code == 0

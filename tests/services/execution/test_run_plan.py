from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import StoreError, StoreFull, StoreLocked
from compile_hud.db.queries.runs import load_run, load_runs
from compile_hud.db.records.results import CaseResult, Outcome, Run, RunState
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.errors import (
    ExecutorError,
    ResumeError,
    RunInterrupted,
    SpoolFull,
    ToolchainUnusable,
)
from compile_hud.runner.events import CaseFinished, Event, LogMessage, RunEnded, RunStarted
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.run_plan import REFERENCE_BUDGET_S
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.persistence.spool import DrainReport, ResultStore, Spool
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.protocol.messages import MeasureSettings
from compile_hud.runner.system.heartbeat_thread import heartbeat
from compile_hud.runner.system.locks import waiting_lock
from tests.support.builders import START, make_result, make_run
from tests.support.fakes import FACTS, FakeExecutor
from tests.support.runs.runs import REQUEST, RunSandbox, interrupt, on_case, wait_until


@pytest.fixture
def sandbox(tmp_path: Path) -> RunSandbox:
    return RunSandbox(tmp_path)


def test_a_run_is_stored_with_every_result(sandbox: RunSandbox) -> None:
    executor = FakeExecutor()
    document = sandbox.run(executor=executor)
    assert sandbox.load("latest") == document
    assert document.run.state is RunState.FINISHED
    assert document.run.revision == "2.13.0+cpu@0123456789"
    assert document.run.environment["num_threads"] == 1
    assert [result.case for result in document.results] == list(document.run.plan)
    assert executor.is_open is False
    assert sandbox.spool is not None
    assert sandbox.spool.pending() == ()


def test_events_are_reported_in_order(sandbox: RunSandbox) -> None:
    sandbox.run(executor=FakeExecutor())
    kinds = [type(event).__name__ for event in sandbox.events]
    assert kinds == ["LogMessage", "RunStarted", *["CaseStarted", "CaseFinished"] * 4, "RunEnded"]


def test_a_result_is_in_the_store_while_the_next_case_runs(sandbox: RunSandbox) -> None:
    seen: list[str] = []

    def look(order: CaseOrder) -> None:
        wait_until(lambda: len(sandbox.load(order.run_id).results) == len(seen))
        seen.append(order.case.key)

    sandbox.run(executor=FakeExecutor(on_execute=look))
    assert len(seen) == 4


def test_the_next_case_does_not_wait_for_a_store_that_is_slow(
    sandbox: RunSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_next = threading.Event()
    drain = Spool.drain

    def drain_late(spool: Spool, store: ResultStore) -> DrainReport:
        if threading.current_thread() is not threading.main_thread():
            assert is_next.wait(60)
        return drain(spool, store)

    monkeypatch.setattr(Spool, "drain", drain_late)
    document = sandbox.run(executor=FakeExecutor(on_execute=on_case(2, is_next.set)))
    assert len(document.results) == 4
    assert len(sandbox.load("latest").results) == 4


def test_what_storing_raises_meanwhile_ends_the_run_after_the_next_case(
    sandbox: RunSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    drain = Spool.drain

    def drain_badly(spool: Spool, store: ResultStore) -> DrainReport:
        if threading.current_thread() is not threading.main_thread():
            raise OSError(5, "Input/output error")
        return drain(spool, store)

    monkeypatch.setattr(Spool, "drain", drain_badly)
    with pytest.raises(OSError, match="Input/output error"):
        sandbox.run(executor=FakeExecutor(on_execute=lambda order: seen.append(order.case.key)))
    assert len(seen) == 2
    document = sandbox.load("latest")
    assert document.run.state is RunState.INTERRUPTED
    assert len(document.results) == 2


def test_a_case_that_fails_does_not_end_the_run(sandbox: RunSandbox) -> None:
    selection = Selection(models=("fails", "times_out", "bert"), modes=("eager",))
    request = replace(REQUEST, selection=selection)
    document = sandbox.run(request, executor=FakeExecutor())
    outcomes = {result.case.model: result.outcome for result in document.results}
    assert outcomes == {
        "bert": Outcome.OK,
        "fails": Outcome.FAILED,
        "times_out": Outcome.TIMEOUT,
    }
    assert document.run.state is RunState.FINISHED


def test_an_unknown_name_is_reported_before_anything_starts(
    sandbox: RunSandbox, words: SnapshotAssertion
) -> None:
    executor = FakeExecutor()
    request = replace(REQUEST, selection=Selection(models=("brt",)))
    with pytest.raises(UnknownNameError) as caught:
        sandbox.run(request, executor=executor)
    assert str(caught.value) == words
    assert sandbox.events == []


class MoodyStore(Store):
    """A store that is locked while `is_locked`."""

    is_locked = False
    error: StoreError = StoreLocked("the store is held by PID 7")
    num_asked = 0

    def ingest(self, run: Run, result: CaseResult, *, spool_id: str) -> bool:
        self.num_asked += 1
        if self.is_locked:
            raise self.error
        return super().ingest(run, result, spool_id=spool_id)


def test_a_locked_store_is_reported_once_and_loses_nothing(
    sandbox: RunSandbox, tmp_path: Path, words: SnapshotAssertion
) -> None:
    store = sandbox.store = MoodyStore(f"duckdb:///{tmp_path / 'moody.duckdb'}", now=sandbox.clock)
    store.is_locked = True

    def unlock() -> None:
        store.is_locked = False
        sandbox.clock.advance(120.0)

    document = sandbox.run(executor=FakeExecutor(on_execute=on_case(4, unlock)))
    _, waiting, again = sandbox.messages()
    # A busy machine may have measured another one by then.
    assert waiting.replace("2 files", "1 file") == words
    assert again == words
    assert sandbox.load("latest") == document


def test_a_store_that_took_nothing_is_queried_again_before_a_run_goes_on(
    sandbox: RunSandbox, tmp_path: Path
) -> None:
    store = sandbox.store = MoodyStore(f"duckdb:///{tmp_path / 'moody.duckdb'}", now=sandbox.clock)
    writer = ResultWriter(
        store, spool=sandbox.spool, notify=sandbox.events.append, now=sandbox.clock
    )
    run = make_run()
    assert sandbox.spool is not None
    sandbox.spool.write(run, result=make_result(run=run))
    writer.back_off(StoreLocked("the store is held by PID 7"))
    writer.drain_before_run(is_resume=False)
    assert store.num_asked == 0
    assert writer.is_backing_off()
    writer.drain_before_run(is_resume=True)
    assert store.num_asked == 1
    assert writer.error == ""
    assert load_run(store, run.id) == run


# Asked after the first result and at the end, or after each, and not right after the last again.
@pytest.mark.parametrize(("case_s", "num_attempts"), [(10.0, 2), (130.0, 4)])
def test_a_locked_store_is_retried_periodically_and_at_the_end(
    sandbox: RunSandbox, tmp_path: Path, case_s: float, num_attempts: int, words: SnapshotAssertion
) -> None:
    store = sandbox.store = MoodyStore(f"duckdb:///{tmp_path / 'moody.duckdb'}", now=sandbox.clock)
    store.is_locked = True
    seen: list[str] = []

    def take_long(order: CaseOrder) -> None:
        # A thread passes the first result on meanwhile.
        wait_until(lambda: not seen or any("held by PID 7" in text for text in sandbox.messages()))
        seen.append(order.case.key)
        sandbox.clock.advance(case_s)

    sandbox.run(executor=FakeExecutor(on_execute=take_long))
    assert store.num_asked == num_attempts
    _, *messages = sandbox.messages()
    assert messages == words


def test_another_error_of_the_store_is_reported_too(
    sandbox: RunSandbox, tmp_path: Path, words: SnapshotAssertion
) -> None:
    store = sandbox.store = MoodyStore(f"duckdb:///{tmp_path / 'moody.duckdb'}", now=sandbox.clock)
    store.is_locked = True

    def fill() -> None:
        store.error = StoreFull("no room")
        sandbox.clock.advance(130.0)

    sandbox.run(executor=FakeExecutor(on_execute=on_case(4, fill)))
    assert [text for text in sandbox.messages() if "no room" in text] == words


def test_what_stayed_in_the_spool_goes_in_with_the_next_run(
    sandbox: RunSandbox, tmp_path: Path
) -> None:
    store = sandbox.store = MoodyStore(f"duckdb:///{tmp_path / 'moody.duckdb'}", now=sandbox.clock)
    store.is_locked = True
    first = sandbox.run(executor=FakeExecutor())
    assert sandbox.spool is not None
    assert len(sandbox.spool.pending()) == 5
    store.is_locked = False
    sandbox.run(executor=FakeExecutor())
    assert sandbox.load(first.run.id) == first


def test_without_a_store_results_are_returned_all_the_same(sandbox: RunSandbox) -> None:
    sandbox.store = sandbox.spool = None
    assert len(sandbox.run(executor=FakeExecutor()).results) == 4


def test_ctrl_c_keeps_what_was_measured(sandbox: RunSandbox) -> None:
    executor = FakeExecutor(on_execute=on_case(3, interrupt))
    document = sandbox.run(executor=executor)
    assert executor.is_cancelled
    assert len(document.results) == 2
    assert document.run.state is RunState.INTERRUPTED
    assert sandbox.load("latest") == document
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sigterm_is_as_orderly_as_ctrl_c(sandbox: RunSandbox) -> None:
    executor = FakeExecutor(on_execute=on_case(1, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert sandbox.run(executor=executor).run.state is RunState.INTERRUPTED
    assert sandbox.load("latest").results == ()


def test_ctrl_c_before_the_first_case_ends_at_once(
    sandbox: RunSandbox, words: SnapshotAssertion
) -> None:
    class SlowToOpen(FakeExecutor):
        def open(self) -> dict[str, object]:
            interrupt()
            return dict(FACTS)

    with pytest.raises(RunInterrupted) as caught:
        sandbox.run(executor=SlowToOpen())
    assert str(caught.value) == words
    assert sandbox.store is not None
    assert load_runs(sandbox.store) == []


def test_a_resumed_run_executes_only_what_is_left(sandbox: RunSandbox) -> None:
    interrupted = sandbox.run(executor=FakeExecutor(on_execute=on_case(3, interrupt)))
    executor = FakeExecutor()
    request = replace(REQUEST, resume_id=interrupted.run.id)
    sandbox.events.clear()
    document = sandbox.run(request, executor=executor)
    assert executor.executed == [case.key for case in interrupted.run.plan[2:]]
    assert document.run.state is RunState.FINISHED
    assert document.run.id == interrupted.run.id
    assert [result.case for result in document.results] == list(document.run.plan)
    assert sandbox.load(document.run.id) == document
    (started,) = [event for event in sandbox.events if isinstance(event, RunStarted)]
    assert started.num_done == 2


def test_a_resumed_run_is_measured_as_it_began(sandbox: RunSandbox) -> None:
    interrupted = sandbox.run(executor=FakeExecutor(on_execute=on_case(1, interrupt)))
    settings: list[MeasureSettings] = []
    changed = replace(
        REQUEST,
        resume_id=interrupted.run.id,
        settings=MeasureSettings(num_rounds=3, num_threads=2),
    )
    sandbox.run(
        changed, executor=FakeExecutor(on_execute=lambda order: settings.append(order.settings))
    )
    assert set(settings) == {REQUEST.settings}


def test_another_revision_cannot_resume(sandbox: RunSandbox, words: SnapshotAssertion) -> None:
    interrupted = sandbox.run(executor=FakeExecutor(on_execute=on_case(1, interrupt)))
    request = replace(REQUEST, resume_id=interrupted.run.id)
    newer = FakeExecutor(facts={**FACTS, "torch_version": "2.14.0"})
    with pytest.raises(ResumeError) as caught:
        sandbox.run(request, executor=newer)
    assert str(caught.value) == words


def test_another_environment_cannot_resume(sandbox: RunSandbox, words: SnapshotAssertion) -> None:
    interrupted = sandbox.run(executor=FakeExecutor(on_execute=on_case(1, interrupt)))
    request = replace(REQUEST, resume_id=interrupted.run.id)
    other = FakeExecutor(facts={**FACTS, "cpu_model": "Other CPU"})
    with pytest.raises(ResumeError) as caught:
        sandbox.run(request, executor=other)
    assert caught.value.parameters["keys"] == "cpu_model"
    assert str(caught.value) == words


def test_a_run_of_another_machine_is_not_resumed_here(
    sandbox: RunSandbox, words: SnapshotAssertion
) -> None:
    interrupted = sandbox.run(executor=FakeExecutor(on_execute=on_case(1, interrupt)))
    request = replace(REQUEST, resume_id=interrupted.run.id, machine="other")
    with pytest.raises(ResumeError) as caught:
        sandbox.run(request, executor=FakeExecutor())
    assert caught.value.parameters["machine"] == "box"
    assert str(caught.value) == words


def test_a_finished_run_cannot_resume(sandbox: RunSandbox, words: SnapshotAssertion) -> None:
    finished = sandbox.run(executor=FakeExecutor())
    request = replace(REQUEST, resume_id=finished.run.id)
    with pytest.raises(ResumeError) as caught:
        sandbox.run(request, executor=FakeExecutor())
    assert str(caught.value) == words


def test_a_full_spool_ends_the_run_and_keeps_earlier_results(
    sandbox: RunSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk() -> None:
        def no_room(_descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", no_room)

    with pytest.raises(SpoolFull, match="`hud run --resume"):
        sandbox.run(executor=FakeExecutor(on_execute=on_case(3, fill_disk)))
    document = sandbox.load("latest")
    assert len(document.results) == 2
    assert document.run.state is RunState.INTERRUPTED


def test_a_host_that_is_gone_interrupts_the_run(
    sandbox: RunSandbox, words: SnapshotAssertion
) -> None:
    def host_dies() -> None:
        raise ExecutorError("no host can be started any more")

    with pytest.raises(ExecutorError) as caught:
        sandbox.run(executor=FakeExecutor(on_execute=on_case(2, host_dies)))
    assert str(caught.value) == words
    document = sandbox.load("latest")
    assert len(document.results) == 1
    assert document.run.state is RunState.INTERRUPTED


@pytest.mark.parametrize("method", ["start", "open"])
def test_a_toolchain_that_does_not_start_is_distinguished_from_one_that_dies(
    sandbox: RunSandbox, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail() -> None:
        raise ExecutorError("no torch there")

    executor = FakeExecutor()
    monkeypatch.setattr(executor, method, fail)
    with pytest.raises(ToolchainUnusable, match="no torch there"):
        sandbox.run(executor=executor)


def test_the_host_starts_while_the_store_is_looked_at(sandbox: RunSandbox) -> None:
    executor = FakeExecutor()
    seen: list[tuple[bool, bool]] = []

    class Watching(Store):
        def interrupt_stale_runs(self, *, older_than_s: float) -> list[str]:
            seen.append((executor.is_started, executor.is_open))
            return super().interrupt_stale_runs(older_than_s=older_than_s)

    assert sandbox.store is not None
    sandbox.store = Watching(sandbox.store.url, now=sandbox.clock)
    sandbox.run(executor=executor)
    assert seen == [(True, False)]


def test_a_run_whose_process_died_is_marked_interrupted_by_the_next(sandbox: RunSandbox) -> None:
    assert sandbox.store is not None
    sandbox.store.save_run(make_run("dead", machine="box"))
    sandbox.store.save_run(make_run("elsewhere", machine="other"))
    sandbox.run(executor=FakeExecutor())
    assert load_run(sandbox.store, "dead").state is RunState.INTERRUPTED
    assert load_run(sandbox.store, "elsewhere").state is RunState.RUNNING


def test_a_run_without_heartbeats_is_marked_interrupted(sandbox: RunSandbox) -> None:
    assert sandbox.store is not None
    sandbox.store.save_run(make_run("elsewhere", machine="other"))
    sandbox.clock.advance(61.0)
    sandbox.run(executor=FakeExecutor())
    assert load_run(sandbox.store, "elsewhere").state is RunState.INTERRUPTED


@pytest.fixture
def device_holder(sandbox: RunSandbox) -> Iterator[threading.Event]:
    """Hold the device in another thread until the event is set."""
    is_locked, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with waiting_lock(sandbox.lock_dir / "device-cpu.lock", on_wait=lambda _pid: None):
            is_locked.set()
            is_over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_locked.wait()
    yield is_over
    is_over.set()
    thread.join()


def test_a_second_run_names_the_holder(
    sandbox: RunSandbox, device_holder: threading.Event, words: SnapshotAssertion
) -> None:
    class Impatient(list[Event]):
        def append(self, event: Event) -> None:
            super().append(event)
            if isinstance(event, LogMessage) and event.text.startswith("waiting"):
                device_holder.set()

    sandbox.events = Impatient()
    sandbox.run(executor=FakeExecutor())
    assert sandbox.messages()[0] == words
    assert isinstance(sandbox.events[-1], RunEnded)
    assert sum(isinstance(event, CaseFinished) for event in sandbox.events) == 4


def test_ctrl_c_ends_the_waiting(sandbox: RunSandbox, device_holder: threading.Event) -> None:
    class Interrupting(list[Event]):
        def append(self, _event: Event) -> None:
            interrupt()

    sandbox.events = Interrupting()
    with pytest.raises(RunInterrupted):
        sandbox.run(executor=FakeExecutor())
    assert not device_holder.is_set()


def test_the_heart_beats_until_the_block_ends() -> None:
    beats: list[None] = []
    has_beaten_twice = threading.Event()

    def beat() -> None:
        beats.append(None)
        if len(beats) == 2:
            has_beaten_twice.set()

    with heartbeat(beat, every_s=0.001):
        assert has_beaten_twice.wait(60)
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]


def test_a_heartbeat_reaches_the_store(sandbox: RunSandbox) -> None:
    assert sandbox.store is not None
    writer = ResultWriter(sandbox.store, spool=None, notify=sandbox.events.append)
    writer.record_heartbeat("not-there-yet")
    sandbox.store.save_run(make_run("run-1"))
    sandbox.clock.advance(5.0)
    writer.record_heartbeat("run-1")
    (summary,) = load_runs(sandbox.store)
    assert summary.heartbeat_at is not None
    assert (summary.heartbeat_at - START).total_seconds() == 5.0


def test_reference_cases_come_first_and_cost_next_to_nothing(sandbox: RunSandbox) -> None:
    orders: list[CaseOrder] = []
    request = replace(REQUEST, has_references=True)
    sandbox.run(request, executor=FakeExecutor(on_execute=orders.append))
    assert [order.case.is_reference for order in orders] == [True] * 3 + [False] * 4
    references, models = orders[:3], orders[3:]
    assert {order.settings for order in models} == {REQUEST.settings}
    for order in references:
        assert order.settings.budget_s == REFERENCE_BUDGET_S
        assert order.settings.max_launches == REQUEST.settings.num_launches


def test_a_resumed_run_keeps_its_plan(sandbox: RunSandbox) -> None:
    request = replace(REQUEST, has_references=True)
    interrupted = sandbox.run(request, executor=FakeExecutor(on_execute=on_case(2, interrupt)))
    executor = FakeExecutor()
    document = sandbox.run(replace(REQUEST, resume_id=interrupted.run.id), executor=executor)
    assert len(executor.executed) == 6
    assert [case.is_reference for case in document.run.plan] == [True] * 3 + [False] * 4


def test_a_run_waits_for_an_idle_device_and_reports_other_users(
    sandbox: RunSandbox, words: SnapshotAssertion
) -> None:
    sandbox.users = [("python3 (PID 7)",)] * 3
    request = replace(REQUEST, wait_idle_s=20.0)
    document = sandbox.run(request, executor=FakeExecutor())
    assert sandbox.messages()[:2] == words
    assert {result.warnings[-1].code for result in document.results} == {"shared-gpu"}

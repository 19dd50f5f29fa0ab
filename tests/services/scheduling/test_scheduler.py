from __future__ import annotations

import dataclasses
import re
import signal
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from sqlalchemy.exc import OperationalError
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import StoreLocked
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from compile_hud.runner.errors import (
    RunInterrupted,
    SchedulerBusy,
    SchedulerUnavailable,
)
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.scheduling.job_requests import JobRequests, night_key
from compile_hud.runner.scheduling.job_worker import JobWorker
from compile_hud.runner.scheduling.scheduler import Scheduler, scheduling
from tests.support.fakes import FakeExecutor
from tests.support.runs.job_queue import NIGHT, REQUEST, JobSandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> JobSandbox:
    return JobSandbox(tmp_path)


def without_times(messages: list[str]) -> list[str]:
    """Return each message once: how often a write is retried depends on the time."""
    return sorted({re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "NIGHT", text) for text in messages})


def test_a_time_that_comes_twice_in_a_night_has_one_key() -> None:
    first = datetime(2026, 10, 25, 0, 30, tzinfo=timezone.utc)
    keys = {
        night_key("night", at=first + timedelta(hours=late), timezone="Europe/Berlin")
        for late in (0, 1)
    }
    assert keys == {"night 2026-10-25T02:30"}


def test_the_next_night_has_another_key() -> None:
    first = datetime(2026, 10, 25, 0, 30, tzinfo=timezone.utc)
    later = night_key("night", at=first + timedelta(days=1), timezone="UTC")
    assert later != night_key("night", at=first, timezone="UTC")


def test_a_missed_night_fires_once_at_the_next_start(tmp_path: Path) -> None:
    wake = threading.Event()
    missed = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=1)
    with scheduling({"night": NIGHT}, state_dir=tmp_path, wake=wake) as scheduler:
        scheduler.pause()
        scheduler.modify_job("night", next_run_time=missed)
    assert not wake.is_set()
    with scheduling({"night": NIGHT}, state_dir=tmp_path, wake=wake) as scheduler:
        assert wake.wait(60)
        assert scheduler.get_job("night").next_run_time > missed
    store = Store(f"duckdb:///{tmp_path / 'store.duckdb'}")
    assert JobRequests(tmp_path / "jobs").flush(store, machine="box") == ""
    job = store.lease_job()
    assert job is not None
    assert job.dedupe_key == night_key("night", at=missed, timezone="UTC")
    assert (job.suite, job.toolchain, job.trigger) == ("mine", "current", "schedule night")
    assert store.lease_job() is None


def test_schedules_follow_the_settings(tmp_path: Path) -> None:
    other = dataclasses.replace(NIGHT, name="other")
    changed = dataclasses.replace(NIGHT, cron="30 3 1 1 *")
    wake = threading.Event()
    with scheduling({"night": NIGHT, "other": other}, state_dir=tmp_path, wake=wake) as scheduler:
        assert {job.id for job in scheduler.get_jobs()} == {"night", "other"}
    with scheduling({"night": changed}, state_dir=tmp_path, wake=wake) as scheduler:
        (job,) = scheduler.get_jobs()
        assert (job.next_run_time.hour, job.next_run_time.minute) == (3, 30)


def test_a_schedule_fires_by_the_clock_of_its_time_zone_summer_and_winter(tmp_path: Path) -> None:
    berlin = dataclasses.replace(NIGHT, cron="30 2 * * *", timezone="Europe/Berlin")
    fired: list[datetime] = []
    with scheduling({"night": berlin}, state_dir=tmp_path, wake=threading.Event()) as scheduler:
        trigger = scheduler.get_job("night").trigger
    # Clocks go forward over that very time on the 29th of March, and back on the 25th of October.
    for start in (
        datetime(2026, 3, 28, tzinfo=timezone.utc),
        datetime(2026, 10, 24, 22, tzinfo=timezone.utc),
    ):
        last = None
        for _ in range(3):
            last = trigger.get_next_fire_time(last, start if last is None else last)
            fired.append(last.astimezone(timezone.utc))
    assert [f"{at:%m-%d %H:%M}" for at in fired] == [
        *("03-28 01:30", "03-29 01:30", "03-30 00:30"),
        *("10-25 00:30", "10-25 01:30", "10-26 01:30"),
    ]
    # It comes twice then, and is one night.
    nights = [night_key("night", at=at, timezone="Europe/Berlin")[-8:] for at in fired]
    assert nights == ["28T02:30", "29T03:30", "30T02:30", "25T02:30", "25T02:30", "26T02:30"]


def test_a_second_scheduler_is_refused(tmp_path: Path, words: SnapshotAssertion) -> None:
    wake = threading.Event()
    with (
        scheduling({}, state_dir=tmp_path, wake=wake),
        pytest.raises(SchedulerBusy) as caught,
        scheduling({}, state_dir=tmp_path, wake=wake),
    ):
        pass
    assert str(caught.value) == words


def test_a_queued_job_is_run_judged_and_done(sandbox: JobSandbox) -> None:
    sandbox.requests.write(REQUEST)
    assert sandbox.loop.run_queued() == ""
    (summary,) = load_runs(sandbox.store)
    assert summary.run.state is RunState.FINISHED
    assert summary.run.trigger == "job night 2026-01-01T02:30"
    assert [document.run.id for document in sandbox.judged] == [summary.run.id]
    assert sandbox.store.lease_job() is None


def test_a_night_requested_twice_is_run_once(sandbox: JobSandbox) -> None:
    for _ in range(2):
        sandbox.requests.write(REQUEST)
        sandbox.loop.run_queued()
    assert len(load_runs(sandbox.store)) == 1


def test_two_machines_with_one_store_and_one_hud_toml_measure_a_night_each(
    sandbox: JobSandbox,
) -> None:
    config = dataclasses.replace(
        sandbox.workspace.config,
        machine="bay",
        state_dir=sandbox.workspace.config.state_dir / "bay",
    )
    bay = dataclasses.replace(
        sandbox.loop, workspace=dataclasses.replace(sandbox.workspace, config=config)
    )
    for _ in range(2):
        for loop in (sandbox.loop, bay):
            JobRequests(loop.workspace.config.state_dir / "jobs").write(REQUEST)
            assert loop.run_queued() == ""
    assert sorted(summary.run.machine for summary in load_runs(sandbox.store)) == ["bay", "box"]


def test_a_request_waits_for_a_locked_store(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> bool:
        raise StoreLocked("held by PID 7")

    sandbox.requests.write(REQUEST)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "enqueue_job", locked)
        assert sandbox.loop.run_queued() == "held by PID 7"
    assert sandbox.loop.run_queued() == ""
    assert len(load_runs(sandbox.store)) == 1


def test_a_store_that_cannot_be_queried_for_jobs_is_reported(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> None:
        raise StoreLocked("held by PID 7")

    monkeypatch.setattr(Store, "lease_job", locked)
    assert sandbox.loop.run_queued() == "held by PID 7"


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"schema_version": 2}', '{"schema_version": 1, "suite": 3}']
)
def test_a_broken_request_is_set_aside(sandbox: JobSandbox, content: str) -> None:
    sandbox.requests.write(REQUEST)
    (path,) = sandbox.requests.directory.iterdir()
    path.write_text(content)
    assert sandbox.loop.run_queued() == ""
    assert [item.suffix for item in sandbox.requests.directory.iterdir()] == [".broken"]


def test_a_job_of_an_unknown_suite_fails_and_the_next_is_run(
    sandbox: JobSandbox, words: SnapshotAssertion
) -> None:
    wrong = dataclasses.replace(REQUEST, dedupe_key="a", suite="mien")
    sandbox.requests.write(wrong)
    sandbox.requests.write(REQUEST)
    assert sandbox.loop.run_queued() == ""
    assert [text for text in sandbox.messages() if text.startswith("job a ")] == words
    assert len(load_runs(sandbox.store)) == 1
    assert sandbox.store.lease_job() is None


def test_a_defect_fails_one_job_only(sandbox: JobSandbox, words: SnapshotAssertion) -> None:
    def defect(_order: CaseOrder) -> None:
        raise ZeroDivisionError("a defect")

    sandbox.executor.on_execute = defect
    sandbox.requests.write(REQUEST)
    assert sandbox.loop.run_queued() == ""
    assert sandbox.messages()[-1] == words
    assert sandbox.store.lease_job() is None


def interrupt_case(number: int) -> Callable[[CaseOrder], None]:
    orders: list[CaseOrder] = []

    def on_execute(order: CaseOrder) -> None:
        orders.append(order)
        if len(orders) == number:
            signal.raise_signal(signal.SIGTERM)

    return on_execute


def free_the_lease(sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the death of the process that holds the lease."""
    monkeypatch.setattr("compile_hud.db.jobs.queue.is_gone", lambda _holder: True)
    sandbox.executor = FakeExecutor(clock=sandbox.clock)


def test_an_interrupted_job_is_continued_by_the_next_start(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.executor.on_execute = interrupt_case(2)
    sandbox.requests.write(REQUEST)
    with pytest.raises(RunInterrupted, match="was interrupted"):
        sandbox.loop.run_queued()
    free_the_lease(sandbox, monkeypatch)
    assert sandbox.loop.run_queued() == ""
    assert sandbox.executor.executed == ["bert/inference/small/fp32/default/cpu"]
    (summary,) = load_runs(sandbox.store)
    assert summary.run.state is RunState.FINISHED


def test_a_job_that_cannot_be_continued_starts_anew(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    sandbox.executor.on_execute = interrupt_case(2)
    sandbox.requests.write(REQUEST)
    with pytest.raises(RunInterrupted):
        sandbox.loop.run_queued()
    free_the_lease(sandbox, monkeypatch)
    sandbox.executor.facts = {**sandbox.executor.facts, "torch_version": "2.14.0"}
    assert sandbox.loop.run_queued() == ""
    assert len(sandbox.executor.executed) == 2
    assert [text for text in sandbox.messages() if "new run" in text] == words


def test_a_job_whose_end_was_not_noted_is_not_measured_again(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    def locked(*_args: object, **_kwargs: object) -> None:
        raise StoreLocked("held by PID 7")

    sandbox.requests.write(REQUEST)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "finish_job", locked)
        patched.setattr(JobWorker, "_run_job", _once(JobWorker._run_job))
        with pytest.raises(RunInterrupted):
            sandbox.loop.run_queued()
    assert [text for text in sandbox.messages() if "held by PID 7" in text] == words
    sandbox.loop.pending_updates.clear()
    free_the_lease(sandbox, monkeypatch)
    assert sandbox.loop.run_queued() == ""
    assert sandbox.executor.executed == []
    (summary,) = load_runs(sandbox.store)
    # Again: nobody knows whether the process still judged it.
    assert [document.run.id for document in sandbox.judged] == [summary.run.id] * 2


def _once(method: Callable[..., None]) -> Callable[..., None]:
    def run_and_stop(*args: object) -> None:
        method(*args)
        raise RunInterrupted("enough")

    return run_and_stop


def test_the_loop_ends_with_the_signal_and_reports_trouble_once(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    troubles = iter(["held by PID 7", "held by PID 7", "", "held by PID 8"])

    def run_queued(_loop: JobWorker) -> str:
        sandbox.loop.wake.set()
        error = next(troubles, None)
        if error is None:
            raise RunInterrupted("stopped")
        return error

    monkeypatch.setattr(JobWorker, "run_queued", run_queued)
    with pytest.raises(RunInterrupted, match="stopped"):
        sandbox.loop.run_forever()
    assert sandbox.messages() == words


def miss_a_night(folder: Path) -> None:
    missed = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=1)
    with scheduling({"night": NIGHT}, state_dir=folder, wake=threading.Event()) as scheduler:
        scheduler.pause()
        scheduler.modify_job("night", next_run_time=missed)


@pytest.mark.parametrize(
    "error", [OperationalError("UPDATE", {}, Exception("full")), OSError(28, "full")]
)
def test_schedules_fire_on_after_their_file_could_not_be_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    words: SnapshotAssertion,
) -> None:
    update = SQLAlchemyJobStore.update_job
    errors = [error]
    is_updated = threading.Event()

    def update_late(jobs: SQLAlchemyJobStore, job: object) -> None:
        if errors:
            raise errors.pop()
        update(jobs, job)
        is_updated.set()

    miss_a_night(tmp_path)
    monkeypatch.setattr(SQLAlchemyJobStore, "update_job", update_late)
    monkeypatch.setattr("compile_hud.runner.scheduling.scheduler.RETRY_S", 0.0)
    schedules = {"night": NIGHT}
    with scheduling(schedules, state_dir=tmp_path, wake=threading.Event()) as scheduler:
        assert is_updated.wait(60)
        assert scheduler.is_alive()
    assert [text.splitlines()[0] for text in caplog.messages] == words


def test_a_scheduler_that_has_died_is_reported_once(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    num_left = [2]

    def run_queued(loop: JobWorker) -> str:
        loop.wake.set()
        if not num_left[0]:
            raise RunInterrupted("stopped")
        num_left[0] -= 1
        return ""

    monkeypatch.setattr(JobWorker, "run_queued", run_queued)
    with pytest.raises(RunInterrupted):
        dataclasses.replace(sandbox.loop, scheduler=Scheduler()).run_forever()
    assert sandbox.messages() == words


def no_room(*_args: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_night_that_fires_on_a_full_disk_is_run(
    sandbox: JobSandbox,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    words: SnapshotAssertion,
) -> None:
    folder = sandbox.workspace.config.state_dir
    miss_a_night(folder)
    wake = threading.Event()
    monkeypatch.setattr(JobRequests, "write", no_room)
    with scheduling({"night": NIGHT}, state_dir=folder, wake=wake) as scheduler:
        assert wake.wait(60)
        assert dataclasses.replace(sandbox.loop, scheduler=scheduler).run_queued() == ""
    assert without_times(caplog.messages) == words
    assert len(load_runs(sandbox.store)) == 1


def test_a_night_that_no_disk_took_before_the_end_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    words: SnapshotAssertion,
) -> None:
    miss_a_night(tmp_path)
    wake = threading.Event()
    monkeypatch.setattr(JobRequests, "write", no_room)
    with scheduling({"night": NIGHT}, state_dir=tmp_path, wake=wake):
        assert wake.wait(60)
    assert without_times(caplog.messages) == words


def test_a_request_in_memory_is_written_once_there_is_room(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(JobRequests, "write", no_room)
        for _ in range(2):
            sandbox.requests.save(REQUEST)
        assert sandbox.requests.write_unwritten() == 1
    assert sandbox.requests.write_unwritten() == 0
    assert len(list(sandbox.requests.directory.iterdir())) == 1


def test_a_request_in_memory_waits_for_a_locked_store(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> bool:
        raise StoreLocked("held by PID 7")

    monkeypatch.setattr(JobRequests, "write", no_room)
    sandbox.requests.save(REQUEST)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "enqueue_job", locked)
        assert sandbox.requests.flush(sandbox.store, machine="box") == "held by PID 7"
    assert sandbox.requests.flush(sandbox.store, machine="box") == ""
    assert sandbox.store.lease_job() is not None


def test_a_request_in_memory_goes_to_the_disk_while_the_store_is_locked(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> bool:
        raise StoreLocked("held by PID 7")

    with monkeypatch.context() as patched:
        patched.setattr(JobRequests, "write", no_room)
        sandbox.requests.save(REQUEST)
    monkeypatch.setattr(Store, "enqueue_job", locked)
    assert sandbox.requests.flush(sandbox.store, machine="box") == "held by PID 7"
    assert len(list(sandbox.requests.directory.iterdir())) == 1


def test_a_damaged_file_of_schedules_is_a_clear_error(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    path = tmp_path / "schedule.sqlite"
    path.write_bytes(b"no database" * 1000)
    with (
        pytest.raises(SchedulerUnavailable) as caught,
        scheduling({"night": NIGHT}, state_dir=tmp_path, wake=threading.Event()),
    ):
        pass
    assert str(caught.value) == words
    path.unlink()
    with scheduling({"night": NIGHT}, state_dir=tmp_path, wake=threading.Event()) as scheduler:
        assert scheduler.is_alive()


def test_notifications_that_wait_are_sent_between_the_jobs(sandbox: JobSandbox) -> None:
    def stop() -> None:
        assert [document.run.suite for document in sandbox.judged] == ["mine"]
        raise RunInterrupted("sent")

    sandbox.store.enqueue_job(dedupe_key="now", suite="mine", toolchain="current", trigger="test")
    with pytest.raises(RunInterrupted, match="sent"):
        sandbox.with_services(send_notifications=stop).run_forever()

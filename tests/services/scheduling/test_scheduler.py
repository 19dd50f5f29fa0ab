from __future__ import annotations

import dataclasses
import signal
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from sqlalchemy.exc import OperationalError

from compile_hud.db.errors import StoreLocked
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from compile_hud.runner.errors import (
    RunInterrupted,
    SchedulerHeld,
    SchedulerUnavailable,
)
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.scheduling.job_requests import JobRequests, night_key
from compile_hud.runner.scheduling.job_worker import JobWorker
from compile_hud.runner.scheduling.scheduler import Scheduler, scheduling
from tests.support.fakes import FakeExecutor
from tests.support.runs.job_queue import NIGHT, REQUEST, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


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


def test_a_second_scheduler_is_refused(tmp_path: Path) -> None:
    wake = threading.Event()
    with (
        scheduling({}, state_dir=tmp_path, wake=wake),
        pytest.raises(SchedulerHeld, match=r"PID \d+ schedules from this state directory already"),
        scheduling({}, state_dir=tmp_path, wake=wake),
    ):
        pass


def test_a_queued_job_is_run_judged_and_done(place: Place) -> None:
    place.requests.write(REQUEST)
    assert place.loop.run_queued() == ""
    (summary,) = load_runs(place.store)
    assert summary.run.state is RunState.FINISHED
    assert summary.run.trigger == "job night 2026-01-01T02:30"
    assert [document.run.id for document in place.judged] == [summary.run.id]
    assert place.store.lease_job() is None


def test_a_night_is_run_once_however_often_it_is_asked_for(place: Place) -> None:
    for _ in range(2):
        place.requests.write(REQUEST)
        place.loop.run_queued()
    assert len(load_runs(place.store)) == 1


def test_two_machines_with_one_store_and_one_hud_toml_measure_a_night_each(place: Place) -> None:
    config = dataclasses.replace(
        place.workspace.config, machine="bay", state_dir=place.workspace.config.state_dir / "bay"
    )
    bay = dataclasses.replace(
        place.loop, workspace=dataclasses.replace(place.workspace, config=config)
    )
    for _ in range(2):
        for loop in (place.loop, bay):
            JobRequests(loop.workspace.config.state_dir / "jobs").write(REQUEST)
            assert loop.run_queued() == ""
    assert sorted(summary.run.machine for summary in load_runs(place.store)) == ["bay", "box"]


def test_a_request_waits_for_a_locked_store(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_args: object, **_kwargs: object) -> bool:
        raise StoreLocked("held by PID 7")

    place.requests.write(REQUEST)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "enqueue_job", locked)
        assert place.loop.run_queued() == "held by PID 7"
    assert place.loop.run_queued() == ""
    assert len(load_runs(place.store)) == 1


def test_a_store_that_cannot_be_asked_for_jobs_is_said(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> None:
        raise StoreLocked("held by PID 7")

    monkeypatch.setattr(Store, "lease_job", locked)
    assert place.loop.run_queued() == "held by PID 7"


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"schema_version": 2}', '{"schema_version": 1, "suite": 3}']
)
def test_a_broken_request_is_set_aside(place: Place, content: str) -> None:
    place.requests.write(REQUEST)
    (path,) = place.requests.directory.iterdir()
    path.write_text(content)
    assert place.loop.run_queued() == ""
    assert [item.suffix for item in place.requests.directory.iterdir()] == [".broken"]


def test_a_job_of_an_unknown_suite_fails_and_the_next_is_run(place: Place) -> None:
    wrong = dataclasses.replace(REQUEST, dedupe_key="a", suite="mien")
    place.requests.write(wrong)
    place.requests.write(REQUEST)
    assert place.loop.run_queued() == ""
    assert any("job a failed: no suite 'mien'. Did you mean mine" in text for text in place.said())
    assert len(load_runs(place.store)) == 1
    assert place.store.lease_job() is None


def test_a_defect_fails_one_job_only(place: Place) -> None:
    def defect(_order: CaseOrder) -> None:
        raise ZeroDivisionError("a defect")

    place.executor.on_execute = defect
    place.requests.write(REQUEST)
    assert place.loop.run_queued() == ""
    assert any("failed by a defect of Compile HUD" in text for text in place.said())
    assert place.store.lease_job() is None


def interrupt_case(number: int) -> Callable[[CaseOrder], None]:
    seen: list[CaseOrder] = []

    def on_execute(order: CaseOrder) -> None:
        seen.append(order)
        if len(seen) == number:
            signal.raise_signal(signal.SIGTERM)

    return on_execute


def free_the_lease(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the death of the process that holds the lease."""
    monkeypatch.setattr("compile_hud.db.jobs.queue.is_gone", lambda _holder: True)
    place.executor = FakeExecutor(clock=place.clock)


def test_an_interrupted_job_is_continued_by_the_next_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.executor.on_execute = interrupt_case(2)
    place.requests.write(REQUEST)
    with pytest.raises(RunInterrupted, match="was interrupted"):
        place.loop.run_queued()
    free_the_lease(place, monkeypatch)
    assert place.loop.run_queued() == ""
    assert place.executor.executed == ["bert/inference/small/fp32/default/cpu"]
    (summary,) = load_runs(place.store)
    assert summary.run.state is RunState.FINISHED


def test_a_job_that_cannot_be_continued_starts_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.executor.on_execute = interrupt_case(2)
    place.requests.write(REQUEST)
    with pytest.raises(RunInterrupted):
        place.loop.run_queued()
    free_the_lease(place, monkeypatch)
    place.executor.facts = {**place.executor.facts, "torch_version": "2.14.0"}
    assert place.loop.run_queued() == ""
    assert len(place.executor.executed) == 2
    assert any("A new run is started" in text for text in place.said())


def test_a_job_whose_end_was_not_noted_is_not_measured_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> None:
        raise StoreLocked("held by PID 7")

    place.requests.write(REQUEST)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "finish_job", locked)
        patched.setattr(JobWorker, "_run_job", _once(JobWorker._run_job))
        with pytest.raises(RunInterrupted):
            place.loop.run_queued()
    assert any("could not be noted: held by PID 7" in text for text in place.said())
    place.loop.pending_updates.clear()
    free_the_lease(place, monkeypatch)
    assert place.loop.run_queued() == ""
    assert place.executor.executed == []
    (summary,) = load_runs(place.store)
    # Again: nobody knows whether the process still judged it.
    assert [document.run.id for document in place.judged] == [summary.run.id] * 2


def _once(method: Callable[..., None]) -> Callable[..., None]:
    def run_and_stop(*args: object) -> None:
        method(*args)
        raise RunInterrupted("enough")

    return run_and_stop


def test_the_loop_ends_with_the_signal_and_says_trouble_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles = iter(["held by PID 7", "held by PID 7", "", "held by PID 8"])

    def run_queued(_loop: JobWorker) -> str:
        place.loop.wake.set()
        trouble = next(troubles, None)
        if trouble is None:
            raise RunInterrupted("stopped")
        return trouble

    monkeypatch.setattr(JobWorker, "run_queued", run_queued)
    with pytest.raises(RunInterrupted, match="stopped"):
        place.loop.run_forever()
    assert place.said() == [
        "the queue cannot be read: held by PID 7. It is tried again",
        "the queue cannot be read: held by PID 8. It is tried again",
    ]


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
    assert "schedules are looked at again in 0 s" in caplog.text


def test_a_scheduler_that_has_died_is_said_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
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
        dataclasses.replace(place.loop, scheduler=Scheduler()).run_forever()
    assert place.said() == ["schedules fire no more, by a defect; see the log and start this anew"]


def no_room(*_args: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_night_that_fires_on_a_full_disk_is_run(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = place.workspace.config.state_dir
    miss_a_night(folder)
    wake = threading.Event()
    monkeypatch.setattr(JobRequests, "write", no_room)
    with scheduling({"night": NIGHT}, state_dir=folder, wake=wake) as scheduler:
        assert wake.wait(60)
        assert dataclasses.replace(place.loop, scheduler=scheduler).run_queued() == ""
    assert "is kept in memory: [Errno 28]" in caplog.text
    assert "are lost" not in caplog.text
    assert len(load_runs(place.store)) == 1


def test_a_night_that_no_disk_took_before_the_end_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    miss_a_night(tmp_path)
    wake = threading.Event()
    monkeypatch.setattr(JobRequests, "write", no_room)
    with scheduling({"night": NIGHT}, state_dir=tmp_path, wake=wake):
        assert wake.wait(60)
    assert "1 jobs could not be written down and are lost" in caplog.text


def test_a_request_in_memory_is_written_once_there_is_room(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(JobRequests, "write", no_room)
        for _ in range(2):
            place.requests.save(REQUEST)
        assert place.requests.write_kept() == 1
    assert place.requests.write_kept() == 0
    assert len(list(place.requests.directory.iterdir())) == 1


def test_a_request_in_memory_waits_for_a_locked_store(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> bool:
        raise StoreLocked("held by PID 7")

    monkeypatch.setattr(JobRequests, "write", no_room)
    place.requests.save(REQUEST)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "enqueue_job", locked)
        assert place.requests.flush(place.store, machine="box") == "held by PID 7"
    assert place.requests.flush(place.store, machine="box") == ""
    assert place.store.lease_job() is not None


def test_a_request_in_memory_goes_to_the_disk_while_the_store_is_locked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> bool:
        raise StoreLocked("held by PID 7")

    with monkeypatch.context() as patched:
        patched.setattr(JobRequests, "write", no_room)
        place.requests.save(REQUEST)
    monkeypatch.setattr(Store, "enqueue_job", locked)
    assert place.requests.flush(place.store, machine="box") == "held by PID 7"
    assert len(list(place.requests.directory.iterdir())) == 1


def test_a_damaged_file_of_schedules_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "schedule.sqlite"
    path.write_bytes(b"no database" * 1000)
    with (
        pytest.raises(SchedulerUnavailable, match=f"the schedules in {path} cannot be used: .*not"),
        scheduling({"night": NIGHT}, state_dir=tmp_path, wake=threading.Event()),
    ):
        pass
    path.unlink()
    with scheduling({"night": NIGHT}, state_dir=tmp_path, wake=threading.Event()) as scheduler:
        assert scheduler.is_alive()


def test_notifications_that_wait_are_sent_between_the_jobs(place: Place) -> None:
    def stop() -> None:
        assert [document.run.suite for document in place.judged] == ["mine"]
        raise RunInterrupted("sent")

    place.store.enqueue_job(dedupe_key="now", suite="mine", toolchain="current", trigger="test")
    with pytest.raises(RunInterrupted, match="sent"):
        place.with_services(send_notifications=stop).run_forever()

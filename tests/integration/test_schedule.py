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

from db.errors import StoreLocked
from db.health import load_health
from db.queries import load_runs
from db.records import RunDocument, RunState
from db.store import Store
from runner.config import Config, parse_config
from runner.errors import (
    DeviceLost,
    RunInterrupted,
    SchedulerHeld,
    SchedulerUnavailable,
    ToolchainError,
)
from runner.events import Event, Said
from runner.executor_api import CaseOrder
from runner.jobloop import JobLoop
from runner.jobs import JobRequest, JobRequests, night_key
from runner.schedule import Scheduler, scheduling
from runner.schedule_rules import Schedule
from runner.wiring import Seams, Workplace
from tests.fakes import FakeClock, FakeExecutor, make_catalog
from tests.integration.running import wait_until

NIGHT = Schedule(name="night", cron="30 2 1 1 *", timezone="UTC", suite="mine", toolchain="current")
CONFIG = """
[run]
reference_cases = false
[machine]
name = "box"
[suites.mine]
models = "bert"
modes = ["eager", "default"]
"""
REQUEST = JobRequest(
    dedupe_key="night 2026-01-01T02:30", suite="mine", toolchain="current", trigger="schedule night"
)


class Place:
    """A state directory and a job loop on it."""

    def __init__(self, folder: Path) -> None:
        env = {"HUD_STATE_DIR": str(folder), "HUD_LOCK_DIR": str(folder / "run")}
        self.clock = FakeClock()
        self.executor = FakeExecutor(clock=self.clock)
        self.events: list[Event] = []
        self.judged: list[RunDocument] = []
        config: Config = dataclasses.replace(
            parse_config(CONFIG, path=None, env=env), catalog=make_catalog("bert")
        )
        seams = Seams(
            make_executor=lambda **_: self.executor,
            now=self.clock,
            env=env,
            has_gpu=lambda: False,
        )
        self.workplace = Workplace(config=config, seams=seams)
        self.requests = JobRequests(folder / "jobs")
        self.loop = JobLoop(
            workplace=self.workplace,
            notify=self.events.append,
            judge=self.judged.append,
            send=lambda: None,
            wake=threading.Event(),
        )

    @property
    def store(self) -> Store:
        return self.workplace.store()

    def said(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Said)]


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
    assert JobRequests(tmp_path / "jobs").flush(store) == ""
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
    monkeypatch.setattr("db.jobs.is_gone", lambda _holder: True)
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
        patched.setattr(JobLoop, "_run_job", _once(JobLoop._run_job))
        with pytest.raises(RunInterrupted):
            place.loop.run_queued()
    assert any("could not be noted: held by PID 7" in text for text in place.said())
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

    def run_queued(_loop: JobLoop) -> str:
        place.loop.wake.set()
        trouble = next(troubles, None)
        if trouble is None:
            raise RunInterrupted("stopped")
        return trouble

    monkeypatch.setattr(JobLoop, "run_queued", run_queued)
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
    monkeypatch.setattr("runner.schedule.RETRY_S", 0.0)
    schedules = {"night": NIGHT}
    with scheduling(schedules, state_dir=tmp_path, wake=threading.Event()) as scheduler:
        assert is_updated.wait(60)
        assert scheduler.is_alive()
    assert "schedules are looked at again in 0 s" in caplog.text


def test_a_scheduler_that_has_died_is_said_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_left = [2]

    def run_queued(loop: JobLoop) -> str:
        loop.wake.set()
        if not num_left[0]:
            raise RunInterrupted("stopped")
        num_left[0] -= 1
        return ""

    monkeypatch.setattr(JobLoop, "run_queued", run_queued)
    with pytest.raises(RunInterrupted):
        dataclasses.replace(place.loop, scheduler=Scheduler()).run_forever()
    assert place.said() == ["schedules fire no more, by a defect; see the log and start this anew"]


def no_room(*_args: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_night_that_fires_on_a_full_disk_is_run(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = place.workplace.config.state_dir
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
            place.requests.keep(REQUEST)
        assert place.requests.write_kept() == 1
    assert place.requests.write_kept() == 0
    assert len(list(place.requests.directory.iterdir())) == 1


def test_a_request_in_memory_waits_for_a_locked_store(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> bool:
        raise StoreLocked("held by PID 7")

    monkeypatch.setattr(JobRequests, "write", no_room)
    place.requests.keep(REQUEST)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "enqueue_job", locked)
        assert place.requests.flush(place.store) == "held by PID 7"
    assert place.requests.flush(place.store) == ""
    assert place.store.lease_job() is not None


def test_a_request_in_memory_goes_to_the_disk_while_the_store_is_locked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> bool:
        raise StoreLocked("held by PID 7")

    with monkeypatch.context() as patched:
        patched.setattr(JobRequests, "write", no_room)
        place.requests.keep(REQUEST)
    monkeypatch.setattr(Store, "enqueue_job", locked)
    assert place.requests.flush(place.store) == "held by PID 7"
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
        dataclasses.replace(place.loop, send=stop).run_forever()


def lose_the_device(place: Place, *, times: int) -> None:
    """As a driver that dies in the second case, and is back after so many attempts."""
    seen: list[CaseOrder] = []

    def on_execute(order: CaseOrder) -> None:
        seen.append(order)
        if 1 < len(seen) <= 1 + times:
            raise DeviceLost("the device cpu is lost")

    place.executor.on_execute = on_execute


def test_a_job_whose_device_is_lost_goes_on_later_in_the_same_run(place: Place) -> None:
    lose_the_device(place, times=2)
    place.requests.write(REQUEST)
    waited_s = []
    for _ in range(3):
        assert place.loop.run_queued() == ""
        open_jobs = load_health(place.store).open_jobs
        if open_jobs:
            assert open_jobs[0].reason == "the device cpu is lost"
            assert open_jobs[0].due_at is not None
            waited_s.append((open_jobs[0].due_at - place.clock()).total_seconds())
            place.clock.advance(waited_s[-1] - 1)
            place.loop.run_queued()
            assert load_health(place.store).open_jobs == open_jobs
            place.clock.advance(1)
    assert waited_s == [300.0, 900.0]
    (summary,) = load_runs(place.store)
    assert summary.run.state is RunState.FINISHED
    assert place.executor.executed == [case.key for case in summary.run.plan]
    assert [document.run.id for document in place.judged] == [summary.run.id]


def test_a_job_is_given_up_after_three_attempts_and_says_why(place: Place) -> None:
    lose_the_device(place, times=99)
    place.requests.write(REQUEST)
    for _ in range(4):
        place.loop.run_queued()
        place.clock.advance(3600)
    (job,) = load_health(place.store).ended_jobs
    assert (job.state, job.num_attempts, job.reason) == ("failed", 3, "the device cpu is lost")
    assert any("failed 3 times: the device cpu is lost" in text for text in place.said())


def test_a_suite_that_does_not_exist_is_not_tried_again(place: Place) -> None:
    place.requests.write(dataclasses.replace(REQUEST, suite="mien"))
    place.loop.run_queued()
    (job,) = load_health(place.store).ended_jobs
    assert (job.num_attempts, job.reason[:16]) == (1, "no suite 'mien'.")


def test_the_loop_tells_what_it_works_on(place: Place) -> None:
    seen: list[str] = []
    place.executor.on_execute = lambda _order: seen.append(place.loop.is_doing())
    place.requests.write(REQUEST)
    place.loop.run_queued()
    assert set(seen) == {"job night 2026-01-01T02:30"}
    assert place.loop.is_doing() == ""


def test_a_toolchain_that_is_built_first_is_built_once_a_job(place: Place) -> None:
    built: list[str] = []
    night = dataclasses.replace(NIGHT, build=True)
    config = dataclasses.replace(place.workplace.config, schedules={"night": night})
    workplace = dataclasses.replace(place.workplace, config=config)
    loop = dataclasses.replace(place.loop, workplace=workplace, build=built.append)
    lose_the_device(place, times=1)
    place.requests.write(REQUEST)
    loop.run_queued()
    place.clock.advance(300)
    loop.run_queued()
    assert [item.state for item in load_health(place.store).ended_jobs] == ["done"]
    assert built == ["current"]
    by_hand = dataclasses.replace(REQUEST, dedupe_key="by hand", trigger="manual")
    place.requests.write(by_hand)
    loop.run_queued()
    assert built == ["current"]


def test_a_toolchain_that_cannot_be_built_is_tried_again(place: Place) -> None:
    def fail(name: str) -> None:
        raise ToolchainError(f"cannot build {name}")

    night = dataclasses.replace(NIGHT, build=True)
    config = dataclasses.replace(place.workplace.config, schedules={"night": night})
    workplace = dataclasses.replace(place.workplace, config=config)
    place.requests.write(REQUEST)
    dataclasses.replace(place.loop, workplace=workplace, build=fail).run_queued()
    (job,) = load_health(place.store).open_jobs
    assert job.reason == "cannot build current"
    assert place.executor.executed == []


def test_times_that_were_missed_are_made_up_for_as_the_schedule_says(tmp_path: Path) -> None:
    wake = threading.Event()
    hourly = dataclasses.replace(NIGHT, cron="0 * * * *", coalesce=False, catch_up_s=3 * 3600)
    hour = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)
    with scheduling({"night": hourly}, state_dir=tmp_path, wake=wake) as scheduler:
        scheduler.pause()
        scheduler.modify_job("night", next_run_time=hour - timedelta(hours=5))
    with scheduling({"night": hourly}, state_dir=tmp_path, wake=wake):
        assert wake.wait(60)
        wait_until(lambda: len(list((tmp_path / "jobs").glob("*.json"))) >= 3)
    assert len(list((tmp_path / "jobs").glob("*.json"))) == 3

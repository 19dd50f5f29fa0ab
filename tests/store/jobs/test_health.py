"""The reports of schedulers, and the queue, as pages and metrics read them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from compile_hud.db.jobs.health import (
    LATE_AFTER,
    DeviceState,
    DiskState,
    Health,
    SchedulerState,
    SchedulerStatus,
    ScheduleState,
    load_health,
    save_scheduler,
)
from compile_hud.db.jobs.queue import JobState
from compile_hud.db.store import Store
from tests.support.builders import START, make_run
from tests.support.fakes import FakeClock

STATE = SchedulerState(
    machine="box",
    process="box/7/1",
    version="0.1.0",
    started_at=START,
    heartbeat_at=START,
    schedules=(
        ScheduleState(
            name="night",
            suite="nightly",
            toolchain="current",
            rule="30 2 * * * UTC",
            next_at=START + timedelta(hours=3),
        ),
        ScheduleState(name="torch", suite="quick", toolchain="nightly", rule="on change"),
    ),
    devices=(DeviceState(device="cuda:0", name="Fake GPU", users=("python (PID 9)",)),),
    disks=(DiskState(name="state", path="/hud", free_bytes=10, total_bytes=100),),
    num_waiting=2,
)


def test_an_empty_store_has_no_scheduler_and_no_job(store: Store) -> None:
    assert load_health(store) == Health()


def test_what_a_scheduler_says_replaces_its_last_report(store: Store) -> None:
    save_scheduler(store, replace(STATE, machine="other"))
    save_scheduler(store, STATE)
    later = replace(STATE, heartbeat_at=START + timedelta(minutes=1), current_job="job night")
    save_scheduler(store, later)
    assert load_health(store).schedulers == (later, replace(STATE, machine="other"))


def test_a_sign_of_life_makes_no_page_load_again(store: Store) -> None:
    store.migrate()
    before = store.store_version()
    save_scheduler(store, STATE)
    assert store.store_version() == before


def test_a_scheduler_is_late_after_three_beats() -> None:
    assert STATE.is_alive(now=START + LATE_AFTER)
    assert not STATE.is_silent(now=START + LATE_AFTER)
    after = START + LATE_AFTER + timedelta(seconds=1)
    assert STATE.status(now=after) is SchedulerStatus.SILENT
    assert STATE.is_silent(now=after)
    assert not STATE.is_alive(now=after)
    assert STATE.is_alive(now=START + LATE_AFTER)
    assert not STATE.is_alive(now=START + LATE_AFTER + timedelta(seconds=1))


def test_the_queue_is_reported_oldest_first_and_what_ended_newest_first(
    store: Store, now: FakeClock
) -> None:
    for key in ("a", "b", "c", "d"):
        store.enqueue_job(dedupe_key=key, suite="mine", toolchain="current", trigger="test")
        now.advance(1)
    for reason in ("", "no such suite"):
        job = store.lease_job()
        assert job is not None
        state = JobState.FAILED if reason else JobState.DONE
        store.finish_job(job.id, run_id=None, state=state, reason=reason)
    store.save_run(make_run())
    health = load_health(store)
    assert [job.dedupe_key for job in health.open_jobs] == ["c", "d"]
    assert [(job.dedupe_key, job.state, job.reason) for job in health.ended_jobs] == [
        ("b", JobState.FAILED, "no such suite"),
        ("a", JobState.DONE, ""),
    ]
    assert health.num_jobs == {JobState.QUEUED: 2, JobState.DONE: 1, JobState.FAILED: 1}
    assert health.num_running == 1
    assert [job.dedupe_key for job in load_health(store, num_ended=1).ended_jobs] == ["b"]

"""The tables of the page of health."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.data.health import HealthPage
from compile_hud.app.server.prometheus import exposition
from compile_hud.app.views.health.tables import (
    device_table,
    disk_table,
    in_words,
    is_full,
    job_table,
    next_table,
    receiver_table,
    scheduler_table,
    troubles,
    wellness,
)
from compile_hud.db.jobs.health import (
    SYNTHETIC_VERSION,
    DeviceState,
    DiskState,
    Health,
    SchedulerState,
    ScheduleState,
)
from compile_hud.db.jobs.operations import Operations
from compile_hud.db.jobs.queue import JobState, QueuedJob
from compile_hud.db.records.notifications import NotificationState
from tests.support.builders import START
from tests.support.pages.table_cells import cells_of, links_in

NOW = START + timedelta(days=1)
SCHEDULER = SchedulerState(
    machine="box",
    process="box/1/2",
    version="0.1.0",
    started_at=START,
    heartbeat_at=NOW - timedelta(seconds=20),
    schedules=(
        ScheduleState(name="later", suite="nightly", toolchain="stable", rule="each Sunday"),
        ScheduleState(
            name="night",
            suite="nightly",
            toolchain="stable",
            rule="each night",
            next_at=NOW + timedelta(hours=3),
        ),
    ),
    devices=(DeviceState(device="cuda", name="H100", users=("python (4711)",)),),
    disks=(DiskState(name="store", path="/data", free_bytes=300 * 2**30, total_bytes=2**40),),
)
FULL = DiskState(name="traces", path="/t", free_bytes=2**30, total_bytes=2**40)


def job(**values: Any) -> QueuedJob:
    """Return a job that waits."""
    fields: dict[str, Any] = {
        "id": "job-1",
        "dedupe_key": "night 1",
        "suite": "nightly",
        "toolchain": "stable",
        "trigger": "schedule night",
        "num_attempts": 1,
        "state": JobState.QUEUED,
        "enqueued_at": NOW - timedelta(hours=2),
        **values,
    }
    return QueuedJob(**fields)


def page_of(
    *schedulers: SchedulerState,
    open_jobs: tuple[QueuedJob, ...] = (),
    ended_jobs: tuple[QueuedJob, ...] = (),
) -> HealthPage:
    """Return a page about these schedulers and jobs."""
    health = Health(schedulers=schedulers, open_jobs=open_jobs, ended_jobs=ended_jobs)
    return HealthPage(health=health, num_notifications={})


def test_where_all_is_well_the_page_says_what_is_next(words: SnapshotAssertion) -> None:
    page = page_of(SCHEDULER)
    assert troubles(page, now=NOW) == []
    assert wellness(page, now=NOW) == (words)


@pytest.mark.parametrize(
    ("changes", "status", "is_up"),
    [
        ({}, "alive", 1.0),
        ({"heartbeat_at": NOW - timedelta(minutes=10)}, "silent", 0.0),
        ({"version": SYNTHETIC_VERSION}, "synthetic", 0.0),
    ],
)
def test_a_scheduler_is_up_in_metrics_where_the_page_calls_it_alive(
    changes: dict[str, Any], status: str, is_up: float, words: SnapshotAssertion
) -> None:
    page = page_of(dataclasses.replace(SCHEDULER, **changes))
    content = scheduler_table(page, now=NOW)
    others = {"alive", "silent", "synthetic"} - {status}
    assert f">{status}<" in content
    assert not any(f">{other}<" in content for other in others)
    figures = Operations(
        store_version=1,
        health=page.health,
        last_runs=(),
        num_alerts={},
        num_muted_alerts={},
        num_notifications={},
    )
    assert f'hud_scheduler_up{{machine="box"}} {is_up:g}' in exposition(figures, now=NOW)
    assert (troubles(page, now=NOW) or [wellness(page, now=NOW)]) == words


def test_a_silent_scheduler_is_the_trouble_and_its_schedules_are_not_coming(
    words: SnapshotAssertion,
) -> None:
    silent = dataclasses.replace(SCHEDULER, heartbeat_at=NOW - timedelta(minutes=10))
    page = page_of(silent, open_jobs=(job(),))
    first, second = troubles(page, now=NOW)
    assert first == words
    assert second == words
    assert next_table(page, now=NOW) == ""


def test_full_disks_broken_results_and_failed_jobs_are_troubles(words: SnapshotAssertion) -> None:
    scheduler = dataclasses.replace(SCHEDULER, disks=(FULL,), num_broken=2)
    failed = job(state=JobState.FAILED, reason="no such toolchain")
    problems = troubles(page_of(scheduler, ended_jobs=(failed, job(state=JobState.DONE))), now=NOW)
    assert [text.split(":")[0] for text in problems] == words


@pytest.mark.parametrize(
    ("free", "total", "is_low"),
    [(6 * 2**30, 2**40, False), (4 * 2**30, 2**40, True), (2**30, 10 * 2**30, False)],
)
def test_a_disk_is_full_when_a_night_may_not_fit(free: int, total: int, is_low: bool) -> None:
    assert is_full(dataclasses.replace(FULL, free_bytes=free, total_bytes=total)) is is_low


def test_the_soonest_run_comes_first_and_one_without_a_time_last() -> None:
    content = next_table(page_of(SCHEDULER), now=NOW)
    assert content.index("night") < content.index("later")
    assert "in 3 h 00 min" in content
    assert in_words(NOW - timedelta(minutes=2), now=NOW) == "due for 2 min 00 s"


def test_a_job_says_why_it_waits_and_leads_to_its_run(words: SnapshotAssertion) -> None:
    waiting = job(due_at=NOW, reason="the store was locked")
    done = job(state=JobState.DONE, run_id="run-7")
    table = job_table([waiting, done], label="jobs")
    assert table is not None
    assert cells_of(table) == words
    assert links_in(table, "run") == ["", "run?run=run-7"]
    assert job_table([], label="jobs") is None


def test_devices_and_disks_name_what_is_on_them() -> None:
    assert "python (4711)" in device_table(page_of(SCHEDULER))
    content = disk_table(page_of(SCHEDULER))
    assert "300 GiB" in content
    assert "29.3 %" in content


def test_messages_are_counted_by_receiver() -> None:
    counts = {
        ("chat", NotificationState.SENT): 5,
        ("chat", NotificationState.PENDING): 1,
        ("chat", NotificationState.FAILED): 2,
    }
    page = dataclasses.replace(page_of(), num_notifications=counts)
    content = receiver_table(page)
    assert [f">{number}<" in content for number in (5, 3)] == [True, True]

"""The state of schedulers, the queue and disks: one query for pages and metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import delete, func, insert, select

from compile_hud.db.jobs.queue import OPEN_STATES, JobState, QueuedJob, queued_job
from compile_hud.db.records.results import RunState
from compile_hud.db.records.string_enum import StrEnum
from compile_hud.db.rows.mapping import utc
from compile_hud.db.schema.tables import JobTable, RunTable, SchedulerTable
from compile_hud.db.store import Store

# The interval of a scheduler's heartbeats.
HEARTBEAT_INTERVAL_S: Final = 60.0
# Three missed heartbeats, as for runs; a store is locked for half a minute at most.
LATE_AFTER: Final = timedelta(seconds=3 * HEARTBEAT_INTERVAL_S)
NUM_ENDED: Final = 20
# The version of the scheduler in a synthetic store.
SYNTHETIC_VERSION: Final = "synthetic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """A schedule as its scheduler reports it: its rule in words, and its next run or check."""

    name: str
    suite: str
    toolchain: str
    rule: str
    next_at: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """A device; `users` are foreign processes on it, empty if none is known."""

    device: str
    name: str
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskState:
    """The disk under a folder; `name` is the use of the folder."""

    name: str
    path: str
    free_bytes: int
    total_bytes: int


class SchedulerStatus(StrEnum):
    """The state of a scheduler by its heartbeats; a synthetic store has no process."""

    ALIVE = "alive"
    SILENT = "silent"
    SYNTHETIC = "synthetic"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState:
    """The last report of a scheduler; `current_job` is empty while it waits.

    `process` is `host/pid/start`. `num_waiting` results wait in its spool for the store;
    `num_broken` were moved aside there.
    """

    machine: str
    process: str
    version: str
    started_at: datetime
    heartbeat_at: datetime
    current_job: str = ""
    schedules: tuple[ScheduleState, ...] = ()
    devices: tuple[DeviceState, ...] = ()
    disks: tuple[DiskState, ...] = ()
    num_waiting: int = 0
    num_broken: int = 0

    def status(self, *, now: datetime) -> SchedulerStatus:
        """Return its status, from which pages, metrics and readiness say if it runs."""
        if self.version == SYNTHETIC_VERSION:
            return SchedulerStatus.SYNTHETIC
        is_silent = now - self.heartbeat_at > LATE_AFTER
        return SchedulerStatus.SILENT if is_silent else SchedulerStatus.ALIVE

    def is_silent(self, *, now: datetime) -> bool:
        """Return whether its last heartbeat is so old that it has probably ended."""
        return self.status(now=now) is SchedulerStatus.SILENT

    def is_alive(self, *, now: datetime) -> bool:
        """Return whether a process sends heartbeats, and so executes requests."""
        return self.status(now=now) is SchedulerStatus.ALIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Every scheduler by machine, the open jobs (oldest first), and ended ones.

    `ended_jobs` are the newest, newest first. `num_jobs` counts all jobs by state, and
    `num_running` the runs in progress.
    """

    schedulers: tuple[SchedulerState, ...] = ()
    open_jobs: tuple[QueuedJob, ...] = ()
    ended_jobs: tuple[QueuedJob, ...] = ()
    num_jobs: Mapping[JobState, int] = dataclasses.field(default_factory=dict)
    num_running: int = 0


def load_health(store: Store, *, num_ended: int = NUM_ENDED) -> Health:
    """Return the state of all components, with at most `num_ended` ended jobs.

    A heartbeat does not raise the store version: caches of the result expire after
    HEARTBEAT_INTERVAL_S.
    """
    schedulers = select(SchedulerTable).order_by(SchedulerTable.c.machine)
    jobs = select(JobTable)
    is_open = JobTable.c.state.in_(OPEN_STATES)
    ended = jobs.where(~is_open).order_by(JobTable.c.enqueued_at.desc(), JobTable.c.id)
    counted = select(JobTable.c.state, func.count()).group_by(JobTable.c.state)
    running = select(func.count()).where(RunTable.c.state == RunState.RUNNING)
    with store.read() as connection:
        return Health(
            schedulers=tuple(_scheduler(row) for row in connection.execute(schedulers)),
            open_jobs=tuple(
                queued_job(row)
                for row in connection.execute(
                    jobs.where(is_open).order_by(JobTable.c.enqueued_at, JobTable.c.id)
                )
            ),
            ended_jobs=tuple(queued_job(row) for row in connection.execute(ended.limit(num_ended))),
            num_jobs={JobState(state): number for state, number in connection.execute(counted)},
            num_running=connection.execute(running).scalar_one(),
        )


def save_scheduler(store: Store, state: SchedulerState) -> None:
    """Replace the report of a scheduler; the store version stays."""
    values = {
        item.name: getattr(state, item.name)
        for item in dataclasses.fields(SchedulerState)
        if item.name not in ("current_job", "schedules", "devices", "disks")
    }
    # The column has another name than the field.
    values["doing"] = state.current_job
    lists = {
        "schedules": [_schedule_json(item) for item in state.schedules],
        "devices": [dataclasses.asdict(item) for item in state.devices],
        "disks": [dataclasses.asdict(item) for item in state.disks],
    }
    with store.write(raises_version=False) as connection:
        connection.execute(delete(SchedulerTable).where(SchedulerTable.c.machine == state.machine))
        connection.execute(insert(SchedulerTable).values(**values, **lists))


def _schedule_json(state: ScheduleState) -> dict[str, Any]:
    document = dataclasses.asdict(state)
    document["next_at"] = None if state.next_at is None else state.next_at.isoformat()
    return document


def _schedule(document: Mapping[str, Any]) -> ScheduleState:
    at = document["next_at"]
    return ScheduleState(
        **{**document, "next_at": None if at is None else datetime.fromisoformat(at)}
    )


def _scheduler(row: Any) -> SchedulerState:
    return SchedulerState(
        machine=row.machine,
        process=row.process,
        version=row.version,
        started_at=utc(row.started_at),
        heartbeat_at=utc(row.heartbeat_at),
        current_job=row.doing,
        schedules=tuple(_schedule(item) for item in row.schedules),
        devices=tuple(
            DeviceState(**{**item, "users": tuple(item["users"])}) for item in row.devices
        ),
        disks=tuple(DiskState(**item) for item in row.disks),
        num_waiting=row.num_waiting,
        num_broken=row.num_broken,
    )

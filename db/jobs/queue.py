"""The queue of requested runs, inside the caller's transaction."""

from __future__ import annotations

import dataclasses
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, delete, exists, insert, not_, or_, select, true, update
from sqlalchemy.engine import Connection

from compile_hud.db.errors import NotFoundError
from compile_hud.db.jobs.live_log import LiveLog
from compile_hud.db.rows.mapping import clean_json, utc, utc_or_none
from compile_hud.db.schema.tables import JobTable, LiveLogTable, SchedulerTable
from compile_hud.db.shared.processes import is_gone, this_process

# A job that crashes its process three times will do so the fourth time too.
MAX_ATTEMPTS: Final = 3


# The suite of a job for a single case is this before the key of the case.
_ONE_CASE: Final = "case "
# The suite of a job that searches the revision behind an alert is this before the alert's id.
_SEARCH: Final = "bisect "


def suite_of_case(case_key: str) -> str:
    """Return the suite of a job for a single case."""
    return f"{_ONE_CASE}{case_key}"


def case_of_suite(suite: str) -> str:
    """Return the key of the case that a job with this suite requests, "" for a whole suite."""
    return suite.removeprefix(_ONE_CASE) if suite.startswith(_ONE_CASE) else ""


def suite_of_search(alert_id: str) -> str:
    """Return the suite of a job that searches the revision behind an alert."""
    return f"{_SEARCH}{alert_id}"


def alert_of_suite(suite: str) -> str:
    """Return the id of the alert that a job with this suite is about, "" for a run."""
    return suite.removeprefix(_SEARCH) if suite.startswith(_SEARCH) else ""


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done"
    FAILED = "failed"


OPEN_STATES: Final = (JobState.QUEUED, JobState.LEASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A queued request for one run; `num_attempts` counts this lease.

    `machine` is where it will run, None for any.
    """

    id: str
    dedupe_key: str
    suite: str
    toolchain: str
    trigger: str
    num_attempts: int
    machine: str | None = None

    @property
    def is_exhausted(self) -> bool:
        """Return whether the process of the last attempt died: the job is leased to be ended."""
        return self.num_attempts > MAX_ATTEMPTS


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob(Job):
    """A job in the queue; `reason` says why it failed or waits until `due_at`.

    `holder` is the process that leased it last, `host/pid/start`.
    """

    state: JobState
    enqueued_at: datetime
    leased_at: datetime | None = None
    due_at: datetime | None = None
    holder: str | None = None
    run_id: str | None = None
    reason: str = ""


def queued_job(row: Any) -> QueuedJob:
    """Return the job in a row of the table."""
    return QueuedJob(
        id=row.id,
        dedupe_key=row.dedupe_key,
        suite=row.suite,
        toolchain=row.toolchain,
        trigger=row.trigger,
        num_attempts=row.num_attempts,
        machine=row.machine,
        state=JobState(row.state),
        enqueued_at=utc(row.enqueued_at),
        leased_at=utc_or_none(row.leased_at),
        due_at=utc_or_none(row.due_at),
        holder=row.holder,
        run_id=row.run_id,
        reason=row.reason or "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A run to be queued; `machine` is where it will run, None for any."""

    dedupe_key: str
    suite: str
    toolchain: str
    trigger: str
    machine: str | None = None


def put_job(connection: Connection, job: NewJob, *, at: datetime) -> bool:
    """Insert `job`; return False if one with its key ever existed for the same machine.

    Machines that share a store have schedules of the same names, and each has its nights.
    """
    is_same = JobTable.c.dedupe_key == job.dedupe_key
    if job.machine is not None:
        is_same &= or_(JobTable.c.machine.is_(None), JobTable.c.machine == job.machine)
    if connection.execute(select(exists().where(is_same))).scalar():
        return False
    connection.execute(
        insert(JobTable).values(
            id=uuid.uuid4().hex,
            **dataclasses.asdict(job),
            state=JobState.QUEUED,
            enqueued_at=at,
            num_attempts=0,
        )
    )
    return True


def has_due_job(connection: Connection, *, machine: str | None, at: datetime) -> bool:
    """Return whether a job for `machine` is queued and due, or leased."""
    is_due = exists().where(JobTable.c.state.in_(OPEN_STATES), _is_due(at), _is_for(machine))
    return bool(connection.execute(select(is_due)).scalar())


def has_due_run(connection: Connection, *, machine: str | None, at: datetime) -> bool:
    """Return whether a job for a run on `machine` is queued and due; searches wait for it."""
    is_due = exists().where(
        JobTable.c.state == JobState.QUEUED, _is_due(at), _is_for(machine), not_(_is_search())
    )
    return bool(connection.execute(select(is_due)).scalar())


def _is_search() -> ColumnElement[bool]:
    return JobTable.c.suite.startswith(_SEARCH, autoescape=True)


def _is_for(machine: str | None) -> ColumnElement[bool]:
    """Return the condition that the scheduler of `machine` may take a job; None takes all."""
    if machine is None:
        return true()
    is_nobodys = JobTable.c.machine.not_in(select(SchedulerTable.c.machine))
    return or_(JobTable.c.machine.is_(None), JobTable.c.machine == machine, is_nobodys)


def _is_due(at: datetime) -> ColumnElement[bool]:
    return or_(JobTable.c.due_at.is_(None), JobTable.c.due_at <= at)


def take_job(
    connection: Connection, *, machine: str | None, at: datetime, lease_s: float
) -> Job | None:
    """Lease the oldest free job for `machine`, None without one; runs go before searches.

    It may take jobs for any machine, and jobs for machines that never had a scheduler, which are
    nodes of its cluster. None takes all jobs. A job whose holder has ended is taken again; after
    MAX_ATTEMPTS it is exhausted, and the caller ends it. The end of a holder on another host
    cannot be seen: its lease counts until `lease_s` after the last renewal.
    """
    is_free = JobTable.c.state.in_(OPEN_STATES) & _is_due(at) & _is_for(machine)
    jobs = select(JobTable).where(is_free).order_by(_is_search(), JobTable.c.enqueued_at)
    for row in connection.execute(jobs).all():
        if row.state == JobState.LEASED and _is_leased(row, at=at, lease_s=lease_s):
            continue
        num_attempts = row.num_attempts + 1
        _change(
            connection,
            row.id,
            state=JobState.LEASED,
            leased_at=at,
            holder=this_process(),
            # Ending an exhausted job is no attempt.
            num_attempts=min(num_attempts, MAX_ATTEMPTS),
        )
        return Job(
            id=row.id,
            dedupe_key=row.dedupe_key,
            suite=row.suite,
            toolchain=row.toolchain,
            trigger=row.trigger,
            num_attempts=num_attempts,
            machine=row.machine,
        )
    return None


def renew(connection: Connection, job_id: str, *, at: datetime) -> None:
    """Extend the lease of a job; raise NotFoundError without one."""
    _change(connection, job_id, leased_at=at)


def end_job(
    connection: Connection, job_id: str, *, run_id: str | None, state: JobState, reason: str
) -> None:
    """Set the last state of a job; raise NotFoundError without one."""
    _change(connection, job_id, run_id=run_id, state=state, reason=reason)


def put_back(
    connection: Connection, job_id: str, *, due_at: datetime, reason: str, counts: bool = True
) -> None:
    """Queue a job again for `due_at`; raise NotFoundError without one.

    Unless the attempt `counts`, the job has as many attempts left as before it.
    """
    values: dict[str, object] = {} if counts else {"num_attempts": JobTable.c.num_attempts - 1}
    _change(
        connection,
        job_id,
        state=JobState.QUEUED,
        due_at=due_at,
        reason=reason,
        holder=None,
        **values,
    )


def put_live_log(connection: Connection, run_id: str, *, log: LiveLog | None, at: datetime) -> None:
    """Replace the last output of the case of a run."""
    connection.execute(delete(LiveLogTable).where(LiveLogTable.c.run_id == run_id))
    if log is not None:
        values = {"run_id": run_id, "at": at, "log": clean_json(log.to_json())}
        connection.execute(insert(LiveLogTable).values(**values))


def get_live_log(connection: Connection, run_id: str) -> LiveLog | None:
    """Return the last output of the case of a run, None without one."""
    query = select(LiveLogTable.c.log).where(LiveLogTable.c.run_id == run_id)
    log = connection.execute(query).scalar()
    return None if log is None else LiveLog.from_json(log)


def _change(connection: Connection, job_id: str, **values: object) -> None:
    changed = update(JobTable).where(JobTable.c.id == job_id).values(**values)
    if not connection.execute(changed.returning(JobTable.c.id)).scalar():
        raise NotFoundError(f"no job {job_id!r} in this store", job=job_id)


def _is_leased(row: Row[Any], *, at: datetime, lease_s: float) -> bool:
    assert row.holder is not None
    assert row.leased_at is not None
    gone = is_gone(row.holder)
    if gone is None:
        return utc(row.leased_at) + timedelta(seconds=lease_s) > at
    return not gone

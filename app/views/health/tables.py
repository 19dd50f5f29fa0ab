"""The problems and the tables of the page of health. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from markupsafe import Markup

from compile_hud.app.components.table.columns import (
    DataTable,
    Link,
    LinkColumn,
    NumberColumn,
    TextColumn,
    TimeColumn,
    data_table,
)
from compile_hud.app.data.health import HealthPage
from compile_hud.app.ui.format import age, duration, local_moment, moment, quantity
from compile_hud.app.ui.html import Cell, HtmlColumn, table, time_cell
from compile_hud.app.ui.urls import run_url
from compile_hud.db.jobs.health import DiskState, SchedulerState
from compile_hud.db.jobs.queue import JobState, QueuedJob
from compile_hud.db.records.notifications import WAITING, Notification
from compile_hud.db.shared.text import counted

# A night of a large zoo with traces writes a few gigabytes.
LEAST_FREE_BYTES = 5 * 2**30
_LEAST_FREE_SHARE = 0.05
_SCHEDULER_COLUMNS = (
    HtmlColumn(label="machine"),
    HtmlColumn(label="state"),
    HtmlColumn(label="current job"),
    HtmlColumn(label="last heartbeat"),
    HtmlColumn(label="since"),
    HtmlColumn(label="pending results", title="in its spool, for the store", is_number=True),
    HtmlColumn(label="version", is_spare=True),
    HtmlColumn(label="process", is_spare=True),
)
_NEXT_COLUMNS = (
    HtmlColumn(label="schedule"),
    HtmlColumn(label="next"),
    HtmlColumn(label="rule"),
    HtmlColumn(label="suite"),
    HtmlColumn(label="toolchain"),
    HtmlColumn(label="machine", is_spare=True),
    HtmlColumn(label="note"),
)
_JOB_COLUMNS = (
    LinkColumn(label="run", help="opens it"),
    TimeColumn(label="requested"),
    TextColumn(label="state"),
    TextColumn(label="suite"),
    TextColumn(label="toolchain"),
    TextColumn(label="by"),
    NumberColumn(label="attempts"),
    TextColumn(label="taken by", is_hidden=True),
    TextColumn(label="why"),
)
_DEVICE_COLUMNS = (
    HtmlColumn(label="machine"),
    HtmlColumn(label="device"),
    HtmlColumn(label="name"),
    HtmlColumn(label="others on it"),
)
_DISK_COLUMNS = (
    HtmlColumn(label="machine"),
    HtmlColumn(label="for"),
    HtmlColumn(label="free", is_number=True),
    HtmlColumn(label="of", is_number=True),
    HtmlColumn(label="free share", is_number=True),
    HtmlColumn(label="folder", is_spare=True),
)
_DEAD_COLUMNS = (
    HtmlColumn(label="receiver"),
    HtmlColumn(label="message"),
    HtmlColumn(label="from"),
    HtmlColumn(label="attempts", is_number=True),
    HtmlColumn(label="last error"),
)


def troubles(page: HealthPage, *, now: datetime) -> list[str]:
    """Return a sentence with a remedy for each problem, the worst first."""
    sentences: list[str] = []
    for scheduler in sorted(page.health.schedulers, key=lambda item: not item.is_silent(now=now)):
        sentences += _of_scheduler(scheduler, now=now)
    if page.health.open_jobs and not any(item.is_alive(now=now) for item in page.health.schedulers):
        num = len(page.health.open_jobs)
        sentences.append(
            "1 job waits and no scheduler takes it: hud up or hud schedule."
            if num == 1
            else f"{counted(num, 'job')} wait and no scheduler takes them: hud up or hud schedule."
        )
    failed = [job for job in page.health.ended_jobs if job.state is JobState.FAILED]
    if failed:
        newest = failed[0]
        num_ended = counted(len(page.health.ended_jobs), "job")
        sentences.append(
            f"{len(failed)} of the newest {num_ended} failed, the last one"
            f" {age(newest.enqueued_at, now=now)}: {newest.reason or 'no reason is known'}."
        )
    if page.dead:
        sentences.append(f"{counted(len(page.dead), 'message')} failed for good; see below.")
    for name, num in sorted(page.unclaimed.items()):
        waits = "message waits" if num == 1 else "messages wait"
        sentences.append(
            f"{num} {waits} for the receiver {name}, which hud.toml does not name: a"
            " [receivers.NAME] of that name lets them go."
        )
    return sentences


def _of_scheduler(scheduler: SchedulerState, *, now: datetime) -> list[str]:
    machine = scheduler.machine
    if scheduler.is_silent(now=now):
        silent = duration((now - scheduler.heartbeat_at).total_seconds())
        return [
            f"The scheduler of {machine} has been silent for {silent}. Start hud up or hud schedule"
            " there; hud doctor names the cause."
        ]
    texts = [
        f"The disk for {disk.name} of {machine} has {quantity(disk.free_bytes, 'B')} left: make"
        " room, or keep less with [traces] and [samples] in hud.toml."
        for disk in scheduler.disks
        if is_full(disk)
    ]
    if scheduler.num_broken:
        texts.append(
            f"The spool of {machine} has {counted(scheduler.num_broken, 'result')} that cannot be"
            " read: hud doctor there names them."
        )
    return texts


def is_full(disk: DiskState) -> bool:
    """Return whether a disk may be too full for the next night."""
    least = min(LEAST_FREE_BYTES, _LEAST_FREE_SHARE * disk.total_bytes)
    return disk.free_bytes < least


def wellness(page: HealthPage, *, now: datetime) -> str:
    """Return a sentence on current activity, for a store with a scheduler and without problems.

    A scheduler of a synthetic store is an example and does not run.
    """
    health = page.health
    alive = [item for item in health.schedulers if item.is_alive(now=now)]
    coming = [item.next_at for one in alive for item in one.schedules if item.next_at is not None]
    when = f", the next run {in_words(min(coming), now=now)}" if coming else ""
    if not alive:
        return "The scheduler is an example, as the runs of this synthetic store are. Nothing runs."
    runs = counted(health.num_running, "run")
    return (
        f"Healthy: {counted(len(alive), 'scheduler')} running, {runs} in progress,"
        f" {counted(len(health.open_jobs), 'job')} in the queue{when}."
    )


def in_words(at: datetime, *, now: datetime) -> str:
    """Return the distance to a time: `in 3 h 05 min`, or `due for 5 min`."""
    left_s = (at - now).total_seconds()
    return f"in {duration(left_s)}" if left_s > 0 else f"due for {duration(-left_s)}"


def scheduler_table(page: HealthPage, *, now: datetime) -> str:
    """Return a row for each machine that has a scheduler, "" without any."""
    rows = [
        (
            Cell(text=item.machine, style="strong"),
            Cell(
                text=str(item.status(now=now)),
                style="strong" if item.is_silent(now=now) else "",
            ),
            Cell(text=item.current_job or "waits", style="prose"),
            Cell(text=age(item.heartbeat_at, now=now), title=moment(item.heartbeat_at)),
            time_cell(item.started_at),
            Cell(text=str(item.num_waiting)),
            Cell(text=item.version),
            Cell(text=item.process, style="quiet"),
        )
        for item in page.health.schedulers
    ]
    return _table(_SCHEDULER_COLUMNS, rows, label="schedulers")


def next_table(page: HealthPage, *, now: datetime) -> str:
    """Return a row for each schedule of those not silent, the soonest first, "" for none."""
    schedulers = [item for item in page.health.schedulers if not item.is_silent(now=now)]
    upcoming = [(one, item) for one in schedulers for item in one.schedules]
    upcoming.sort(key=lambda pair: (pair[1].next_at is None, pair[1].next_at or now, pair[1].name))
    rows = [
        (
            Cell(text=item.name, style="strong"),
            Cell(
                text=in_words(item.next_at, now=now) if item.next_at else "-",
                title=moment(item.next_at) if item.next_at else "",
            ),
            Cell(text=item.rule),
            Cell(text=item.suite),
            Cell(text=item.toolchain),
            Cell(text=one.machine),
            Cell(text=item.note, style="prose quiet"),
        )
        for one, item in upcoming
    ]
    return _table(_NEXT_COLUMNS, rows, label="next runs")


def job_table(jobs: Iterable[QueuedJob], *, label: str) -> DataTable | None:
    """Return a row for each job, None without any."""
    rows = [
        (
            Link(job.run_id, run_url(job.run_id)) if job.run_id else None,
            job.enqueued_at,
            "at work" if job.state is JobState.LEASED else str(job.state),
            job.suite,
            job.toolchain,
            job.trigger,
            job.num_attempts,
            job.holder or None,
            _job_note(job) or None,
        )
        for job in jobs
    ]
    return data_table(_JOB_COLUMNS, rows, label=label) if rows else None


def _job_note(job: QueuedJob) -> str:
    machine = f"on {job.machine}" if job.machine else ""
    is_waiting = job.state is JobState.QUEUED and job.due_at is not None
    until = f"not before {local_moment(job.due_at)}" if is_waiting and job.due_at else ""
    when = ", ".join(part for part in (machine, until) if part)
    return ": ".join(part for part in (when, job.reason) if part)


def device_table(page: HealthPage) -> str:
    """Return a row for each device, with the processes on it and their users; "" without any."""
    rows = [
        (
            Cell(text=item.machine),
            Cell(text=device.device),
            Cell(text=device.name),
            Cell(
                text=", ".join(device.users) or "none visible",
                style="prose strong" if device.users else "quiet",
            ),
        )
        for item in page.health.schedulers
        for device in item.devices
    ]
    return _table(_DEVICE_COLUMNS, rows, label="devices")


def disk_table(page: HealthPage) -> str:
    """Return a row for each disk, "" without any."""
    rows = [
        (
            Cell(text=item.machine),
            Cell(text=disk.name),
            Cell(text=quantity(disk.free_bytes, "B"), style="strong" if is_full(disk) else ""),
            Cell(text=quantity(disk.total_bytes, "B")),
            Cell(text=f"{100 * disk.free_bytes / (disk.total_bytes or 1):.1f} %"),
            Cell(text=disk.path, style="quiet"),
        )
        for item in page.health.schedulers
        for disk in item.disks
    ]
    return _table(_DISK_COLUMNS, rows, label="disks")


def receiver_table(page: HealthPage) -> str:
    """Return the number of messages by receiver and state, "" without a receiver."""
    names = sorted({receiver for receiver, _ in page.num_notifications})
    columns = (
        HtmlColumn(label="receiver"),
        *(
            HtmlColumn(label=label, is_number=True)
            for label in ("sent", "waiting", "given up", "dropped")
        ),
    )
    waiting = {str(state) for state in WAITING}
    rows = []
    for name in names:
        counts = {str(s): n for (who, s), n in page.num_notifications.items() if who == name}
        numbers = (
            counts.get("sent", 0),
            sum(number for state, number in counts.items() if state in waiting),
            counts.get("dead", 0),
            counts.get("dropped", 0),
        )
        rows.append((Cell(text=name), *(Cell(text=str(number)) for number in numbers)))
    return _table(columns, rows, label="messages by receiver")


def dead_table(dead: Iterable[Notification], *, now: datetime) -> Markup:
    """Return a row for each message that failed for good, "" without any."""
    rows = [
        (
            Cell(text=item.receiver),
            Cell(text=item.title, style="prose", title=item.id),
            Cell(text=age(item.created_at, now=now), title=moment(item.created_at)),
            Cell(text=str(item.num_attempts)),
            Cell(text=item.last_error, style="prose"),
        )
        for item in dead
    ]
    return _table(_DEAD_COLUMNS, rows, label="failed messages")


def _table(columns: Sequence[HtmlColumn], rows: Sequence[Sequence[Cell]], *, label: str) -> Markup:
    return table(columns, rows, label=label) if rows else Markup()

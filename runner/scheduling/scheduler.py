"""Fire schedules. APScheduler only requests jobs: it forgets a job if it is killed meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta, timezone
from pathlib import Path

from apscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_STOPPED
from apscheduler.triggers.cron import CronTrigger
from sqlalchemy.exc import SQLAlchemyError

from compile_hud.db.jobs.health import ScheduleState
from compile_hud.db.shared.text import counted
from compile_hud.runner.config.schedules import Schedule
from compile_hud.runner.errors import SchedulerBusy, SchedulerUnavailable
from compile_hud.runner.scheduling.job_requests import JobRequest, JobRequests, night_key
from compile_hud.runner.system.locks import holder_text, immediate_lock

logger = logging.getLogger(__name__)

# Seconds until the schedules are processed again after their file could not be written.
RETRY_S = 30.0


class Scheduler(BackgroundScheduler):  # type: ignore[misc]
    """APScheduler 3.11 without its last pass on shutdown, and robust against a full disk.

    In its last pass APScheduler cannot start due jobs but marks them as done. A night that is due
    at that moment would be missed.
    """

    requests: JobRequests

    def states(self) -> tuple[ScheduleState, ...]:
        """Return the schedules with the time at which each fires next."""
        return tuple(
            ScheduleState(
                name=job.id,
                suite=job.kwargs["suite"],
                toolchain=job.kwargs["toolchain"],
                rule=f"{job.kwargs['cron']} {job.kwargs['timezone']}",
                next_at=job.next_run_time.astimezone(timezone.utc),
            )
            for job in self.get_jobs()
        )

    def is_alive(self) -> bool:
        """Return whether schedules still fire."""
        return self._thread is not None and self._thread.is_alive()

    def _process_jobs(self) -> float | None:
        if self.state == STATE_STOPPED:
            return None
        try:
            wait_s: float | None = super()._process_jobs()
        except (SQLAlchemyError, OSError) as error:
            # A schedule that fired will fire again; its key prevents a second job.
            logger.warning("schedules are looked at again in %.0f s: %s", RETRY_S, error)
            return RETRY_S
        return wait_s


def fire(**schedule: str) -> dict[str, str]:
    """Return the schedule's fields; APScheduler calls this by name, even in a later process."""
    return schedule


@contextmanager
def scheduling(
    schedules: Mapping[str, Schedule], *, state_dir: Path, wake: threading.Event
) -> Iterator[Scheduler]:
    """Write a job request whenever one of `schedules` fires, and set `wake`.

    A schedule that was due while no scheduler ran fires once, now. Raises SchedulerBusy if another
    process schedules from this state directory, LockUnavailable, and SchedulerUnavailable if its
    file there is unusable.
    """
    requests = JobRequests(state_dir / "jobs")
    path = state_dir / "schedule.sqlite"

    def on_event(event: JobExecutionEvent) -> None:
        if event.code == EVENT_JOB_MISSED:
            limit = timedelta(seconds=schedules[event.job_id].catch_up_s)
            logger.warning("schedule %s was missed by more than %s", event.job_id, limit)
            return
        name, timezone = event.retval["name"], event.retval["timezone"]
        requests.save(
            JobRequest(
                dedupe_key=night_key(name, at=event.scheduled_run_time, timezone=timezone),
                suite=event.retval["suite"],
                toolchain=event.retval["toolchain"],
                trigger=f"schedule {name}",
            )
        )
        wake.set()

    with immediate_lock(state_dir / "scheduler.lock", on_conflict=_already_running):
        scheduler = Scheduler(
            jobstores={"default": SQLAlchemyJobStore(url=f"sqlite:///{path}")},
            job_defaults={"max_instances": 1},
            timezone="UTC",
        )
        scheduler.requests = requests
        scheduler.add_listener(on_event, EVENT_JOB_EXECUTED | EVENT_JOB_MISSED)
        try:
            _start(scheduler, schedules, path=path)
            yield scheduler
        finally:
            if scheduler.running:
                scheduler.shutdown()
            if num_unwritten := requests.write_unwritten():
                logger.error("lost, not written down: %s", counted(num_unwritten, "job"))


def _start(scheduler: Scheduler, schedules: Mapping[str, Schedule], *, path: Path) -> None:
    try:
        scheduler.start(paused=True)
        _synchronise(scheduler, schedules)
    except SQLAlchemyError as error:
        text = " ".join(str(getattr(error, "orig", None) or error).split())
        raise SchedulerUnavailable(
            f"the schedules in {path} cannot be used: {text}. Make room on the disk, or, when the"
            " file is damaged, remove it: it is made anew from hud.toml",
            path=path,
        ) from error
    scheduler.resume()


def _already_running(pid: int | None) -> Exception:
    return SchedulerBusy(
        f"{holder_text(pid)} schedules from this state directory already;"
        " end it, or give this one another directory (HUD_STATE_DIR)"
    )


def _synchronise(scheduler: BackgroundScheduler, schedules: Mapping[str, Schedule]) -> None:
    known = {job.id: job.kwargs for job in scheduler.get_jobs()}
    timed = {name: schedule for name, schedule in schedules.items() if schedule.cron}
    for name in known.keys() - timed.keys():
        scheduler.remove_job(name)
    for name, schedule in timed.items():
        fields = {
            "name": name,
            "cron": schedule.cron,
            "timezone": schedule.timezone,
            "suite": schedule.suite,
            "toolchain": schedule.toolchain,
            "catch_up_s": f"{schedule.catch_up_s:g}",
            "coalesce": str(schedule.coalesce),
        }
        # An unchanged job stays: a new one would not know that its night was missed.
        if known.get(name) != fields:
            scheduler.add_job(
                fire,
                CronTrigger.from_crontab(schedule.cron, timezone=schedule.timezone),
                id=name,
                kwargs=fields,
                coalesce=schedule.coalesce,
                misfire_grace_time=max(1, int(schedule.catch_up_s)),
                replace_existing=True,
            )

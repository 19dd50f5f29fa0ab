"""Fire schedules, queue what they ask for and work through the queue, one job after the other.

APScheduler only writes job requests. It forgets a job during which its process is killed, so what
was asked for, leased and done is in the store.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from apscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_STOPPED
from apscheduler.triggers.cron import CronTrigger

from db.errors import StoreError
from db.jobs import Job, JobState
from db.queries import load_runs
from db.records import RunDocument, RunState
from db.store import Store
from models_zoo.spec import UnknownNameError
from runner.config import Schedule
from runner.errors import ResumeError, RunInterrupted, RunnerError, SchedulerHeld
from runner.events import Notify, Said
from runner.heartbeat import heartbeat
from runner.jobs import JobRequest, JobRequests, night_key
from runner.locks import immediate_lock
from runner.plan import find_suite
from runner.wiring import RunOrder, Workplace, execute_order

logger = logging.getLogger(__name__)

# A machine that was off at night still measures the night when it comes up in the morning.
MISFIRE_GRACE = timedelta(hours=12)
# How soon a job is noticed that another process queued; our own schedules wake the loop at once.
LOOK_EVERY_S = 30.0
RENEW_EVERY_S = 600.0


class _Scheduler(BackgroundScheduler):  # type: ignore[misc]
    """APScheduler 3.11 without its last look at the jobs.

    Told to stop, it looks once more at what is due, cannot start it any more, and notes it as done:
    a night that came due in that moment would be lost.
    """

    def _process_jobs(self) -> float | None:
        if self.state == STATE_STOPPED:
            return None
        wait_s: float | None = super()._process_jobs()
        return wait_s


def fire(**schedule: str) -> dict[str, str]:
    """Return the schedule's fields; APScheduler calls this by name, in a later process even."""
    return schedule


@contextmanager
def scheduling(
    schedules: Mapping[str, Schedule], *, state_dir: Path, wake: threading.Event
) -> Iterator[BackgroundScheduler]:
    """Write a job request whenever one of `schedules` fires, and set `wake`.

    What should have fired while no scheduler was running fires once, now. Raises SchedulerHeld when
    another process schedules from this state directory.
    """
    requests = JobRequests(state_dir / "jobs")

    def on_event(event: JobExecutionEvent) -> None:
        if event.code == EVENT_JOB_MISSED:
            logger.warning("schedule %s was missed by more than %s", event.job_id, MISFIRE_GRACE)
            return
        name, timezone = event.retval["name"], event.retval["timezone"]
        requests.write(
            JobRequest(
                dedupe_key=night_key(name, at=event.scheduled_run_time, timezone=timezone),
                suite=event.retval["suite"],
                toolchain=event.retval["toolchain"],
                trigger=f"schedule {name}",
            )
        )
        wake.set()

    with immediate_lock(state_dir / "scheduler.lock", on_held=_held):
        scheduler = _Scheduler(
            jobstores={
                "default": SQLAlchemyJobStore(url=f"sqlite:///{state_dir / 'schedule.sqlite'}")
            },
            job_defaults={
                "coalesce": True,
                "max_instances": 1,
                "misfire_grace_time": int(MISFIRE_GRACE.total_seconds()),
            },
            timezone="UTC",
        )
        scheduler.add_listener(on_event, EVENT_JOB_EXECUTED | EVENT_JOB_MISSED)
        scheduler.start(paused=True)
        try:
            _synchronise(scheduler, schedules)
            scheduler.resume()
            yield scheduler
        finally:
            scheduler.shutdown()


def _held(pid: int | None) -> Exception:
    holder = "another process" if pid is None else f"PID {pid}"
    return SchedulerHeld(
        f"{holder} schedules from this state directory already;"
        " end it, or give this one another directory (HUD_STATE_DIR)"
    )


def _synchronise(scheduler: BackgroundScheduler, schedules: Mapping[str, Schedule]) -> None:
    known = {job.id: job.kwargs for job in scheduler.get_jobs()}
    for name in known.keys() - schedules.keys():
        scheduler.remove_job(name)
    for name, schedule in schedules.items():
        fields = {
            "name": name,
            "cron": schedule.cron,
            "timezone": schedule.timezone,
            "suite": schedule.suite,
            "toolchain": schedule.toolchain,
        }
        # An unchanged job is left alone: adding it anew would forget that its night was missed.
        if known.get(name) != fields:
            scheduler.add_job(
                fire,
                CronTrigger.from_crontab(schedule.cron, timezone=schedule.timezone),
                id=name,
                kwargs=fields,
                replace_existing=True,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLoop:
    """Takes jobs from the queue of the store and runs them, one at a time."""

    workplace: Workplace
    notify: Notify
    judge: Callable[[RunDocument], object]
    wake: threading.Event

    def run_forever(self) -> None:
        """Run jobs as they come, until RunInterrupted is raised by a signal."""
        trouble = ""
        while True:
            new_trouble = self.run_queued()
            if new_trouble and not trouble:
                self._say(f"the queue cannot be read: {new_trouble}. It is tried again")
            trouble = new_trouble
            self.wake.wait(LOOK_EVERY_S)
            self.wake.clear()

    def run_queued(self) -> str:
        """Run every job that is queued; return why the queue could not be read, else empty.

        Raises RunInterrupted when a signal ended a run; its job is continued by the next start.
        """
        store = self.workplace.store()
        requests = JobRequests(self.workplace.config.state_dir / "jobs")
        while True:
            try:
                trouble = requests.flush(store)
                job = store.lease_job()
            except StoreError as error:
                return str(error)
            if job is None:
                return trouble
            self._run_job(job, store)

    def _run_job(self, job: Job, store: Store) -> None:
        self.notify(
            Said(text=f"job {job.dedupe_key}: suite {job.suite}, attempt {job.num_attempts}")
        )
        run_id, state = None, JobState.FAILED
        try:
            with heartbeat(lambda: _renew(job, store), every_s=RENEW_EVERY_S):
                run_id = self._execute(job, store)
            state = JobState.DONE
        except RunInterrupted:
            raise
        except (RunnerError, StoreError, UnknownNameError) as error:
            self._say(f"job {job.dedupe_key} failed: {error}")
        except Exception:
            # A defect in one suite must not end the nights of all others.
            logger.exception("job %s failed", job.dedupe_key)
            self._say(f"job {job.dedupe_key} failed by a defect of Compile HUD; see the log")
        try:
            store.finish_job(job.id, run_id=run_id, state=state)
        except StoreError as error:
            self._say(f"the end of job {job.dedupe_key} could not be noted: {error}")

    def _execute(self, job: Job, store: Store) -> str:
        trigger = f"job {job.dedupe_key}"
        earlier = [item.run for item in load_runs(store) if item.run.trigger == trigger]
        if earlier and earlier[0].state is RunState.FINISHED:
            return earlier[0].id
        order = RunOrder(
            suite=find_suite(job.suite, suites=self.workplace.config.suites),
            toolchain=job.toolchain,
            trigger=trigger,
        )
        if earlier:
            document = self._resume(order, run_id=earlier[0].id, device=earlier[0].plan[0].device)
        else:
            document = execute_order(order, workplace=self.workplace, notify=self.notify)
        if document.run.state is not RunState.FINISHED:
            raise RunInterrupted(f"run {document.run.id} was interrupted")
        self.judge(document)
        return document.run.id

    def _resume(self, order: RunOrder, *, run_id: str, device: str) -> RunDocument:
        try:
            return execute_order(
                RunOrder(
                    suite=order.suite,
                    toolchain=order.toolchain,
                    device=device,
                    trigger=order.trigger,
                    resume_id=run_id,
                ),
                workplace=self.workplace,
                notify=self.notify,
            )
        except ResumeError as error:
            self._say(f"{error}. A new run is started")
            return execute_order(order, workplace=self.workplace, notify=self.notify)

    def _say(self, text: str) -> None:
        self.notify(Said(text=text, is_warning=True))


def _renew(job: Job, store: Store) -> None:
    try:
        store.renew_job(job.id)
    except StoreError as error:
        logger.info("the lease of job %s is not renewed this time: %s", job.id, error)

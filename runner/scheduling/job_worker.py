"""Work through the queue of the store, one job after the other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from compile_hud.db.errors import StoreError
from compile_hud.db.jobs.queue import MAX_ATTEMPTS, Job, JobState, case_of_suite
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_last_measured, load_runs_beside, load_triggered
from compile_hud.db.records.results import Run, RunDocument, RunState
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.spec import UnknownNameError
from compile_hud.runner.config.schedules import ExecutorKind, Schedule
from compile_hud.runner.errors import (
    ExecutorError,
    LockUnavailable,
    ResumeError,
    RunInterrupted,
    RunnerError,
    SpoolFull,
    ToolchainError,
)
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.scheduling.change_triggers import Watches
from compile_hud.runner.scheduling.job_orders import request_for_job, schedule_like, schedule_of
from compile_hud.runner.scheduling.job_requests import JobRequests
from compile_hud.runner.scheduling.scheduler import Scheduler
from compile_hud.runner.system.allocator import give_back_memory
from compile_hud.runner.system.heartbeat_thread import heartbeat
from compile_hud.runner.workspace import AUTO_DEVICE, RunRequest, Workspace, execute_request

logger = logging.getLogger(__name__)

# Trouble of the machine and not of what is measured: it may be over in a while. The run of the job
# goes on then where it stopped, and keeps what it has.
TRANSIENT_ERRORS = (StoreError, ExecutorError, SpoolFull, LockUnavailable, ToolchainError)
# Five minutes are enough for a driver to come back, a quarter of an hour for somebody to make room.
RETRY_S = 300.0
RETRY_FACTOR = 3.0
# How soon a job is noticed that another process queued; our own schedules wake the loop at once.
LOOK_EVERY_S = 30.0
RENEW_EVERY_S = 600.0
GPU = "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingUpdate:
    """What became of a job, while the store does not take it; `judge` judges what it ran."""

    note: Callable[[], None]
    judge: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunner:
    """Who measures an request, in one run or in one on each machine, and how those are judged."""

    measure: Callable[[RunRequest], Sequence[RunDocument]]
    judge: Callable[..., object]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWorker:
    """Takes jobs from the queue of the store and runs them, one at a time.

    `judge` judges a run of this machine; `cluster` does what Ray is wanted for.
    """

    workspace: Workspace
    notify: Notify
    judge: Callable[[RunDocument], object]
    # Notifications that wait: between the jobs, so that no measurement is disturbed.
    send: Callable[[], object]
    wake: threading.Event
    scheduler: Scheduler | None = None
    watches: Watches | None = None
    # Raises RunInterrupted when a signal has come.
    check: Callable[[], None] = lambda: None
    # Builds a toolchain again, by its name.
    build: Callable[[str], object] = lambda _toolchain: None
    cluster: JobRunner | None = None
    # What is worked on now, for those who ask from another thread.
    doing: list[str] = field(default_factory=list)
    # As long as it is not noted, the lease of the job stays with this process.
    unnoted: list[PendingUpdate] = field(default_factory=list)

    def is_doing(self) -> str:
        """Return the job that is worked on, empty between two."""
        return self.doing[-1] if self.doing else ""

    def run_forever(self) -> None:
        """Run jobs as they come, until RunInterrupted is raised by a signal."""
        trouble = ""
        is_scheduled = self.scheduler is not None
        while True:
            if is_scheduled and self.scheduler is not None and not self.scheduler.is_alive():
                is_scheduled = False
                self._say("schedules fire no more, by a defect; see the log and start this anew")
            if self.watches is not None:
                # Here and not in a thread: what is asked must not disturb a measurement.
                self.watches.look()
            new_trouble = self.run_queued()
            if new_trouble and not trouble:
                self._say(f"the queue cannot be read: {new_trouble}. It is tried again")
            trouble = new_trouble
            if not trouble:
                # Else it would wait for the same lock, and say the same.
                self.send()
            self.check()
            self.wake.wait(LOOK_EVERY_S)
            self.wake.clear()

    def run_queued(self) -> str:
        """Run every job that is queued; return why the queue could not be read, else empty.

        Raises RunInterrupted when a signal ended a run; its job is continued by the next start.
        """
        store = self.workspace.store()
        # Those of the scheduler may have some in memory that no disk took.
        requests = (
            self.scheduler.requests
            if self.scheduler is not None
            else JobRequests(self.workspace.config.state_dir / "jobs")
        )
        while True:
            try:
                if trouble := self._note_the_rest(store):
                    return trouble
                machine = self.workspace.config.machine
                trouble = requests.flush(store, machine=machine)
                job = store.lease_job(machine=machine)
            except StoreError as error:
                return str(error)
            if job is None:
                return trouble
            self._run_job(job, store)

    def _run_job(self, job: Job, store: Store) -> None:
        self.notify(
            LogMessage(text=f"job {job.dedupe_key}: suite {job.suite}, attempt {job.num_attempts}")
        )
        self.doing.append(f"job {job.dedupe_key}")
        try:
            self._work_on(job, store)
        finally:
            self.doing.pop()
            give_back_memory()

    def _work_on(self, job: Job, store: Store) -> None:
        run_id, state, reason, judge = None, JobState.FAILED, "", None
        try:
            with heartbeat(lambda: _renew(job, store), every_s=RENEW_EVERY_S):
                run_id = self._execute(job, store)
            state, judge = JobState.DONE, partial(self._judge_stored, job, run_id, store)
        except RunInterrupted:
            raise
        except TRANSIENT_ERRORS as error:
            reason = str(error)
            if job.num_attempts < MAX_ATTEMPTS:
                self._put_back(job, store, reason=reason)
                return
            self._say(f"job {job.dedupe_key} failed {job.num_attempts} times: {error}")
        except (RunnerError, UnknownNameError) as error:
            reason = str(error)
            self._say(f"job {job.dedupe_key} failed: {error}")
        except Exception as error:
            # A defect in one suite must not end the nights of all others.
            logger.exception("job %s failed", job.dedupe_key)
            reason = f"a defect of Compile HUD: {error!r}"
            self._say(f"job {job.dedupe_key} failed by a defect of Compile HUD; see the log")
        self._note(
            job,
            PendingUpdate(
                note=lambda: store.finish_job(job.id, run_id=run_id, state=state, reason=reason),
                judge=judge,
            ),
        )

    def _put_back(self, job: Job, store: Store, *, reason: str) -> None:
        wait_s = RETRY_S * RETRY_FACTOR ** (job.num_attempts - 1)
        due_at = self.workspace.dependencies.now() + timedelta(seconds=wait_s)
        self._say(f"job {job.dedupe_key} goes on at {due_at:%H:%M} UTC: {reason}")
        self._note(
            job,
            PendingUpdate(note=lambda: store.put_job_back(job.id, due_at=due_at, reason=reason)),
        )

    def _note(self, job: Job, what: PendingUpdate) -> None:
        try:
            what.note()
        except StoreError as error:
            self.unnoted.append(what)
            self._say(
                f"what became of job {job.dedupe_key} could not be noted: {error}. It is tried"
                " again"
            )

    def _note_the_rest(self, store: Store) -> str:
        """Note what the store did not take before; return why that was not possible, or empty.

        Results that it did not take are stored and judged first. Raises StoreError.
        """
        while self.unnoted:
            rest = self.unnoted[0]
            if trouble := self._drain(store):
                return trouble
            if rest.judge is not None:
                rest.judge()
            rest.note()
            self.unnoted.pop(0)
        return ""

    def _drain(self, store: Store) -> str:
        """Pass on what waits in the spool; return why the store does not take it, or empty."""
        report = self.workspace.spool().drain(store)
        for broken in report.broken:
            self._say(broken.text)
        return report.trouble

    def _execute(self, job: Job, store: Store) -> str:
        trigger = f"job {job.dedupe_key}"
        # A run that ended while the store was locked must not be taken for one that did not.
        self._drain(store)
        schedule = schedule_of(job, self.workspace.config.schedules)
        rule = self._rule_of(job, store)
        engine = self._engine_of(rule)
        earlier = self._earlier(trigger, store, is_shared=engine is self.cluster)
        if earlier and all(run.state is RunState.FINISHED for run in earlier):
            # Its process may have died before the run was judged; a second time changes nothing.
            self._judge_stored(job, earlier[0].id, store)
            return earlier[0].id
        if not earlier and schedule is not None and schedule.builds(job.toolchain):
            self.build(job.toolchain)
        request = request_for_job(job, suites=self.workspace.config.suites, trigger=trigger)
        if rule is not None and rule.device is not None and request.device == AUTO_DEVICE:
            request = replace(request, device=rule.device)
        if case_of_suite(job.suite):
            request = replace(request, machine=job.machine)
        if earlier:
            documents = self._resume(request, earlier=earlier, engine=engine)
        else:
            documents = engine.measure(self._on_its_device(request, store))
        for document in documents:
            if document.run.state is not RunState.FINISHED:
                raise RunInterrupted(f"run {document.run.id} was interrupted")
        engine.judge(*documents)
        return documents[0].run.id

    def _rule_of(self, job: Job, store: Store) -> Schedule | None:
        """Return the schedule that says who measures a job, and on which kind of device.

        It is that of the job; of what people asked for, the one that measures the same.
        """
        config = self.workspace.config
        if (schedule := schedule_of(job, config.schedules)) is not None:
            return schedule
        if case_of_suite(job.suite) and job.machine == config.machine:
            return None
        return schedule_like(job, config.schedules, store=store)

    def _engine_of(self, rule: Schedule | None) -> JobRunner:
        if rule is None or rule.executor is ExecutorKind.LOCAL:
            return JobRunner(measure=self._measure_here, judge=self.judge)
        assert self.cluster is not None
        return self.cluster

    def _earlier(self, trigger: str, store: Store, *, is_shared: bool) -> tuple[Run, ...]:
        """Return the runs of the plan that a job began last: one, or one on each machine."""
        triggered = load_triggered(store, trigger)
        if is_shared:
            return load_runs_beside(store, triggered[0]) if triggered else ()
        # Other machines that share the store have nights of the same names.
        machine = self.workspace.config.machine
        return tuple(run for run in triggered if run.machine == machine)[:1]

    def _measure_here(self, request: RunRequest) -> list[RunDocument]:
        return [execute_request(request, workspace=self.workspace, notify=self.notify)]

    def _judge_stored(self, job: Job, run_id: str, store: Store) -> None:
        runs = load_runs_beside(store, load_document(store, run_id).run)
        self._engine_of(self._rule_of(job, store)).judge(
            *(load_document(store, run.id) for run in runs)
        )

    def _on_its_device(self, request: RunRequest, store: Store) -> RunRequest:
        """Return `request`, on the GPU if its suite was measured there before: it has come to stay.

        A night on the CPU would be one that nobody can compare with those before it. Where the GPU
        does not answer the job is tried again, and fails with the reason.
        """
        if request.device != AUTO_DEVICE or not self.workspace.dependencies.has_gpu():
            return request
        measured = load_last_measured(
            store,
            suite=request.suite.name,
            machine=self.workspace.config.machine,
            toolchain=request.toolchain,
        )
        was_on_gpu = any(key.rpartition("/")[2] == GPU for key in measured)
        return replace(request, device=GPU) if was_on_gpu else request

    def _resume(
        self, request: RunRequest, *, earlier: Sequence[Run], engine: JobRunner
    ) -> Sequence[RunDocument]:
        devices = [case.device for run in earlier for case in run.plan]
        try:
            return engine.measure(
                replace(
                    request,
                    device=devices[0] if devices else request.device,
                    resume_id=earlier[0].id,
                )
            )
        except ResumeError as error:
            self._say(f"{error}. A new run is started")
            return engine.measure(request)

    def _say(self, text: str) -> None:
        self.notify(LogMessage(text=text, is_warning=True))


def _renew(job: Job, store: Store) -> None:
    try:
        store.in_a_hurry().renew_job(job.id)
    except StoreError as error:
        logger.info("the lease of job %s is not renewed this time: %s", job.id, error)

"""Process the store's queue, one job after the other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Protocol

from compile_hud.db.errors import StoreError
from compile_hud.db.jobs.queue import MAX_ATTEMPTS, Job, JobState, alert_of_suite, case_of_suite
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_last_measured, load_runs_of_plan, load_triggered
from compile_hud.db.records.results import Case, Run, RunDocument, RunState
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.config.schedules import ExecutorKind, Schedule
from compile_hud.runner.config.suite_names import check_suite
from compile_hud.runner.errors import (
    BisectError,
    ExecutorError,
    LockUnavailable,
    ResumeError,
    RunInterrupted,
    RunnerError,
    SpoolFull,
    ToolchainError,
)
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest, execute_request
from compile_hud.runner.scheduling.change_triggers import Watches
from compile_hud.runner.scheduling.job_orders import request_for_job, schedule_like, schedule_of
from compile_hud.runner.scheduling.job_requests import JobRequests
from compile_hud.runner.scheduling.scheduler import Scheduler
from compile_hud.runner.system.allocator import give_back_memory
from compile_hud.runner.system.heartbeat_thread import heartbeat
from compile_hud.runner.workspace import Workspace

logger = logging.getLogger(__name__)

# Errors of the machine rather than of a case; they may be over after a while. The run of the job
# then continues where it stopped, with the results that it has.
TRANSIENT_ERRORS = (StoreError, ExecutorError, SpoolFull, LockUnavailable, ToolchainError)
# A driver comes back within five minutes; an operator needs a quarter of an hour to free a disk.
RETRY_S = 300.0
RETRY_FACTOR = 3.0
# Seconds until a job of another process is noticed; our own schedules wake the worker at once.
POLL_INTERVAL_S = 30.0
RENEW_EVERY_S = 600.0
GPU = "cuda"


class RunMeasurer(Protocol):
    """Executes the plan of a job, in one run or in one run a machine."""

    def __call__(self, request: RunRequest, /) -> Sequence[RunDocument]:
        """Return the runs."""
        ...


class RunJudge(Protocol):
    """Judges the runs of one job together."""

    def __call__(self, *documents: RunDocument) -> object:
        """Judge stored runs."""
        ...


class NotificationSender(Protocol):
    """Sends pending notifications; called between jobs, where it disturbs no measurement."""

    def __call__(self) -> object:
        """Send the due notifications."""
        ...


class InterruptCheck(Protocol):
    """Ends the worker after a signal."""

    def __call__(self) -> object:
        """Raise RunInterrupted when a signal has come."""
        ...


class AlertSearcher(Protocol):
    """Searches the revisions behind alerts."""

    def search(self, alert_id: str, *, is_run_due: Callable[[], bool]) -> bool:
        """Search, and return whether it has ended: it pauses between steps for a due run."""
        ...

    def give_up(self, alert_id: str, *, reason: str) -> None:
        """Store in the alert why its search failed; raise StoreError."""
        ...


class ToolchainBuilder(Protocol):
    """Builds a toolchain again."""

    def __call__(self, toolchain: str, /) -> object:
        """Build the toolchain of this name; raise ToolchainError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingUpdate:
    """The end of a job that the store does not have yet, with the pending judgement of its runs."""

    apply: Callable[[], None]
    judge: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunner:
    """Measures jobs and judges their runs: this machine, or the machines of a cluster."""

    measure: RunMeasurer
    judge: RunJudge


@dataclass(frozen=True, slots=True, kw_only=True)
class JobServices:
    """The collaborators of a JobWorker; `judge` judges the runs of this machine."""

    notify: Notify
    judge: RunJudge
    send_notifications: NotificationSender
    check_interrupt: InterruptCheck = lambda: None
    build_toolchain: ToolchainBuilder = lambda _toolchain: None
    searcher: AlertSearcher | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWorker:
    """Takes jobs from the store's queue and runs them, one at a time.

    `cluster` runs the jobs of schedules with a Ray executor. `pending_updates` wait for the store.
    Until it accepts them, this process renews the lease of their job.
    """

    workspace: Workspace
    services: JobServices
    wake: threading.Event
    scheduler: Scheduler | None = None
    watches: Watches | None = None
    cluster: JobRunner | None = None
    pending_updates: list[PendingUpdate] = field(default_factory=list)
    # A list, since another thread reads it and the worker is frozen.
    _current_jobs: list[str] = field(default_factory=list)

    def current_job(self) -> str:
        """Return the job in progress, empty between two."""
        return self._current_jobs[-1] if self._current_jobs else ""

    def run_forever(self) -> None:
        """Run jobs as they come, until RunInterrupted is raised by a signal."""
        error_text = ""
        is_scheduled = self.scheduler is not None
        while True:
            if is_scheduled and self.scheduler is not None and not self.scheduler.is_alive():
                is_scheduled = False
                self._warn("schedules fire no more, by a defect; see the log and start this anew")
            if self.watches is not None:
                # A thread would let `git ls-remote` and pip disturb a measurement.
                self.watches.look()
            new_error = self.run_queued()
            if new_error and not error_text:
                self._warn(f"the queue cannot be read: {new_error}. It is tried again")
            error_text = new_error
            if not error_text:
                # A store that is locked would make it wait for the same lock again.
                self.services.send_notifications()
            self.services.check_interrupt()
            self.wake.wait(POLL_INTERVAL_S)
            self.wake.clear()

    def run_queued(self) -> str:
        """Run every queued job; return why the queue could not be read, else empty.

        Raises RunInterrupted after a signal; the next start continues the job.
        """
        store, requests = self.workspace.store(), self._requests()
        while True:
            try:
                if error_text := self._apply_pending(store):
                    return error_text
                machine = self.workspace.config.machine
                error_text = requests.flush(store, machine=machine)
                job = store.lease_job(machine=machine)
            except StoreError as error:
                return str(error)
            if job is None:
                return error_text
            self._run_job(job, store)

    def _requests(self) -> JobRequests:
        """Return the requests on their way; the scheduler may have some in memory alone."""
        if self.scheduler is not None:
            return self.scheduler.requests
        return JobRequests(self.workspace.config.state_dir / "jobs")

    def _run_job(self, job: Job, store: Store) -> None:
        if job.is_exhausted:
            self._end_exhausted(job, store)
            return
        self.services.notify(
            LogMessage(text=f"job {job.dedupe_key}: suite {job.suite}, attempt {job.num_attempts}")
        )
        self._current_jobs.append(f"job {job.dedupe_key}")
        try:
            self._attempt(job, store)
        finally:
            self._current_jobs.pop()
            give_back_memory()

    def _attempt(self, job: Job, store: Store) -> None:
        run_id, state, reason, judge = None, JobState.FAILED, "", None
        try:
            with heartbeat(lambda: _renew(job, store), every_s=RENEW_EVERY_S):
                if alert_id := alert_of_suite(job.suite):
                    if not self._search(alert_id, store):
                        self._yield_to_run(job, store)
                        return
                    state = JobState.DONE
                else:
                    run_id = self._execute(job, store)
                    state, judge = JobState.DONE, partial(self._judge_stored, job, run_id, store)
        except RunInterrupted:
            raise
        except TRANSIENT_ERRORS as error:
            reason = str(error)
            if job.num_attempts < MAX_ATTEMPTS:
                self._requeue(job, store, reason=reason)
                return
            self._warn(f"job {job.dedupe_key} failed {counted(job.num_attempts, 'time')}: {error}")
        except (RunnerError, UnknownNameError) as error:
            reason = str(error)
            self._warn(f"job {job.dedupe_key} failed: {error}")
        except Exception as error:
            # A defect in one suite must not end the nights of all others.
            logger.exception("job %s failed", job.dedupe_key)
            reason = f"a defect of Compile HUD: {error!r}"
            self._warn(f"job {job.dedupe_key} failed by a defect of Compile HUD; see the log")

        def end() -> None:
            if state is JobState.FAILED:
                self._fail(job, store, reason)
            else:
                store.finish_job(job.id, run_id=run_id, state=state)

        self._apply(job, PendingUpdate(apply=end, judge=judge))

    def _end_exhausted(self, job: Job, store: Store) -> None:
        # The reason in the queue may be that of an earlier attempt, or of a pause.
        reason = f"its process died in the last of {MAX_ATTEMPTS} attempts"
        self._warn(f"job {job.dedupe_key} failed: {reason}")
        self._apply(job, PendingUpdate(apply=lambda: self._fail(job, store, reason)))

    def _fail(self, job: Job, store: Store, reason: str) -> None:
        """End a job as failed, and the search of its alert with it; raise StoreError."""
        alert_id, searcher = alert_of_suite(job.suite), self.services.searcher
        if alert_id and searcher is not None:
            searcher.give_up(alert_id, reason=reason)
        store.finish_job(job.id, run_id=None, state=JobState.FAILED, reason=reason)

    def _search(self, alert_id: str, store: Store) -> bool:
        machine, searcher = self.workspace.config.machine, self.services.searcher
        if searcher is None:
            raise BisectError("this process does not search the revisions behind alerts")

        def is_run_due() -> bool:
            # The thread of the scheduler only writes files.
            self._requests().flush(store, machine=machine)
            return store.has_due_run(machine=machine)

        return searcher.search(alert_id, is_run_due=is_run_due)

    def _yield_to_run(self, job: Job, store: Store) -> None:
        reason = "a run is due; the search continues after it"
        self.services.notify(LogMessage(text=f"job {job.dedupe_key}: {reason}"))
        now = self.workspace.dependencies.now()
        self._apply(
            job,
            PendingUpdate(
                apply=lambda: store.put_job_back(job.id, due_at=now, reason=reason, counts=False)
            ),
        )

    def _requeue(self, job: Job, store: Store, *, reason: str) -> None:
        wait_s = RETRY_S * RETRY_FACTOR ** (job.num_attempts - 1)
        due_at = self.workspace.dependencies.now() + timedelta(seconds=wait_s)
        self._warn(f"job {job.dedupe_key} goes on at {due_at:%H:%M} UTC: {reason}")
        self._apply(
            job,
            PendingUpdate(apply=lambda: store.put_job_back(job.id, due_at=due_at, reason=reason)),
        )

    def _apply(self, job: Job, update: PendingUpdate) -> None:
        try:
            update.apply()
        except StoreError as error:
            self.pending_updates.append(update)
            self._warn(
                f"what became of job {job.dedupe_key} could not be noted: {error}. It is tried"
                " again"
            )

    def _apply_pending(self, store: Store) -> str:
        """Apply the pending updates; return why the store refuses them, or empty.

        Pending results are stored and judged first. Raises StoreError.
        """
        while self.pending_updates:
            update = self.pending_updates[0]
            if error := self._drain(store):
                return error
            if update.judge is not None:
                update.judge()
            update.apply()
            self.pending_updates.pop(0)
        return ""

    def _drain(self, store: Store) -> str:
        """Store the pending results of the spool; return why the store refuses them, or empty."""
        report = self.workspace.spool().drain(store)
        for broken in report.broken:
            self._warn(broken.text)
        return report.error

    def _execute(self, job: Job, store: Store) -> str:
        trigger = f"job {job.dedupe_key}"
        # A run that ended while the store was locked counts as ended only after this.
        self._drain(store)
        schedule = schedule_of(job, self.workspace.config.schedules)
        policy = self._schedule_for(job, store)
        runner = self._runner_for(policy)
        earlier = self._earlier_runs(trigger, store, is_shared=runner is self.cluster)
        if earlier and all(run.state is RunState.FINISHED for run in earlier):
            # Its process may have died before the run was judged; judging twice changes nothing.
            self._judge_stored(job, earlier[0].id, store)
            return earlier[0].id
        if not earlier and schedule is not None and schedule.builds(job.toolchain):
            self.services.build_toolchain(job.toolchain)
        request = request_for_job(job, suites=self.workspace.config.suites, trigger=trigger)
        check_suite(request.suite, config=self.workspace.config)
        if policy is not None and policy.device is not None and request.device == AUTO_DEVICE:
            request = replace(request, device=policy.device)
        if case_of_suite(job.suite):
            request = replace(request, machine=job.machine)
        if earlier:
            documents = self._resume(request, earlier=earlier, runner=runner)
        else:
            documents = runner.measure(self._on_usual_device(request, store))
        for document in documents:
            if document.run.state is not RunState.FINISHED:
                raise RunInterrupted(f"run {document.run.id} was interrupted", run=document.run.id)
        runner.judge(*documents)
        return documents[0].run.id

    def _schedule_for(self, job: Job, store: Store) -> Schedule | None:
        """Return the schedule that selects the executor and device of a job, None without one.

        It is the job's own schedule; for a manual job it is one that measures the same cases.
        """
        config = self.workspace.config
        if (schedule := schedule_of(job, config.schedules)) is not None:
            return schedule
        if case_of_suite(job.suite) and job.machine == config.machine:
            return None
        return schedule_like(job, config.schedules, store=store)

    def _runner_for(self, policy: Schedule | None) -> JobRunner:
        if policy is None or policy.executor is ExecutorKind.LOCAL:
            return JobRunner(measure=self._measure_here, judge=self.services.judge)
        assert self.cluster is not None
        return self.cluster

    def _earlier_runs(self, trigger: str, store: Store, *, is_shared: bool) -> tuple[Run, ...]:
        """Return the runs of the latest plan of a job: one, or one a machine."""
        triggered = load_triggered(store, trigger)
        if is_shared:
            return load_runs_of_plan(store, triggered[0]) if triggered else ()
        # Other machines that share the store have nights of the same names.
        machine = self.workspace.config.machine
        return tuple(run for run in triggered if run.machine == machine)[:1]

    def _measure_here(self, request: RunRequest) -> list[RunDocument]:
        return [execute_request(request, workspace=self.workspace, notify=self.services.notify)]

    def _judge_stored(self, job: Job, run_id: str, store: Store) -> None:
        runs = load_runs_of_plan(store, load_document(store, run_id).run)
        self._runner_for(self._schedule_for(job, store)).judge(
            *(load_document(store, run.id) for run in runs)
        )

    def _on_usual_device(self, request: RunRequest, store: Store) -> RunRequest:
        """Return `request`, on the GPU if its suite was measured there before.

        A night on the CPU could not be compared with the nights before it. When the GPU does not
        answer, the job is retried and then fails with the reason.
        """
        if request.device != AUTO_DEVICE or not self.workspace.dependencies.has_gpu():
            return request
        measured = load_last_measured(
            store,
            suite=request.suite.name,
            machine=self.workspace.config.machine,
            toolchain=request.toolchain,
        )
        was_on_gpu = any(Case.parse_key(key).device == GPU for key in measured)
        return replace(request, device=GPU) if was_on_gpu else request

    def _resume(
        self, request: RunRequest, *, earlier: Sequence[Run], runner: JobRunner
    ) -> Sequence[RunDocument]:
        devices = [case.device for run in earlier for case in run.plan]
        try:
            return runner.measure(
                replace(
                    request,
                    device=devices[0] if devices else request.device,
                    resume_id=earlier[0].id,
                )
            )
        except ResumeError as error:
            self._warn(f"{error}. A new run is started")
            return runner.measure(request)

    def _warn(self, text: str) -> None:
        self.services.notify(LogMessage(text=text, is_warning=True))


def _renew(job: Job, store: Store) -> None:
    try:
        store.with_short_timeout().renew_job(job.id)
    except StoreError as error:
        logger.info("the lease of job %s is not renewed this time: %s", job.id, error)

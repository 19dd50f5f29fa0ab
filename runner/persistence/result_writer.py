"""Writes the results of a run: first to the spool, then to the store when it is available."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

from compile_hud.db.errors import StoreError, StoreLocked
from compile_hud.db.jobs.live_log import LiveLog
from compile_hud.db.queries.runs import load_running
from compile_hud.db.records.results import CaseResult, Run, RunState
from compile_hud.db.records.summaries import HEARTBEAT_TIMEOUT_S
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.runner.errors import SpoolFull
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.persistence.spool import DrainReport, Spool, utc_now

logger = logging.getLogger(__name__)

# A write to a locked store waits for the lock timeout (30 s): not after every case.
BACKOFF = timedelta(seconds=120)
# The next write directly after a timeout, such as the end of the run, does not wait either.
COOLDOWN = timedelta(seconds=5)


class ResultWriter:
    """The destination of results: the store, without one the spool, without both memory alone."""

    def __init__(
        self,
        store: Store | None,
        *,
        spool: Spool | None,
        notify: Notify,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.store = store
        self._spool = spool
        self._notify = notify
        self._now = now
        self._error = ""
        self._refused_at: datetime | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")
        self._write_task: Future[None] | None = None

    def write(self, run: Run, *, result: CaseResult | None = None) -> None:
        """Write `result`, or the run itself, to the spool and then to the store.

        While the run lasts, a thread writes to the store: that takes a tenth of a second, during
        which the next case is built. Raises SpoolFull when the spool cannot take it. An error of
        the store is only reported, since the spool is drained later.
        """
        if self._spool is None:
            return
        self._spool.write(run, result=result)
        if run.state is not RunState.RUNNING:
            self._finish()
            self._spool.processes.unregister(run.id)
            return
        if result is None:
            self._spool.processes.register(run.id)
            self.drain_before_run(is_resume=False)
            return
        # This waits for the write of the previous case; its exception ends the run here.
        self._wait()
        if self._error:
            # Draining a backlog takes long, so it must not run in parallel to a case.
            self._drain_unless_backing_off()
        else:
            self._write_task = self._thread.submit(self._drain_unless_backing_off)

    def _finish(self) -> None:
        """Drain the spool at the end of a run, and report the results that the store refuses."""
        previous_error = self._error
        self._wait()
        if not self._is_in_cooldown():
            self._drain()
        if self._spool is not None and self._error and self._error == previous_error:
            self._warn(_spool_text(len(self._spool.pending())))

    def _is_in_cooldown(self) -> bool:
        """Return whether the last write timed out less than COOLDOWN ago.

        The run does not wait for the lock a second time right after that.
        """
        return self._refused_at is not None and self._now() < self._refused_at + COOLDOWN

    def write_all(self, run: Run, results: Sequence[CaseResult]) -> None:
        """Write many results to the spool and pass them on at once; raise SpoolFull."""
        if self._spool is None:
            return
        for result in results:
            self._spool.write(run, result=result)
        self.drain()

    def write_state(self, run: Run) -> None:
        """Store the end of `run`, directly if the spool is full; raise nothing.

        A run without a stored end is marked interrupted once its heartbeats are missing.
        """
        try:
            self.write(run)
        except SpoolFull:
            self.drain()
            if self.store is not None:
                with contextlib.suppress(StoreError):
                    self.store.save_run(run)

    def drain(self) -> DrainReport:
        """Drain the spool into the store and return a report."""
        self._wait()
        return self._drain()

    def drain_before_run(self, *, is_resume: bool) -> None:
        """Drain the spool unless the writer is backing off.

        A run that `is_resume` always drains it: cases missing from the store are measured again.
        """
        self._wait()
        if is_resume:
            self._drain()
        else:
            self._drain_unless_backing_off()

    def back_off(self, error: StoreLocked) -> None:
        """Stop writing to the store for a while after `error`, and report that once."""
        self._refused_at = self._now()
        if not self._error:
            self._warn(f"{error}. Measuring all the same: the spool keeps the results")
        self._error = str(error)

    @property
    def error(self) -> str:
        """Return the error of the last write to the store, empty after a success."""
        return self._error

    def is_backing_off(self) -> bool:
        """Return whether the last write failed less than BACKOFF ago."""
        return self._refused_at is not None and self._now() < self._refused_at + BACKOFF

    def _wait(self) -> None:
        """Wait for the running write; raise its exception."""
        passing, self._write_task = self._write_task, None
        if passing is not None:
            passing.result()

    def _drain_unless_backing_off(self) -> None:
        if not self.is_backing_off():
            self._drain()

    def _drain(self) -> DrainReport:
        if self._spool is None or self.store is None:
            return DrainReport()
        report = self._spool.drain(self.store)
        for broken in report.broken:
            self._warn(broken.text)
        self._refused_at = self._now() if report.error else None
        self._report_error(report)
        return report

    def mark_stale_runs_interrupted(self, *, machine: str, device: str) -> None:
        """Mark the runs of dead processes interrupted.

        The caller has locked the device of this machine, so every other run on it is dead. On other
        machines the heartbeats decide.
        """
        if self.store is None or self.is_backing_off():
            return
        try:
            for run, heartbeat_at in load_running(self.store, machine=machine):
                if run.plan and run.plan[0].device == device:
                    self.store.save_run(
                        replace(run, state=RunState.INTERRUPTED, finished_at=heartbeat_at)
                    )
            self.store.interrupt_stale_runs(older_than_s=HEARTBEAT_TIMEOUT_S)
        except StoreLocked as error:
            self.back_off(error)
        except StoreError as error:
            logger.info("runs that died are not looked for: %s", error)

    def record_heartbeat(self, run_id: str, *, log: LiveLog | None = None) -> None:
        """Store a heartbeat of the run with the newest log of its case.

        A busy store gets the next one.
        """
        if self.store is not None:
            with contextlib.suppress(StoreError):
                # It runs in parallel to a case, and the end of a run waits for it.
                self.store.with_short_timeout().heartbeat(run_id, log=log)

    def _report_error(self, report: DrainReport) -> None:
        # It is reported once while it lasts, rather than once a case.
        if report.error and report.error != self._error:
            self._warn(f"{report.error}. {_spool_text(report.num_left)}")
        elif self._error and not report.error:
            self._notify(LogMessage(text="the store takes results again; nothing was lost"))
        self._error = report.error

    def _warn(self, text: str) -> None:
        self._notify(LogMessage(text=text, is_warning=True))


def _spool_text(num_files: int) -> str:
    return f"The spool keeps {counted(num_files, 'file')} for the next run or `hud ingest`"

"""Keeps what a run produces: first in the spool, then, whenever it is willing, in the store."""

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

# Asking a locked store costs its whole patience (30 s): not after every case.
BACKOFF = timedelta(seconds=120)
# And not after what follows a case at once.
COOLDOWN = timedelta(seconds=5)


class ResultWriter:
    """Where results go. Without a store they stay in the spool, without a spool in memory alone."""

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
        """Write `result`, or news of the run itself, to the spool and pass it on to the store.

        While the run lasts, a thread passes it on: the store takes a tenth of a second, in which
        the next case is being built. Raises SpoolFull when it cannot even be spooled. Trouble with
        the store is only said: what is in the spool goes in later.
        """
        if self._spool is None:
            return
        self._spool.write(run, result=result)
        if run.state is not RunState.RUNNING:
            self._finish()
            return
        if result is None:
            self.drain_before_run(is_resume=False)
            return
        # That of the case before is over, or is waited for; what it raised ends the run here.
        self._wait()
        if self._error:
            # A store that was locked is polled, and has a backlog: not beside a case.
            self._drain_unless_backing_off()
        else:
            self._write_task = self._thread.submit(self._drain_unless_backing_off)

    def _finish(self) -> None:
        """Pass on what is left at the end of a run, and say what the store does not take."""
        previous_error = self._error
        self._wait()
        if not self._is_in_cooldown():
            self._drain()
        if self._spool is not None and self._error and self._error == previous_error:
            self._warn(_spool_text(len(self._spool.pending())))

    def _is_in_cooldown(self) -> bool:
        """Return whether the store was waited for in vain after the last case, or for a run beside.

        It is not waited for a second time right after that.
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
        """Tell the store how `run` ended, past the spool if need be; raises nothing for trouble.

        A run whose end cannot be told is marked interrupted once its heartbeats are missed.
        """
        try:
            self.write(run)
        except SpoolFull:
            self.drain()
            if self.store is not None:
                with contextlib.suppress(StoreError):
                    self.store.save_run(run)

    def drain(self) -> DrainReport:
        """Pass on what waits in the spool and return how it went."""
        self._wait()
        return self._drain()

    def drain_before_run(self, *, is_resume: bool) -> None:
        """Pass on what waits in the spool; a store that took nothing a moment ago may rest.

        Not where a run `is_resume`: what the store does not have of it is measured again.
        """
        self._wait()
        if is_resume:
            self._drain()
        else:
            self._drain_unless_backing_off()

    def back_off(self, error: StoreLocked) -> None:
        """Ask the store no more for a while: `error` came of waiting for it. Say so, once."""
        self._refused_at = self._now()
        if not self._error:
            self._warn(f"{error}. Measuring all the same: the spool keeps the results")
        self._error = str(error)

    @property
    def error(self) -> str:
        """Return why the store took nothing when it was asked last; empty where it did."""
        return self._error

    def is_backing_off(self) -> bool:
        """Return whether the store took nothing a moment ago, and is not to be asked now."""
        return self._refused_at is not None and self._now() < self._refused_at + BACKOFF

    def _wait(self) -> None:
        """Wait for what is being passed on; raise what that raised."""
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
        """Mark runs interrupted whose process died without a word.

        The caller holds the device of this machine, so no other run on it can be alive; runs of
        other machines are known by their heartbeats.
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
        """Tell the store that the run is alive, and what its case has printed last.

        A store that is busy now hears the next one.
        """
        if self.store is not None:
            with contextlib.suppress(StoreError):
                # Beside a case, and the end of a run waits for it.
                self.store.with_short_timeout().heartbeat(run_id, log=log)

    def _report_error(self, report: DrainReport) -> None:
        # Once while it lasts, not once a case.
        if report.error and report.error != self._error:
            self._warn(f"{report.error}. {_spool_text(report.num_left)}")
        elif self._error and not report.error:
            self._notify(LogMessage(text="the store takes results again; nothing was lost"))
        self._error = report.error

    def _warn(self, text: str) -> None:
        self._notify(LogMessage(text=text, is_warning=True))


def _spool_text(num_files: int) -> str:
    return f"The spool keeps {counted(num_files, 'file')} for the next run or `hud ingest`"

"""The runner of the simulation: `hud` unchanged, with a file as its clock.

The file `idle` has the moment at which nothing is left to do.
"""

from __future__ import annotations

import os
import sys
import threading
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

import apscheduler.executors.base
import apscheduler.schedulers.base

from benchmarks.nights.faults import FOLDER_VARIABLE, PAUSE_S
from compile_hud.db.store import Store
from compile_hud.runner import workspace
from compile_hud.runner.cli.main import main
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.scheduling import job_worker, scheduler
from compile_hud.runner.scheduling.job_worker import JobWorker
from compile_hud.runner.scheduling.scheduler import Scheduler
from compile_hud.runner.workspace import Dependencies

# Real seconds: a locked store is retried for so long, instead of half a minute.
LOCK_TIMEOUT_S = 1.0
# A schedule that fires writes its request in a thread, so one more turn is needed.
NUM_TURNS = 2


class Clock:
    """The time in a file, in UTC."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "clock"

    def text(self) -> str:
        """Return the moment in the form of the file."""
        return self._path.read_text(encoding="ascii")

    def __call__(self) -> datetime:
        """Return the present moment."""
        return datetime.fromisoformat(self.text())


def fake_time(clock: Clock) -> None:
    """Let APScheduler use `clock`."""

    class FakeDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return clock().astimezone(tz)

    apscheduler.schedulers.base.datetime = FakeDatetime
    apscheduler.executors.base.datetime = FakeDatetime


class Looks:
    """Wakes the scheduler when the clock moves, and knows the moment that it has looked at."""

    def __init__(self, clock: Clock) -> None:
        self.last = ""
        self._clock = clock
        self._schedulers: list[Scheduler] = []

    def watch(self) -> None:
        """Watch the scheduler that will be started."""
        looks = self

        class Watched(Scheduler):
            def start(self, *args: Any, **options: Any) -> None:
                super().start(*args, **options)
                looks._schedulers.append(self)

            def _process_jobs(self) -> float | None:
                text = looks._clock.text()
                wait_s = super()._process_jobs()
                looks.last = text
                return wait_s

        scheduler.Scheduler = Watched  # type: ignore[misc]
        threading.Thread(target=self._wake, daemon=True).start()

    def _wake(self) -> None:
        pause = threading.Event()
        while not pause.wait(PAUSE_S):
            if self.last != self._clock.text():
                for scheduler in self._schedulers:
                    scheduler.wakeup()


def say_when_idle(folder: Path, *, clock: Clock, looks: Looks) -> None:
    """Write the moment to `idle` after a few turns of the loop at it."""
    turn = JobWorker.run_queued
    quiet: list[str] = []

    def run_queued(loop: JobWorker) -> str:
        text = clock.text()
        error_text = turn(loop)
        if quiet[-1:] != [text] or looks.last != text:
            quiet.clear()
        quiet.append(text)
        if looks.last == text and len(quiet) >= NUM_TURNS:
            path = folder / "idle.new"
            path.write_text(text, encoding="ascii")
            path.replace(folder / "idle")
        return error_text

    JobWorker.run_queued = run_queued  # type: ignore[method-assign]
    job_worker.POLL_INTERVAL_S = 2 * PAUSE_S


def live(folder: Path, arguments: list[str]) -> None:
    """Run `hud` with these arguments until a signal ends it."""
    clock = Clock(folder)
    looks = Looks(clock)
    fake_time(clock)
    looks.watch()
    say_when_idle(folder, clock=clock, looks=looks)
    workspace.Store = partial(Store, lock_timeout_s=LOCK_TIMEOUT_S)  # type: ignore[assignment, misc]
    dependencies = Dependencies(
        make_executor=partial(LocalExecutor, now=clock),
        now=clock,
        env=os.environ,
        # The runner expects a GPU, which the simulation can then take away; its worker has none.
        has_gpu=lambda: True,
    )
    main(arguments, obj=dependencies, prog_name="hud")


if __name__ == "__main__":
    live(Path(os.environ[FOLDER_VARIABLE]), sys.argv[1:])

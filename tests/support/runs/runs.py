"""Runs of a fake executor, with a store and every other dependency of a run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_last_measured
from compile_hud.db.records.results import RunDocument
from compile_hud.db.records.summaries import CaseSeconds
from compile_hud.db.store import Store
from compile_hud.runner.events import Event, LogMessage
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.run_plan import ResolvedRun, RunContext, RunServices, run_plans
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.persistence.spool import Spool
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.planning.time_budget import Worth
from compile_hud.runner.protocol.messages import MeasureSettings
from tests.support.fakes import FakeClock, FakeExecutor, make_catalog

CATALOG = make_catalog("bert", "fails", "takes_3s", "times_out")
REQUEST = ResolvedRun(
    suite="mine",
    selection=Selection(models=("bert", "takes_3s"), modes=("eager", "default")),
    toolchain="current",
    device="cpu",
    settings=MeasureSettings(),
    machine="box",
)


class RunSandbox:
    """A state directory with a store, and every dependency of a run in it."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.lock_dir = folder / "locks"
        self.store: Store | None = Store(f"duckdb:///{folder / 'store.duckdb'}", now=self.clock)
        self.spool: Spool | None = Spool(folder / "spool", now=self.clock)
        self.events: list[Event] = []
        # Foreign processes on the device, check by check.
        self.users: list[tuple[str, ...]] = []
        # Keys of cases with an open regression.
        self.suspects: set[str] = set()
        # Compile times of the runs before, by the keys of cases.
        self.compile_seconds: dict[str, float] = {}
        # Durations of their last results, by the keys of cases.
        self.durations: dict[str, CaseSeconds] = {}

    def run(self, request: ResolvedRun = REQUEST, *, executor: FakeExecutor) -> RunDocument:
        """Execute one run."""
        (document,) = self.run_together([request], executors=(executor,))
        return document

    def run_together(
        self, requests: Sequence[ResolvedRun], *, executors: tuple[FakeExecutor, ...]
    ) -> list[RunDocument]:
        """Execute several runs, each case under all in turn."""
        for executor in executors:
            executor.clock = self.clock
        writer = ResultWriter(
            self.store, spool=self.spool, notify=self.events.append, now=self.clock
        )
        context = RunContext(
            executors=executors,
            writer=writer,
            catalog=CATALOG,
            lock_dir=self.lock_dir,
            notify=self.events.append,
            services=RunServices(
                load_document=self.load,
                worth=lambda request: Worth(
                    last_measured=self.last_measured(request), suspects=self.suspects
                ),
                compile_seconds=lambda _request: self.compile_seconds,
                durations=lambda _request: self.durations,
                device_users=lambda _device: self.users.pop(0) if self.users else (),
                sleep=self.clock.advance,
                now=self.clock,
            ),
        )
        return run_plans(requests, context=context)

    def last_measured(self, request: ResolvedRun) -> Mapping[str, datetime]:
        """Return the time at which runs of the suite last measured each case."""
        assert self.store is not None
        return load_last_measured(
            self.store,
            suite=request.suite,
            machine=request.machine,
            toolchain=request.toolchain,
        )

    def load(self, run_id: str) -> RunDocument:
        """Return the run from the store."""
        assert self.store is not None
        return load_document(self.store, run_id)

    def messages(self) -> list[str]:
        """Return the log messages so far."""
        return [event.text for event in self.events if isinstance(event, LogMessage)]


def on_case(number: int, do: Callable[[], None]) -> Callable[[CaseOrder], None]:
    """Return a callback that calls `do` in the middle of the case with this 1-based number."""
    seen: list[str] = []

    def on_execute(order: CaseOrder) -> None:
        seen.append(order.case.key)
        if len(seen) == number:
            do()

    return on_execute


def wait_until(is_true: Callable[[], bool], *, limit_s: float = 60.0) -> None:
    """Block until `is_true`, at most `limit_s` seconds."""
    pause = threading.Event()
    for _ in range(int(100 * limit_s)):
        if is_true():
            return
        pause.wait(0.01)
    raise AssertionError("it never was")


def interrupt() -> None:
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)

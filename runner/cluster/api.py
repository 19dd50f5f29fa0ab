"""The interface between a run on many machines and the cluster: tasks and their replies."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from compile_hud.db.jobs.live_log import LiveLog
from compile_hud.db.records.results import CaseResult
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import (
    MeasureCase,
    PairSide,
    launch_interleaved,
)
from compile_hud.runner.execution.retries import MAX_ATTEMPTS, measure_with_retries

# Longest wait for a task, in seconds: then the driver reads the node list, or stops.
POLL_INTERVAL_S = 2.0
# Limit of a task beyond the limit of its case. It covers the wait for a lock, the start of a worker
# host, the device's facts and peaks, and compiled headers. Each of these has its own limit.
SETUP_LIMIT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Room for one measuring case: a node of the cluster that offers the device."""

    node_id: str
    machine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings of a node in one run.

    `pythons` has the interpreter of each toolchain; an empty one is the task's own. `release` names
    the driver's record versions; a node with other versions measures nothing.
    """

    device: str
    num_threads: int
    release: str
    pythons: tuple[str, ...] = ("",)
    wait_idle_s: float = 0.0

    def limit_s(self, case_timeout_s: float) -> float:
        """Return the time limit of a task in seconds; without a case its timeout is 0."""
        launches_s = MAX_ATTEMPTS * len(self.pythons) * case_timeout_s
        return SETUP_LIMIT_S + self.wait_idle_s + launches_s


def measure_once(sides: Sequence[PairSide]) -> Sequence[CaseResult]:
    """Return the results of the launches that the settings call for."""
    return measure_with_retries(sides, measure_case=launch_interleaved, is_stopped=lambda: False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A case to measure on a node, with an order for each interpreter of the setup.

    `measure` travels to the node, so it must be picklable.
    """

    orders: tuple[CaseOrder, ...]
    measure: MeasureCase = measure_once


class Status(StrEnum):
    """The result of a task."""

    # The device has an environment, or the case a result.
    DONE = "done"
    # Another run measures on the machine.
    BUSY = "busy"
    # The node cannot measure: no torch, no device, another release.
    UNUSABLE = "unusable"
    # The node, or its process there, has disappeared.
    GONE = "gone"


class CasePolicy(Protocol):
    """The rules by which the cases of a plan are measured."""

    def has_time(self) -> bool:
        """Return whether one more case may begin."""
        ...

    def begin(self) -> MeasureCase:
        """Return the measurement of the next case, which travels to a node."""
        ...

    def end(self, took: timedelta) -> None:
        """Note that a case has its results."""
        ...


class LaunchesBySettings:
    """The rules of a run: each case gets the launches that its settings call for."""

    def has_time(self) -> bool:
        """Return True; the time budget of a suite defers cases instead."""
        return True

    def begin(self) -> MeasureCase:
        """Return the measurement of any case."""
        return measure_once

    def end(self, took: timedelta) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The end of a task.

    `facts` are the environment facts under each interpreter and `users` the other processes on the
    device; both answer the first task, which has no case. `traces` are the files of the profiles,
    one for each of the `results`, empty without one.
    """

    status: Status
    reason: str = ""
    facts: tuple[Mapping[str, Any], ...] = ()
    users: tuple[str, ...] = ()
    results: tuple[CaseResult, ...] = ()
    traces: tuple[bytes, ...] = ()


# The newest log of each order of a task, None where there is none yet.
Logs = tuple[LiveLog | None, ...]


class Cluster(Protocol):
    """The connected machines, each with one task at a time."""

    def open(self) -> None:
        """Connect; raise ExecutorError."""
        ...

    def slots(self) -> tuple[Slot, ...]:
        """Return the slots of the connected nodes."""
        ...

    def submit(self, task: Task | None, *, slot: Slot, setup: Setup) -> None:
        """Begin a case on `slot`, or without one the query of the device's facts."""
        ...

    def wait(self, *, limit_s: float) -> Sequence[tuple[Slot, Logs | Reply]]:
        """Return the next outputs of tasks, after `limit_s` seconds at most.

        A task gives logs of its case, and a reply at its end.
        """
        ...

    def cancel(self, slot: Slot) -> None:
        """Kill the task on `slot` with all its processes; it gives no reply."""
        ...

    def close(self) -> None:
        """Kill the running tasks and disconnect."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of a run and their settings; with `machine`, only that one.

    The spool looks for traces in `trace_folder`.
    """

    cluster: Cluster
    setup: Setup
    trace_folder: Path
    machine: str | None = None

    def slots(self) -> tuple[Slot, ...]:
        """Return the slots that are connected now."""
        slots = self.cluster.slots()
        return tuple(slot for slot in slots if self.machine in (None, slot.machine))


@contextmanager
def connection(cluster: Cluster) -> Iterator[None]:
    """Connect to `cluster`, and disconnect at the end of the block; raise ExecutorError.

    Ray installs its own SIGTERM handler when it connects and removes it when it disconnects, so the
    handler is restored. Ray prints node failures on standard output, which carries JSON, so they go
    to standard error.
    """
    handler = signal.getsignal(signal.SIGTERM)

    def restore() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)

    # The redirection lasts to the end, since Ray also prints when it disconnects.
    with redirect_stdout(sys.stderr), ExitStack() as stack:
        stack.callback(restore)
        stack.enter_context(closing(cluster))
        cluster.open()
        restore()
        yield

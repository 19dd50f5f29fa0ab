"""The interface between a run on many machines and the cluster: tasks and their replies."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from compile_hud.db.jobs.live_log import LiveLog
from compile_hud.db.records.results import CaseResult
from compile_hud.runner.execution.executor import CaseOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Room for one measuring case: a node of the cluster that offers the device."""

    node_id: str
    machine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings of a node in one run.

    `python` is the toolchain's interpreter; if empty, the task's own. `release` names the driver's
    record versions; a node with other versions measures nothing.
    """

    device: str
    num_threads: int
    release: str
    python: str = ""
    wait_idle_s: float = 0.0


class Status(StrEnum):
    """The result of a task."""

    # The device has an environment, or the case a result.
    DONE = "done"
    # Another run measures on the machine.
    BUSY = "busy"
    # The node cannot measure: no torch, no device, another release.
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply of a node at the end of a task.

    `facts` are the environment facts and `users` the other processes on the device; both answer the
    first task, which has no case. `trace` is the file of the result's profile.
    """

    status: Status
    reason: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    users: tuple[str, ...] = ()
    result: CaseResult | None = None
    trace: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A task that has ended; without a reply its node, or its process there, has disappeared."""

    task: str
    reply: Reply | None = None
    reason: str = ""


class Cluster(Protocol):
    """The connected machines."""

    def open(self) -> None:
        """Connect; raise ExecutorError."""
        ...

    def slots(self) -> tuple[Slot, ...]:
        """Return the slots of the connected nodes."""
        ...

    def submit(self, order: CaseOrder | None, *, slot: Slot, setup: Setup) -> str:
        """Begin a case, or without one the device's facts, on `slot`; return the task's name."""
        ...

    def wait(self, *, limit_s: float) -> Sequence[Ended]:
        """Return the tasks that ended, after `limit_s` seconds at most; each once."""
        ...

    def log_of(self, run_id: str) -> LiveLog | None:
        """Return the newest log of the case that a run measures; may be called from any thread."""
        ...

    def cancel(self, task: str) -> None:
        """Kill a task with all its processes; it gives no reply."""
        ...

    def close(self) -> None:
        """Kill the running tasks and disconnect."""
        ...


@contextmanager
def connection(cluster: Cluster) -> Iterator[None]:
    """Connect to `cluster`, and disconnect at the end of the block; raise ExecutorError.

    Ray installs its own SIGTERM handler when it connects and removes it when it disconnects, so the
    handler is restored. Ray prints node failures on standard output, which carries JSON, so they go
    to standard error.
    """
    # The redirection lasts to the end, since Ray also prints when it disconnects.
    with redirect_stdout(sys.stderr), _preserved_sigterm() as take_back, closing(cluster):
        cluster.open()
        take_back()
        yield


@contextmanager
def _preserved_sigterm() -> Iterator[Callable[[], None]]:
    """Yield a function that restores the current SIGTERM handler; the end of the block does too."""
    handler = signal.getsignal(signal.SIGTERM)

    def take_back() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)

    try:
        yield take_back
    finally:
        take_back()

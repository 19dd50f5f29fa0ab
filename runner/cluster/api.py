"""What a run on many machines asks of the cluster, and what the machines answer."""

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
    """How a node measures in one run.

    `python` is the toolchain's interpreter; empty for the one that the task itself runs under.
    `release` is what the driver speaks: a node that speaks something else measures nothing.
    """

    device: str
    num_threads: int
    release: str
    python: str = ""
    wait_idle_s: float = 0.0


class Status(StrEnum):
    """What became of a task."""

    # The device has an environment, or the case a result.
    DONE = "done"
    # Another run measures on the machine.
    BUSY = "busy"
    # The node cannot measure: no torch, no device, another release.
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a node says at the end of a task.

    `facts` are the environment facts and `users` those who computed on the device as well; both are
    the answer to the first task, which has no case. `trace` is the file of the result's profile.
    """

    status: Status
    reason: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    users: tuple[str, ...] = ()
    result: CaseResult | None = None
    trace: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A task that is over; without a reply its node, or its process there, is gone."""

    task: str
    reply: Reply | None = None
    reason: str = ""


class Cluster(Protocol):
    """The machines, as many as there are now."""

    def open(self) -> None:
        """Connect; raise ExecutorError."""
        ...

    def slots(self) -> tuple[Slot, ...]:
        """Return what is there now."""
        ...

    def submit(self, order: CaseOrder | None, *, slot: Slot, setup: Setup) -> str:
        """Begin a case, or without one the device's facts, on `slot`; return the task's name."""
        ...

    def wait(self, *, limit_s: float) -> Sequence[Ended]:
        """Return the tasks that ended, after `limit_s` seconds at most; each once."""
        ...

    def log_of(self, run_id: str) -> LiveLog | None:
        """Return what the case of a run had printed when its machine last told; from any thread."""
        ...

    def cancel(self, task: str) -> None:
        """Kill a task with all its processes; nothing more is heard of it."""
        ...

    def close(self) -> None:
        """Kill what runs and disconnect."""
        ...


@contextmanager
def connection(cluster: Cluster) -> Iterator[None]:
    """Connect to `cluster`, and disconnect at the end of the block; raise ExecutorError.

    When it connects Ray takes SIGTERM for itself, and when it disconnects it leaves nobody to it.
    Whenever a node dies it prints on standard output, where nothing but a JSON document may be.
    """
    # To the very end: some of it is printed when Ray disconnects.
    with redirect_stdout(sys.stderr), _preserved_sigterm() as take_back, closing(cluster):
        cluster.open()
        take_back()
        yield


@contextmanager
def _preserved_sigterm() -> Iterator[Callable[[], None]]:
    """Yield what gives SIGTERM back to whoever has it now, as the end of the block does."""
    handler = signal.getsignal(signal.SIGTERM)

    def take_back() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)

    try:
        yield take_back
    finally:
        take_back()

"""The interface between a run and the executor of its cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Protocol

from compile_hud.db.records.results import Case, CaseResult
from compile_hud.runner.protocol.graphs import CapturedCase
from compile_hud.runner.protocol.messages import LaunchReport, MeasureSettings, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOrder:
    """A case to execute, with its workload and its measurement settings.

    With `skips_same_code` a case is not sampled if a variant before it in the plan, by `position`,
    is the same program.
    """

    run_id: str
    case: Case
    workload: Workload
    settings: MeasureSettings
    skips_same_code: bool = False
    position: int = 0


class CaseSession(Protocol):
    """One case while it is executed, launch after launch.

    Two sessions may be open at a time, their launches interleaved; never two launches at once.
    """

    @property
    def needs_launch(self) -> bool:
        """Return whether the launches so far call for another one."""
        ...

    @property
    def has_time(self) -> bool:
        """Return whether one more launch fits into the time of the case."""
        ...

    def launch(self) -> LaunchReport:
        """Run one fresh process of the case and return its report."""
        ...

    def finish(self) -> CaseResult:
        """Return the case result of all launches so far, at least one; more may follow."""
        ...

    def close(self) -> None:
        """Remove the files of the case; may be called twice."""
        ...


class SessionMaker(Protocol):
    """A source of sessions, in which launches of a case happen."""

    def begin(self, order: CaseOrder) -> CaseSession:
        """Return a session of the case, nothing launched yet; raise ExecutorError."""
        ...


class LaunchState(Enum):
    """The state of a launch in a lane."""

    COMPILING = auto()
    # It has compiled and waits for its turn.
    READY = auto()
    ENDED = auto()


class LaneSession(Protocol):
    """One case in a lane, launch after launch."""

    @property
    def needs_launch(self) -> bool:
        """Return whether the launches so far call for another one."""
        ...

    def start(self, cores: frozenset[int]) -> None:
        """Begin the next launch on `cores`; raise ExecutorError."""
        ...

    def poll(self) -> LaunchState:
        """Return the state of the launch, and end one whose time is up; raise ExecutorError."""
        ...

    def sample(self, *, num_neighbours: int) -> None:
        """Give the launch its turn and wait for its end; raise ExecutorError.

        `num_neighbours` other launches wait, each with its model on the device.
        """
        ...

    def finish(self) -> CaseResult:
        """Return the case result of all launches so far."""
        ...

    def close(self) -> None:
        """Remove the files of the case; may be called twice."""
        ...


class CompileLane(Protocol):
    """A worker host for one launch at a time."""

    def begin(self, order: CaseOrder) -> LaneSession:
        """Return a session of the case, nothing launched yet; raise ExecutorError."""
        ...

    def close(self) -> None:
        """End the host."""
        ...


class Executor(SessionMaker, Protocol):
    """Executes cases one at a time, each in fresh processes."""

    def start(self) -> None:
        """Start the work that `open` waits for; raise ExecutorError.

        Starting a worker host takes seconds in which the caller can do something else.
        """
        ...

    def open(self) -> Mapping[str, Any]:
        """Start the worker host and return the environment facts as JSON values.

        Raises ExecutorError when the toolchain does not start.
        """
        ...

    def execute(self, order: CaseOrder) -> CaseResult:
        """Return the result of the case: one session from start to end.

        Raises ExecutorError only when the host is gone for good.
        """
        ...

    def open_lanes(self, number: int, *, cores_each: int) -> Sequence[CompileLane]:
        """Return `number` lanes for launches that compile at the same time, on `cores_each` cores.

        They are empty where launches cannot wait for each other. `cancel` and `close` include them.
        """
        ...

    def graphs(self, order: CaseOrder) -> CapturedCase:
        """Return the graphs of the case, for a script that needs torch alone.

        Raises ExecutorError with the reason if there is none.
        """
        ...

    def cancel(self) -> None:
        """Kill the running case's process group; safe in a signal handler and from any thread.

        Afterwards `execute` returns at once, the running call and every later one: a signal may
        arrive just before a case starts. Results returned after `cancel` are thrown away.
        """
        ...

    def close(self) -> None:
        """End the worker host and everything it started; may be called twice."""
        ...


class MakeExecutor(Protocol):
    """A factory of executors."""

    def __call__(
        self, *, python: Path, state_dir: Path, device: str, num_threads: int = 1
    ) -> Executor:
        """Return an executor for cases on `device` under the interpreter `python`."""
        ...

"""A lane with a worker host of its own, whose launches wait for their turn at a named pipe."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Protocol

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.case_session import LocalSession, TurnClock
from compile_hud.runner.execution.executor import CaseOrder, LaunchState
from compile_hud.runner.execution.worker_process import WorkerHost
from compile_hud.runner.protocol.messages import LaunchReport, Turn

# A host kills a launch at once; only a machine without memory takes longer.
_END_S = 60.0


class KnownPrograms(Protocol):
    """The programs that were measured in this run."""

    def others(self, order: CaseOrder) -> Mapping[str, str]:
        """Return the measured variant of each known program, without the variant of `order`."""
        ...

    def add(self, order: CaseOrder, name: str) -> str:
        """Remember the variant of `order` as the program `name`; return the first such variant."""
        ...


# Makes the session of a case whose launches run on a host and wait as a TurnClock says.
MakeSession = Callable[[CaseOrder, WorkerHost, TurnClock], LocalSession]


class HostLane:
    """A Lane on this machine, with its pipe in the folder `home`."""

    def __init__(
        self,
        host: WorkerHost,
        *,
        home: Path,
        make_session: MakeSession,
        programs: KnownPrograms,
    ) -> None:
        self.host = host
        # Runs on two devices of a machine may share the home of their toolchain.
        self.pipe = home / f"turn-{os.getpid()}"
        self._make_session = make_session
        self.programs = programs
        # A request to the host blocks its thread until the launch is over.
        self.threads = ThreadPoolExecutor(max_workers=1)

    def begin(self, order: CaseOrder) -> HostLaneSession:
        """Return a session of the case, nothing launched yet; raise ExecutorError."""
        turn_clock = TurnClock(pipe=self.pipe)
        session = self._make_session(order, self.host, turn_clock)
        return HostLaneSession(order, lane=self, session=session, turn_clock=turn_clock)

    def cancel(self) -> None:
        """Kill the launch that runs here, and let no other one begin."""
        self.host.cancel()

    def close(self) -> None:
        """End the host and its children."""
        self.host.close()
        self.threads.shutdown()
        self.pipe.unlink(missing_ok=True)


class HostLaneSession:
    """A LaneSession whose launches run in threads that wait for the host."""

    def __init__(
        self, order: CaseOrder, *, lane: HostLane, session: LocalSession, turn_clock: TurnClock
    ) -> None:
        self._order = order
        self._lane = lane
        self._session = session
        self._turn_clock = turn_clock
        self._launch: Future[LaunchReport] | None = None
        self._num_begun = 0
        self._started_s = 0.0
        self._end_of_pipe: int | None = None

    @property
    def needs_launch(self) -> bool:
        """Return whether the launches so far call for another one."""
        return self._session.needs_launch

    def start(self, cores: frozenset[int]) -> None:
        """Begin the next launch on `cores`; raise ExecutorError."""
        self._lane.host.pin(cores)
        try:
            self._lane.pipe.parent.mkdir(parents=True, exist_ok=True)
            self._lane.pipe.unlink(missing_ok=True)
            os.mkfifo(self._lane.pipe)
        except OSError as error:
            raise ExecutorError(
                f"cannot create the pipe {self._lane.pipe}: {error.strerror}; set [run]"
                " compile_ahead = 0 where the file system has no named pipes",
                path=self._lane.pipe,
                reason=error.strerror,
            ) from error
        self._num_begun += 1
        self._turn_clock.begin_launch()
        self._started_s = time.monotonic()
        self._launch = self._lane.threads.submit(self._session.launch)

    def poll(self) -> LaunchState:
        """Return the state of the launch, and end one whose time is up; raise ExecutorError."""
        assert self._launch is not None
        if not self._launch.done():
            self._end_of_pipe = open_end(self._lane.pipe)
            if self._end_of_pipe is not None:
                self._turn_clock.begin()
                return LaunchState.READY
            if self._elapsed_s <= self._session.left_s:
                return LaunchState.COMPILING
            self._end_launch()
        self._launch.result()
        return LaunchState.ENDED

    def sample(self, *, num_neighbours: int) -> None:
        """Give the launch its turn and wait for its end; raise ExecutorError."""
        assert self._end_of_pipe is not None
        program = self._session.program_of_launch(self._num_begun - 1)
        known = self._lane.programs.others(self._order) if self._order.skips_same_code else {}
        turn = Turn(same_code_as=known.get(program, ""), num_neighbours=num_neighbours)
        self._turn_clock.end()
        # The launch samples alone, so it need not share the cores of its compilation.
        self._lane.host.widen()
        self._release(turn)
        # The time limit counts the launch without its wait.
        report = self._report(
            within_s=self._session.left_s - self._elapsed_s + self._turn_clock.seconds
        )
        if program and report.outcome is Outcome.OK:
            self._lane.programs.add(self._order, program)

    def finish(self) -> CaseResult:
        """Return the case result of all launches so far."""
        return self._session.finish()

    def close(self) -> None:
        """Kill a launch that still runs and remove the files of the case; may be called twice."""
        if self._launch is not None and not self._launch.done():
            self._end_launch()
        if self._end_of_pipe is not None:
            os.close(self._end_of_pipe)
            self._end_of_pipe = None
        self._session.close()

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    def _report(self, *, within_s: float) -> LaunchReport:
        """Return the report of the launch; end it after `within_s`. Raises ExecutorError."""
        assert self._launch is not None
        wait([self._launch], timeout=max(0.0, within_s))
        if not self._launch.done():
            self._end_launch()
        return self._launch.result()

    def _end_launch(self) -> None:
        """End a launch as one whose time is up."""
        assert self._launch is not None
        self._lane.host.time_out()
        if not wait([self._launch], timeout=_END_S).done:
            # A host that does not answer is replaced by the next launch.
            self._lane.host.close()

    def _release(self, turn: Turn) -> None:
        """Write `turn` to the waiting launch; one that was killed meanwhile has no reader."""
        descriptor, self._end_of_pipe = self._end_of_pipe, None
        assert descriptor is not None
        try:
            os.write(descriptor, json.dumps(turn.to_json()).encode())
        except BrokenPipeError:
            # The report of the launch tells how it ended.
            return
        finally:
            os.close(descriptor)


def open_end(pipe: Path) -> int | None:
    """Return the writing end of `pipe` if a process waits at the other, else None."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return None
        raise

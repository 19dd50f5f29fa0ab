"""Waves of cases: compiled together, each in a process of its own, then sampled one by one.

A compiled case spends nine tenths of its time on one core, while the device waits. So the launches
of a wave build and compile together. Each then waits at a pipe until it is its turn. While one
warms up, samples and is profiled, the others are blocked or stopped, and use neither a core nor the
device. A late launch is stopped meanwhile and continues with the next wave; it then has no compile
time. Compile times are those of `compile_ahead` processes together, each with one thread (in the
details of a result), and compare among equals.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import psutil

from benchmarks.gpu.chunks import Work
from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.execution.ahead.host_lane import open_end
from compile_hud.runner.execution.case_session import LocalSession
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.worker_process import WorkerHost, descendants
from compile_hud.runner.protocol.messages import LaunchReport

_POLL_S = 0.02
# A launch that is cancelled has a host that kills it at once.
_END_S = 10.0
# When this share of a wave is ready, the others may be late.
_MOST = 0.6
# A launch that was stopped on the way lacks these metrics.
_STOPPED_METRICS = frozenset(
    (
        *("compile_cold_s", "compile_dynamo_s", "compile_aot_s", "compile_inductor_s"),
        *("compile_backend_s", "break_even_iterations"),
    )
)


class Session(Protocol):
    """The interface of a case that a wave measures."""

    def launch(self) -> LaunchReport:
        """Run one process of the case to its end."""
        ...

    def forget_last(self) -> None:
        """Exclude the last launch from the result."""
        ...

    def finish(self) -> CaseResult:
        """Return the result of all launches so far."""
        ...

    def close(self) -> None:
        """Remove the files of the case."""
        ...


class Lane(Protocol):
    """A lane for one launch at a time; its launches wait at the named pipe `pipe`."""

    pipe: Path

    def begin(self, work: Work, *, timeout_s: float) -> Session:
        """Return a session of `work` whose launches run here."""
        ...

    def cancel(self) -> None:
        """Kill the launch that runs here; the next one starts in a fresh lane."""
        ...

    def freeze(self) -> None:
        """Stop the launch that runs here until `thaw`."""
        ...

    def thaw(self) -> None:
        """Let the launch continue."""
        ...


class HostSession(LocalSession):
    """A session whose last launch may be excluded, as it was killed for lack of time."""

    def forget_last(self) -> None:
        """Exclude the last launch from the result."""
        self._reports.pop()


class HostLane:
    """A Lane with a worker host of its own."""

    def __init__(
        self,
        *,
        number: int,
        python: Path,
        state: Path,
        run_id: str,
        amend: Callable[[CaseResult, Path], CaseResult],
        now: Callable[..., object],
    ) -> None:
        home = state / f"lane-{number}"
        home.mkdir(parents=True, exist_ok=True)
        self.pipe = home / "turn"
        self._home = home
        self._state = state
        self._run_id = run_id
        self._amend = amend
        self._now = now
        self._host = WorkerHost(python=python, home=home)
        self._num_begun = 0

    def start(self) -> None:
        """Start the host without waiting for it."""
        self._host.start()

    def begin(self, work: Work, *, timeout_s: float) -> Session:
        """Return a session of `work` whose launches run here."""
        self._num_begun += 1
        folder = self._home / f"case-{self._num_begun}"
        folder.mkdir()
        oracles = self._state / "oracles"
        oracles.mkdir(exist_ok=True)
        settings = replace(
            work.settings,
            timeout_s=timeout_s,
            turn_pipe=str(self.pipe),
            device_lock=str(self._state / "device.lock"),
        )
        order = CaseOrder(
            run_id=self._run_id,
            case=work.case,
            workload=replace(work.planned.workload, sweep=None),
            settings=settings,
        )
        return HostSession(
            order,
            host=self._host,
            folder=folder,
            now=self._now,  # type: ignore[arg-type]
            is_cancelled=lambda: False,
            amend=self._amend,
            oracle_dir=str(oracles),
        )

    def cancel(self) -> None:
        """Kill the launch that runs here; the next one starts in a fresh lane."""
        self.thaw()
        self._host.cancel()

    def renew(self) -> None:
        """End a host whose launch was cancelled: it accepts no more orders."""
        self._host.close()

    def freeze(self) -> None:
        """Stop the launch that runs here until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the launch continue."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._host.pid is None:
            return
        for process in descendants(self._host.pid):
            # The process may have ended meanwhile.
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def close(self) -> None:
        """End the host and its processes, and remove their files."""
        self._host.close()
        shutil.rmtree(self._home, ignore_errors=True)


@dataclass(slots=True)
class Entry:
    """One case of a wave, with the lane and the thread of its launch."""

    work: Work
    lane: Lane
    session: Session
    num_ahead: int
    thread: threading.Thread | None = None
    report: LaunchReport | None = None
    first_report: LaunchReport | None = None
    num_done: int = 0
    was_frozen: bool = False
    cancelled_after_s: float | None = None
    started_s: float = 0.0

    @property
    def needs_launch(self) -> bool:
        """Return whether a launch has ended well and another one is planned."""
        is_ok = self.report is not None and self.report.outcome is Outcome.OK
        return is_ok and self.num_done < self.work.settings.num_launches

    def start(self) -> None:
        """Begin the next launch."""
        self.lane.pipe.unlink(missing_ok=True)
        os.mkfifo(self.lane.pipe)
        self.report = None
        self.started_s = time.monotonic()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.report = self.session.launch()
        self.first_report = self.first_report or self.report
        self.num_done += 1

    def has_ended(self, *, within_s: float = 0.0) -> bool:
        """Return whether the launch is over, or is within that time."""
        assert self.thread is not None
        self.thread.join(within_s)
        return not self.thread.is_alive()

    def cancel(self) -> None:
        """Kill the launch; earlier launches of the case count."""
        is_first = self.num_done == 0
        self.lane.cancel()
        if is_first:
            self.cancelled_after_s = time.monotonic() - self.started_s
        if self.has_ended(within_s=_END_S) and not is_first:
            self.session.forget_last()
        if isinstance(self.lane, HostLane):
            self.lane.renew()

    def freeze(self) -> None:
        """Stop the launch for a while; its compilation then has no time."""
        self.was_frozen |= self.num_done == 0
        self.lane.freeze()

    def result(self) -> CaseResult:
        """Return the result of the launches; a case that was stopped for good is a timeout."""
        result = self.session.finish()
        if self.cancelled_after_s is not None:
            return replace(
                result,
                outcome=Outcome.TIMEOUT,
                reason=f"stopped after {self.cancelled_after_s:.0f} s: it had not compiled",
                measurements=(),
                kernels=(),
                sources=(),
            )
        details = {**result.details, "compile_ahead": self.num_ahead}
        if not self.was_frozen:
            return replace(result, details=details)
        measurements = [item for item in result.measurements if item.metric not in _STOPPED_METRICS]
        details["was_stopped_while_compiling"] = True
        return replace(result, details=details, measurements=tuple(measurements))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """The outcome of a wave: its finished cases, and the seconds of its parts."""

    ended: tuple[Entry, ...]
    num_late: int
    num_launches: int
    prepare_s: float
    sample_s: float


class Waves:
    """Runs waves on `lanes`; late and second launches join the next wave."""

    def __init__(self, lanes: Sequence[Lane], *, until_s: float, launch_limit_s: float) -> None:
        self._free = list(lanes)
        self._until_s = until_s
        self._launch_limit_s = launch_limit_s
        self._late: list[Entry] = []
        self._again: list[Entry] = []

    @property
    def num_free(self) -> int:
        """Return the number of free lanes."""
        return len(self._free)

    @property
    def open(self) -> tuple[Work, ...]:
        """Return the cases that were begun and are not over."""
        return tuple(entry.work for entry in (*self._late, *self._again))

    def run(
        self, works: Sequence[Work], *, patience_s: float, sample_s: float, sample_limit_s: float
    ) -> Wave:
        """Launch `works` and the rest of earlier waves, and sample the compiled ones.

        When most are ready, late launches get no more than `patience_s`. Sampling may take
        `sample_s` and begins early enough to end in time.
        """
        start_s = time.monotonic()
        num_ahead = len(works) + len(self._late)
        for entry in self._late:
            entry.lane.thaw()
        new = [self._begin(work, num_ahead=num_ahead) for work in works]
        for entry in (*new, *self._again):
            entry.start()
        pending = [*self._late, *self._again, *new]
        hard_s = max(start_s, self._until_s - sample_s)
        ready, late = _prepared(pending, patient_until_s=start_s + patience_s, until_s=hard_s)
        prepared_s = time.monotonic()
        self._late = self._stop(late)
        for entry, pipe in ready:
            self._sample(entry, pipe, limit_s=sample_limit_s)
        launched = [entry for entry in pending if entry not in self._late]
        self._again = [entry for entry in launched if entry.needs_launch]
        ended = tuple(entry for entry in launched if not entry.needs_launch)
        self._free += [entry.lane for entry in ended]
        return Wave(
            ended=ended,
            num_late=len(self._late),
            num_launches=len(pending) - len(self._late),
            prepare_s=prepared_s - start_s,
            sample_s=time.monotonic() - prepared_s,
        )

    def close(self) -> tuple[Entry, ...]:
        """Kill all running launches; return the cases that have results of some launches."""
        for entry in self._late:
            entry.cancel()
        # A launch without time to compile counts as never begun.
        compiled = tuple(entry for entry in self._late if entry.cancelled_after_s is None)
        return (*compiled, *self._again)

    def _begin(self, work: Work, *, num_ahead: int) -> Entry:
        lane = self._free.pop(0)
        left_s = self._until_s - time.monotonic()
        session = lane.begin(work, timeout_s=left_s)
        return Entry(work=work, lane=lane, session=session, num_ahead=num_ahead)

    def _stop(self, late: Sequence[Entry]) -> list[Entry]:
        """Return those of `late` that may continue later, stopped; kill the others."""
        going_on = []
        for entry in late:
            now_s = time.monotonic()
            if now_s >= self._until_s or now_s - entry.started_s > self._launch_limit_s:
                entry.cancel()
            else:
                entry.freeze()
                going_on.append(entry)
        return going_on

    def _sample(self, entry: Entry, pipe: int, *, limit_s: float) -> None:
        begun_s = time.monotonic()
        # The launch waits for the end of this pipe.
        os.close(pipe)
        left_s = max(0.0, min(self._until_s - begun_s, limit_s))
        if not entry.has_ended(within_s=left_s):
            entry.cancel()


def _prepared(
    entries: Sequence[Entry], *, patient_until_s: float, until_s: float
) -> tuple[list[tuple[Entry, int]], list[Entry]]:
    """Return the cases that wait at their pipes, with the ends to close, and the late ones."""
    waiting, ready = list(entries), []
    while waiting:
        for entry in list(waiting):
            if (pipe := open_end(entry.lane.pipe)) is not None:
                ready.append((entry, pipe))
                waiting.remove(entry)
            elif entry.has_ended():
                waiting.remove(entry)
        now_s = time.monotonic()
        has_most = len(waiting) <= (1 - _MOST) * len(entries)
        if now_s > until_s or (now_s > patient_until_s and has_most):
            break
        time.sleep(_POLL_S)
    return ready, waiting

"""Executes cases on this machine, through a worker host under the toolchain's interpreter."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from compile_hud.db.jobs.live_log import CASE_NAME, WORK_FOLDER, work_name
from compile_hud.db.records.results import CaseResult
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.ahead.host_lane import HostLane
from compile_hud.runner.execution.ahead.programs import MeasuredPrograms
from compile_hud.runner.execution.case_session import LocalSession, TurnClock
from compile_hud.runner.execution.executor import CaseOrder, CaseSession, CompileLane, MakeExecutor
from compile_hud.runner.execution.kernel_profile import store_trace, with_kernels
from compile_hud.runner.execution.utilisation import with_utilisation
from compile_hud.runner.execution.worker_process import WorkerHost, tail
from compile_hud.runner.persistence.compile_traces import FOLDER as TRACES_FOLDER
from compile_hud.runner.persistence.compile_traces import CompileTraces
from compile_hud.runner.protocol.graphs import CapturedCase
from compile_hud.runner.protocol.messages import LaunchRequest
from compile_hud.runner.system.toolchain_home import toolchain_home

FACTS_TIMEOUT_S = 120.0
# They take about a second; a device as slow as this is better measured without them.
PEAKS_TIMEOUT_S = 60.0
# Compiling the headers that every C++ kernel includes takes some 20 s once a toolchain.
PRIME_TIMEOUT_S = 300.0
COMPILE_THREADS_VARIABLE = "TORCHINDUCTOR_COMPILE_THREADS"
# The compiled headers depend on these facts.
HEADER_FACTS = (
    "torch_version",
    "torch_git",
    "python_version",
    "cxx_compiler",
    "cpu_capability",
    "flags",
)


class LocalExecutor:
    """An Executor that runs cases on this machine, one at a time.

    `python` is the toolchain's interpreter, `state_dir` the folder for compile caches and logs.
    `device` is the device kind of the facts, `num_threads` the thread count of the peaks.
    """

    def __init__(
        self,
        *,
        python: Path,
        state_dir: Path,
        device: str = "cpu",
        num_threads: int = 1,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._device = device
        self._num_threads = num_threads
        self._facts: Mapping[str, Any] = {}
        self._peaks: Mapping[str, Any] = {}
        self._now = now
        self._home = toolchain_home(state_dir, python=python)
        self._host = WorkerHost(python=python, home=self._home)
        self._work = (state_dir / WORK_FOLDER).absolute()
        self._snapshots = (state_dir / "snapshots").absolute()
        self._compile_traces = CompileTraces((state_dir / TRACES_FOLDER).absolute(), python=python)
        # The spool is next to the pending results: storing a result moves its trace too.
        self._spool = (state_dir / "spool").absolute()
        self._is_cancelled = False
        self._is_primed = False
        self._programs = MeasuredPrograms()
        self._oracles: Path | None = None
        self._lanes: list[HostLane] = []

    def start(self) -> None:
        """Start the worker host without waiting for it; raise ExecutorError."""
        self._host.start()

    def open(self) -> Mapping[str, Any]:
        """Start the worker host and return the environment facts; raise ExecutorError."""
        self._host.wait_ready()
        _remove_leftovers(self._work)
        order = {"action": "facts", "device": self._device}
        self._facts = self._ask(order, limit_s=FACTS_TIMEOUT_S)
        peaks = {"action": "peaks", "device": self._device, "num_threads": self._num_threads}
        try:
            self._peaks = self._ask(peaks, limit_s=PEAKS_TIMEOUT_S)
        except ExecutorError as error:
            # Latencies need no peaks. A metric that does is missing; this detail has the reason.
            self._peaks = {"reason": str(error)}
        return {**self._facts, "peaks": self._peaks}

    def execute(self, order: CaseOrder) -> CaseResult:
        """Return the result of the case; raise ExecutorError when no host can be started."""
        session = self.begin(order)
        try:
            while session.needs_launch:
                session.launch()
            return session.finish()
        finally:
            session.close()

    def begin(self, order: CaseOrder) -> CaseSession:
        """Return a session of the case, nothing launched yet; raise ExecutorError."""
        return self._session(order, host=self._host)

    def open_lanes(self, number: int, *, cores_each: int) -> Sequence[CompileLane]:
        """Return lanes with hosts of their own, whose compilers use `cores_each` processes."""
        threads = {COMPILE_THREADS_VARIABLE: str(cores_each)}
        for lane in range(number):
            home = self._home / "lanes" / str(lane)
            self._lanes.append(
                HostLane(
                    WorkerHost(python=self._host.python, home=home, environment=threads),
                    home=home,
                    make_session=self._lane_session,
                    programs=self._programs,
                )
            )
        return tuple(self._lanes)

    def _lane_session(
        self, order: CaseOrder, host: WorkerHost, turn_clock: TurnClock
    ) -> LocalSession:
        # One launch at a time has the device for what takes most memory, and for autotuning.
        lock = str(self._oracle_dir() / "device.lock")
        order = replace(order, settings=replace(order.settings, device_lock=lock))
        return self._session(order, host=host, turn_clock=turn_clock)

    def _session(
        self, order: CaseOrder, *, host: WorkerHost, turn_clock: TurnClock | None = None
    ) -> LocalSession:
        # This precedes the session, whose clock starts with it: the work belongs to no case.
        if order.case.backend == "inductor" and order.case.device == "cpu":
            self._prime()
        return LocalSession(
            order,
            host=host,
            folder=self._case_folder(order),
            now=self._now,
            is_cancelled=lambda: self._is_cancelled,
            amend=partial(self._amend, order),
            snapshot_path=self._snapshot_path(order),
            oracle_dir=str(self._oracle_dir()),
            known_code=self._programs.others(order) if order.skips_same_code else {},
            compile_traces=self._compile_traces,
            turn_clock=turn_clock,
        )

    def graphs(self, order: CaseOrder) -> CapturedCase:
        """Return the graphs of the case, for a script of torch alone."""
        folder = self._new_folder()
        try:
            request = LaunchRequest(
                case=order.case,
                workload=order.workload,
                settings=order.settings,
                launch=1,
                cache_dir=str(folder / "cache"),
                report_path=str(folder / "report.json"),
                log_path=str(folder / "log.txt"),
            )
            self._host.wait_ready()
            answer = self._answer(
                {"action": "graphs", "request": request.to_json()},
                folder=folder,
                limit_s=order.settings.timeout_s,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if "graphs" not in answer:
            raise ExecutorError(
                f"no script of {order.case.key}: {answer['reason']}", case=order.case.key
            )
        return CapturedCase.from_json(answer["graphs"])

    def cancel(self) -> None:
        """Kill the running case; `execute` returns at once, now and from now on."""
        self._is_cancelled = True
        self._host.cancel()
        for lane in self._lanes:
            lane.cancel()

    def close(self) -> None:
        """End the worker host, which kills its children."""
        self._host.close()
        for lane in self._lanes:
            lane.close()
        if self._oracles is not None:
            shutil.rmtree(self._oracles, ignore_errors=True)
            self._oracles = None

    def _ask(self, order: Mapping[str, Any], *, limit_s: float) -> dict[str, Any]:
        """Return the report of a child of the worker host; raise ExecutorError without one."""
        folder = self._new_folder()
        try:
            return self._answer(order, folder=folder, limit_s=limit_s)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _answer(self, order: Mapping[str, Any], *, folder: Path, limit_s: float) -> dict[str, Any]:
        report, log = folder / "report.json", folder / "log.txt"
        self._host.ask({**order, "report_path": str(report)}, log=log, timeout_s=limit_s)
        if not report.exists():
            raise ExecutorError(
                f"{self._host.python} cannot measure on {self._device}: {_last_line(log)}",
                python=self._host.python,
                device=self._device,
            )
        answer: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return answer

    def _prime(self) -> None:
        """Build the toolchain's precompiled header before a compilation is timed."""
        if self._is_primed or self._is_cancelled:
            return
        order = {"action": "prime", "mark": header_mark(self._facts)}
        self._host.ask(order, log=self._home / "prime.log", timeout_s=PRIME_TIMEOUT_S)
        self._is_primed = True

    def _amend(self, order: CaseOrder, result: CaseResult, trace: Path) -> CaseResult:
        """Return `result` with facts of the run: equal code of other cases, the device's peaks."""
        result = with_utilisation(self._programs.note(order, result), peaks=self._peaks)
        result = with_kernels(result, trace=trace, peaks=self._peaks)
        return store_trace(result, trace=trace, folder=self._spool)

    def _oracle_dir(self) -> Path:
        """Return the folder that the cases of this run share."""
        if self._oracles is None:
            self._oracles = self._new_folder()
        return self._oracles

    def _snapshot_path(self, order: CaseOrder) -> str:
        """Return the path of the allocator history of a case; empty if the settings disable it."""
        if not order.settings.memory_snapshot:
            return ""
        return str(self._snapshots / order.run_id / f"{order.case.key.replace('/', '-')}.pickle")

    def _case_folder(self, order: CaseOrder) -> Path:
        """Return a new folder for the case and its log, where a live view finds them."""
        return self._new_folder(order.run_id, case_key=order.case.key)

    def _new_folder(self, run_id: str = "", *, case_key: str = "") -> Path:
        folder = self._work / work_name(run_id, pid=os.getpid(), unique=uuid.uuid4().hex)
        try:
            folder.mkdir(parents=True)
            if case_key:
                (folder / CASE_NAME).write_text(case_key, encoding="utf-8")
        except OSError as error:
            raise ExecutorError(
                f"cannot create {folder}: {error.strerror}; free some space",
                folder=folder,
                reason=error.strerror,
            ) from error
        return folder


def executor_maker(replacement: MakeExecutor | None) -> MakeExecutor:
    """Return `replacement`, LocalExecutor where there is none.

    Settings name no executor, so that reading them does not import this module.
    """
    return LocalExecutor if replacement is None else replacement


def header_mark(facts: Mapping[str, Any]) -> str:
    """Return the name of the marker file for compiled headers of an environment."""
    text = json.dumps([facts.get(name) for name in HEADER_FACTS], sort_keys=True)
    return f"hud-primed-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _remove_leftovers(work: Path) -> None:
    """Remove the folders of cases whose runner is dead."""
    for folder in work.glob("*-*"):
        pid = folder.name.partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _last_line(path: Path) -> str:
    """Return the message of the last exception in a log."""
    lines = tail(path).strip().splitlines()
    return lines[-1].partition(": ")[2] or lines[-1] if lines else "it said nothing"

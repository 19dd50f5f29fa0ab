"""One case in execution: launch after launch, then its result.

The module is separate from the executor, so that the launches of two cases, or of one case under
two toolchains, can be interleaved.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from compile_hud.db.jobs.live_log import LOG_NAME
from compile_hud.db.records.results import ALONE_S, TURNS, WAITED_S, CaseResult, Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.ids import timed_id
from compile_hud.db.shared.text import counted_of
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.launch_aggregation import (
    Ending,
    combine,
    has_time,
    needs_launch,
    report_disk_full,
    report_of_ending,
)
from compile_hud.runner.execution.worker_process import WorkerHost, tail
from compile_hud.runner.persistence.compile_traces import CompileTraces
from compile_hud.runner.protocol.messages import (
    PROGRAM_SUFFIX,
    STEP_SUFFIX,
    CacheState,
    LaunchReport,
    LaunchRequest,
    MeasureSettings,
    TracePolicy,
)

# The rest stays for the runner, the dashboard and the page cache.
MEMORY_LIMIT_SHARE = 0.8
# The first launch has an empty compile cache, the second one a warm cache. The third launch loads
# saved artifacts. On a CPU that costs a C++ compilation, so a case does it once.
ARTIFACTS_LAUNCH = 2
# The host's own limit of a launch that waits for its turn: a last resort if the runner hangs.
LONGEST_WAIT_S = 86_400.0
# A report with its samples takes tens of kilobytes; a compilation writes a few megabytes.
FULL_BYTES = 1 << 20


class TurnClock:
    """The seconds that a launch waits for its turn at the named pipe `pipe`.

    They do not count for the time limit of the case. `alone_s` are the seconds after the turns of
    all launches so far, in which one had the device alone.
    """

    def __init__(self, *, pipe: Path) -> None:
        self.pipe = pipe
        self.seconds = 0.0
        self.alone_s = 0.0
        self._since_s: float | None = None
        self._turn_s: float | None = None

    def begin_launch(self) -> None:
        """Forget the launch before."""
        self.seconds, self._since_s, self._turn_s = 0.0, None, None

    def begin(self) -> None:
        """Start the clock: the launch is ready."""
        self._since_s = time.monotonic()

    def end(self) -> None:
        """Stop the clock: it is the launch's turn."""
        if self._since_s is not None:
            self._turn_s = time.monotonic()
            self.seconds = self._turn_s - self._since_s
            self._since_s = None

    def end_launch(self) -> None:
        """Count the seconds since the turn, if the launch had one."""
        if self._turn_s is not None:
            self.alone_s += time.monotonic() - self._turn_s
            self._turn_s = None


class LocalSession:
    """A CaseSession on this machine; `close` deletes its `folder`.

    The time limit of the case counts launches only, not the time between them. With a `turn_clock`
    launches wait for their turn, and the caller ends one that exceeds `left_s`. `amend` gets the
    result and the path of the first launch's trace, which may not exist.
    """

    def __init__(
        self,
        order: CaseOrder,
        *,
        host: WorkerHost,
        folder: Path,
        now: Callable[[], datetime],
        is_cancelled: Callable[[], bool],
        amend: Callable[[CaseResult, Path], CaseResult] = lambda result, _trace: result,
        snapshot_path: str = "",
        oracle_dir: str = "",
        known_code: Mapping[str, str] = MappingProxyType({}),
        compile_traces: CompileTraces | None = None,
        turn_clock: TurnClock | None = None,
    ) -> None:
        self._order = order
        self._turn_clock = turn_clock
        self._host = host
        self._folder = folder
        self._now = now
        self._is_cancelled = is_cancelled
        self._amend = amend
        self._snapshot_path = snapshot_path
        self._oracle_dir = oracle_dir
        self._known_code = known_code
        self._compile_traces = compile_traces
        # Paths of the compiler's log, and the warning without one; None until the case ends.
        self._compile_trace: tuple[dict[str, str], tuple[RunWarning, ...]] | None = None
        self._started_at = now()
        # Every `finish` uses the same id, since files on the disk carry it in their names.
        self._result_id = timed_id(self._started_at)
        self._left_s = order.settings.timeout_s
        self._reports: list[LaunchReport] = []

    @property
    def needs_launch(self) -> bool:
        """Return whether the launches so far call for another one."""
        return needs_launch(self._reports, order=self._order, left_s=self._left_s)

    @property
    def has_time(self) -> bool:
        """Return whether one more launch fits into the time of the case."""
        return has_time(self._reports, left_s=self._left_s)

    @property
    def left_s(self) -> float:
        """Return the seconds that the launches of the case may still take."""
        return self._left_s

    def program_of_launch(self, number: int) -> str:
        """Return the name of the program that launch `number` left when it was ready, or ""."""
        return _left_by_launch(self._report_path(number), suffix=PROGRAM_SUFFIX)

    def launch(self) -> LaunchReport:
        """Run one fresh process of the case and return its report."""
        report = self._launch(len(self._reports))
        self._reports.append(report)
        return report

    def finish(self) -> CaseResult:
        """Return the case result of all launches."""
        result = combine(
            self._order,
            self._reports,
            result_id=self._result_id,
            started_at=self._started_at,
            finished_at=self._now(),
            log_tail=tail(self._folder / LOG_NAME),
        )
        result = replace(
            result,
            warnings=(*result.warnings, *self._cut_short(result)),
            details={**result.details, **self._turns(result)},
        )
        result = self._amend(result, self._trace)
        if self._compile_trace is None:
            self._compile_trace = self._compile_trace_of(result)
        paths, warnings = self._compile_trace
        if paths:
            result = replace(result, details={**result.details, "compile_trace": paths})
        return replace(result, warnings=(*result.warnings, *warnings))

    def _turns(self, result: CaseResult) -> Mapping[str, Any]:
        if self._turn_clock is None:
            return {}
        worked_s = self._order.settings.timeout_s - self._left_s
        waited_s = (result.finished_at - result.started_at).total_seconds() - worked_s
        return {TURNS: {WAITED_S: max(0.0, waited_s), ALONE_S: self._turn_clock.alone_s}}

    def _compile_trace_of(
        self, result: CaseResult
    ) -> tuple[dict[str, str], tuple[RunWarning, ...]]:
        """Return the paths of the log of the case, compiled once more if the policy chooses it.

        A chosen case without a log has a warning with the reason.
        """
        policy = TracePolicy(self._order.settings.compile_trace)
        traces = self._compile_traces
        if traces is None or not traces.is_chosen(result, policy=policy):
            return {}, ()
        folder = traces.folder_of(result.case, run_id=self._order.run_id)
        reason = self._compile_once_more(folder)
        if paths := traces.details(folder):
            return paths, ()
        warning = RunWarning(
            code="no-compile-trace",
            text=f"no log of the compiler is stored: {reason}",
            hint="the numbers of this result were taken before and stand",
        )
        return {}, (warning,)

    def _compile_once_more(self, trace_folder: Path) -> str:
        """Compile the case with an empty cache, in a launch that writes its log and no result.

        Returns the reason why there may be no log.
        """
        if self._is_cancelled():
            return "the run was cancelled before it"
        if self._left_s <= 0:
            return f"the {self._order.settings.timeout_s:g} s of the case were spent"
        log = self._folder / "traced.log"
        settings = replace(_with_memory_limit(self._order), turn_pipe="", device_lock="")
        request = LaunchRequest(
            case=self._order.case,
            workload=self._order.workload,
            settings=settings,
            # The first launch would compute the oracle too.
            launch=1,
            cache_dir=str(self._folder / "traced"),
            report_path=str(self._folder / "report-traced.json"),
            log_path=str(log),
            compile_trace_dir=str(trace_folder),
        )
        ending = self._host.ask(
            {"action": "launch", "request": request.to_json()}, log=log, timeout_s=self._left_s
        )
        return self._traced_reason(request, ending=ending)

    def _traced_reason(self, request: LaunchRequest, *, ending: Ending) -> str:
        """Return the reason why the traced launch may have written no log."""
        try:
            text = Path(request.report_path).read_text(encoding="utf-8")
        except FileNotFoundError:
            limit_s = self._order.settings.timeout_s
            report = report_of_ending(
                ending, log_tail=tail(Path(request.log_path)), limit_s=limit_s
            )
        else:
            report = LaunchReport.from_json(json.loads(text))
        if report.outcome is Outcome.OK:
            return "this torch writes none"
        return f"the launch for it ended as {report.outcome}: {report.reason}"

    def _settings(self) -> MeasureSettings:
        settings = _with_memory_limit(self._order)
        if self._turn_clock is None:
            return settings
        return replace(settings, turn_pipe=str(self._turn_clock.pipe))

    def _report_path(self, number: int) -> Path:
        return self._folder / f"report-{number}.json"

    @property
    def _trace(self) -> Path:
        return self._folder / "trace.json.gz"

    def _cut_short(self, result: CaseResult) -> tuple[RunWarning, ...]:
        settings = self._order.settings
        num_done, num_planned = len(self._reports), settings.num_launches
        if result.outcome is not Outcome.OK or num_done >= num_planned or self.needs_launch:
            return ()
        return (
            RunWarning(
                code="few-launches",
                text=f"{counted_of(num_done, num_planned, 'launch')}: one more did not fit into the"
                f" {settings.timeout_s:g} s of the case",
                hint=f"raise [run] timeout_s above {settings.timeout_s:g}, or take a smaller shape",
            ),
        )

    def close(self) -> None:
        """Remove the files of the case; may be called twice."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _is_profiled(self, number: int) -> bool:
        # A reference case is three well-known operators, which need no trace.
        return number == 0 and self._order.settings.kernels and not self._order.case.is_reference

    def _launch(self, number: int) -> LaunchReport:
        limit_s = self._order.settings.timeout_s
        if self._is_cancelled() or self._left_s <= 0:
            ending = Ending(text="cancelled" if self._is_cancelled() else "timeout")
            return report_of_ending(ending, log_tail="", limit_s=limit_s)
        log = self._folder / LOG_NAME
        artifacts = self._folder / "artifacts.bin"
        # An extra launch, made because the others disagree, must be like the others.
        is_planned = number < self._order.settings.num_launches
        cache_state = _cache_state(number, has_artifacts=is_planned and artifacts.exists())
        request = LaunchRequest(
            case=self._order.case,
            workload=self._order.workload,
            settings=self._settings(),
            launch=number,
            # Artifacts are for a machine without a compile cache.
            cache_dir=str(self._folder / ("fresh" if cache_state == "artifacts" else "cache")),
            report_path=str(self._report_path(number)),
            log_path=str(log),
            cache_state=cache_state,
            artifacts_path=str(artifacts),
            snapshot_path=self._snapshot_path,
            trace_path=str(self._trace) if self._is_profiled(number) else "",
            oracle_dir=self._oracle_dir,
            known_code=self._known_code if number == 0 else {},
        )
        # The start of a host belongs to no case.
        self._host.wait_ready()
        started_s = time.monotonic()
        ending = self._host.ask(
            {"action": "launch", "request": request.to_json()},
            log=log,
            timeout_s=self._left_s if self._turn_clock is None else LONGEST_WAIT_S,
        )
        wall_s = time.monotonic() - started_s
        if self._turn_clock is not None:
            self._turn_clock.end_launch()
            wall_s -= self._turn_clock.seconds
        self._left_s -= wall_s
        try:
            text = Path(request.report_path).read_text(encoding="utf-8")
        except FileNotFoundError:
            step = _left_by_launch(Path(request.report_path), suffix=STEP_SUFFIX)
            report = report_of_ending(ending, log_tail=tail(log), limit_s=limit_s, step=step)
        else:
            report = LaunchReport.from_json(json.loads(text))
            report = replace(report, details={**report.details, "launch_wall_s": wall_s})
        # This comes before the folder is deleted: the launch's own files may have filled the disk.
        if report.outcome is Outcome.FAILED and _is_full(self._folder):
            return report_disk_full(report, folder=self._folder.parent)
        return report


def _left_by_launch(report: Path, *, suffix: str) -> str:
    """Return the text that a launch left next to its report, empty if it left none."""
    try:
        return report.with_suffix(suffix).read_text(encoding="ascii")
    except OSError:
        return ""


def _is_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < FULL_BYTES


def _cache_state(launch: int, *, has_artifacts: bool) -> CacheState:
    """Return the state of the compile cache for launch number `launch`."""
    if launch == 0:
        return "cold"
    return "artifacts" if launch == ARTIFACTS_LAUNCH and has_artifacts else "warm"


def _with_memory_limit(order: CaseOrder) -> MeasureSettings:
    if order.settings.memory_limit_bytes is not None or order.case.device != "cpu":
        return order.settings
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return replace(order.settings, memory_limit_bytes=int(total * MEMORY_LIMIT_SHARE))

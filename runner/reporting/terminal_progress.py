"""Show a run in the terminal while it lasts."""

from __future__ import annotations

import errno
import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from compile_hud.db.records.metrics import CPU_TIME, result_latencies, speedup_name
from compile_hud.db.records.results import COMPILE_AHEAD, Case, CaseResult, Outcome, Run, RunState
from compile_hud.db.shared.text import counted, first_line
from compile_hud.runner.events import (
    CaseFinished,
    CaseSampling,
    CasesCompiling,
    CaseStarted,
    Event,
    LogMessage,
    PairLaunched,
    RunEnded,
    RunStarted,
)
from compile_hud.runner.format import clock, metric, mode_text
from compile_hud.runner.planning.open_work import seconds_of

# More names than this do not fit next to the bar.
_MAX_NAMED = 3


def estimate_left_s(
    remaining: Sequence[Case], *, finished: Sequence[CaseResult], num_processes: int = 1
) -> float | None:
    """Return the estimated seconds for `remaining`, None before the first result.

    An eager case takes a fraction of a compiled one, so each kind has its own estimate. Seconds in
    which `num_processes` cases compile at a time count once.
    """
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for result in finished:
        seconds[result.case.is_eager].append(seconds_of(result).shared(num_processes))
    means = [statistics.fmean(own) if own else None for own in seconds.values()]
    known = [mean for mean in means if mean is not None]
    if not known:
        return None
    estimates = [means[case.is_eager] for case in remaining]
    return sum(max(known) if mean is None else mean for mean in estimates)


def case_line(result: CaseResult, *, position: int, num_planned: int, label: str = "") -> str:
    """Return one line about a finished case, in the run `label` if that is not empty."""
    case = result.case
    took_s = result.took_s
    width = len(str(num_planned))
    what = f"{case.model} {mode_text(result)} {case.phase} {case.shape} {case.dtype}"
    run = f"{label}: " if label else ""
    head = f"[{position:{width}}/{num_planned}] {run}{what}"
    if result.outcome is not Outcome.OK and result.outcome.is_expected:
        return f"{head}: {first_line(result.reason)} ({clock(took_s)})"
    if result.outcome is not Outcome.OK:
        return f"{head}: {result.outcome}: {first_line(result.reason)} ({clock(took_s)})"
    speedup = result.measurement("speedup")
    eager, latency = result_latencies(
        [item.metric for item in result.measurements],
        speedup_method="" if speedup is None else speedup.method,
    )
    if speedup is None:
        clock_text = f" {CPU_TIME}" if latency == "latency_cpu_s" else ""
        parts = [metric(result, latency) + clock_text]
    else:
        of_eager = "" if result.measurement(eager) is None else f"{metric(result, eager)} -> "
        parts = [
            of_eager + metric(result, latency),
            f"{speedup_name([speedup.method])} {metric(result, 'speedup')}",
        ]
    if not case.is_eager:
        parts.append(f"compile {metric(result, 'compile_cold_s')}")
    return f"{head}: {', '.join(parts)} ({clock(took_s)})"


class TerminalProgress:
    """Print a line for each event; on a terminal, show a bar with the remaining time below."""

    def __init__(self, console: Console, *, now: Callable[[], datetime]) -> None:
        self._console = console
        self._now = now
        self._bar: Progress | None = None
        self._task = TaskID(0)
        # The bar and the time left belong to the first run of a group.
        self._run: Run | None = None
        self._labels: dict[str, str] = {}
        self._finished: dict[str, list[CaseResult]] = {}
        self._num_before = 0

    def __enter__(self) -> TerminalProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop_bar()

    def __call__(self, event: Event) -> None:
        """Show `event`."""
        match event:
            case LogMessage():
                prefix = "warning: " if event.is_warning else ""
                self._print(f"{prefix}{event.text}")
            case RunStarted():
                self._start(event)
            case CaseStarted():
                self._update(f"{event.case.model} {event.case.variant}")
            case CasesCompiling():
                self._update(self._compiling(event.cases))
            case CaseSampling():
                self._update(f"sampling {event.case.model} {event.case.variant}")
            case PairLaunched():
                pairs = "pair" if event.num_pairs == 1 else "pairs"
                case_text = f"{event.case.model} {event.case.variant}"
                self._update(f"{case_text}, {event.num_pairs} {pairs} of launches")
            case CaseFinished():
                self._finish_case(event.result)
            case RunEnded():
                self._stop_bar()
                if event.run.state is RunState.FINISHED:
                    ended_at = event.run.finished_at or self._now()
                    took_s = (ended_at - event.run.started_at).total_seconds()
                    name = self._name(event.run)
                    self._print(f"run {name} finished after {clock(took_s)}")
                self._forget(event.run)

    def _start(self, event: RunStarted) -> None:
        self._labels[event.run.id] = event.label
        self._finished[event.run.id] = []
        num_planned = len(event.run.plan)
        done = f", {event.num_done} of them before" if event.num_done else ""
        self._print(
            f"run {self._name(event.run)}: {counted(num_planned, 'case')}{done},"
            f" torch {event.run.revision}"
            f" on {event.run.environment.get('device_name', 'an unknown device')}"
        )
        if self._run is not None:
            return
        self._run, self._num_before = event.run, event.num_done
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]}"),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(
                "", total=num_planned, completed=event.num_done, left=""
            )

    def _finish_case(self, result: CaseResult) -> None:
        assert self._run is not None
        finished = self._finished[result.run_id]
        finished.append(result)
        position = self._num_before + len(finished)
        num_planned, label = len(self._run.plan), self._labels[result.run_id]
        line = case_line(result, position=position, num_planned=num_planned, label=label)
        self._print(line)
        if self._bar is not None:
            self._bar.update(self._task, completed=position)

    def _compiling(self, cases: Sequence[Case]) -> str:
        num_planned = len(self._run.plan) if self._run is not None else len(cases)
        names = [f"{case.model} {case.variant}" for case in cases[:_MAX_NAMED]]
        rest = f" and {len(cases) - _MAX_NAMED} more" if len(cases) > _MAX_NAMED else ""
        return f"compiling {len(cases)} of {num_planned}: {', '.join(names)}{rest}"

    def _update(self, description: str) -> None:
        if self._bar is None or self._run is None:
            return
        finished = self._finished[self._run.id]
        done = {result.case.key for result in finished}
        remaining = [case for case in self._run.plan if case.key not in done][self._num_before :]
        left_s = estimate_left_s(
            remaining, finished=finished, num_processes=_num_processes(self._run)
        )
        left = "" if left_s is None else f"about {clock(left_s)} left"
        self._bar.update(self._task, description=description, left=left)

    def _name(self, run: Run) -> str:
        label = self._labels.get(run.id)
        return f"{run.id} ({label})" if label else run.id

    def _forget(self, run: Run) -> None:
        """Reset the bar for the next run, once all runs of the group have ended."""
        self._labels.pop(run.id, None)
        self._finished.pop(run.id, None)
        if not self._finished:
            self._run = None

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _print(self, text: str) -> None:
        try:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
        except OSError as error:
            # A log on a full disk must not end the run.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise


def _num_processes(run: Run) -> int:
    """Return the number of cases of `run` that compile at a time."""
    fact = run.environment.get(COMPILE_AHEAD)
    return int(fact["processes"]) if isinstance(fact, Mapping) else 1

from __future__ import annotations

import dataclasses
import errno
import io
from datetime import timedelta

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import (
    ALONE_S,
    COMPILE_AHEAD,
    TURNS,
    WAITED_S,
    Case,
    CaseResult,
)
from compile_hud.db.shared.text import first_line
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
from compile_hud.runner.reporting.terminal_progress import (
    TerminalProgress,
    case_line,
    estimate_left_s,
)
from tests.support.builders import START, make_case, make_measurement, make_result, make_run
from tests.support.fakes import FakeClock

EAGER = make_case(mode="eager")
DEFAULT = make_case(mode="default")


def took(case: Case, seconds: float) -> CaseResult:
    return make_result(case=case, started_at=START, finished_at=START + timedelta(seconds=seconds))


def test_nothing_is_known_before_a_case_is_over() -> None:
    assert estimate_left_s([EAGER], finished=[]) is None


def test_eager_and_compiled_cases_are_estimated_apart() -> None:
    finished = [took(EAGER, 1.0), took(DEFAULT, 20.0), took(DEFAULT, 40.0)]
    assert estimate_left_s([EAGER, DEFAULT, DEFAULT], finished=finished) == 61.0


def test_an_unknown_kind_takes_as_long_as_the_slowest_known() -> None:
    assert estimate_left_s([DEFAULT], finished=[took(EAGER, 3.0)]) == 3.0


def test_cases_that_compile_at_a_time_share_the_time_left() -> None:
    """They took 40 s, 10 of them alone on the device, and waited for 500 s."""
    waited = took(DEFAULT, 540.0)
    details = {TURNS: {WAITED_S: 500.0, ALONE_S: 10.0}}
    finished = [dataclasses.replace(waited, details=details)]
    assert estimate_left_s([DEFAULT] * 2, finished=finished, num_processes=3) == 40.0
    assert "(0:40)" in case_line(finished[0], position=1, num_planned=1)


@pytest.mark.parametrize(
    ("event", "texts"),
    [
        (CasesCompiling(cases=(DEFAULT,)), ["compiling 1 of 23:", "bert default"]),
        (
            CasesCompiling(cases=(DEFAULT, EAGER, DEFAULT, EAGER, EAGER)),
            ["compiling 5 of 23:", "bert default, bert eager, bert default", "and 2"],
        ),
        (CaseSampling(case=DEFAULT), ["sampling bert default"]),
    ],
)
def test_cases_that_compile_are_counted_and_named(event: Event, texts: list[str]) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, no_color=True)
    with TerminalProgress(console, now=FakeClock()) as progress:
        progress(RunStarted(run=make_run(plan=[DEFAULT] * 23), num_done=0))
        progress(event)
    assert all(text in stream.getvalue() for text in texts)


def test_the_time_left_of_a_run_that_compiles_ahead_counts_its_processes() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, no_color=True)
    run = make_run(plan=[EAGER, DEFAULT], environment={COMPILE_AHEAD: {"processes": 4}})
    details = {TURNS: {WAITED_S: 0.0, ALONE_S: 0.0}}
    with TerminalProgress(console, now=FakeClock()) as progress:
        progress(RunStarted(run=run, num_done=0))
        progress(CaseFinished(result=dataclasses.replace(took(EAGER, 40.0), details=details)))
        progress(CasesCompiling(cases=(DEFAULT,)))
    assert "about 0:10 left" in stream.getvalue()


def test_a_line_has_the_latencies_of_the_speedup_on_its_clock() -> None:
    times = {"latency_s": 0.009, "latency_cpu_s": 0.002, "eager_latency_cpu_s": 0.003}
    measured = [make_measurement(name, samples=[value]) for name, value in times.items()]
    speedup = make_measurement("speedup", samples=[1.5], method="thread CPU time, by rounds")
    result = make_result(case=DEFAULT, measurements=[*measured, speedup])
    assert "3.00 ms -> 2.00 ms" in case_line(result, position=1, num_planned=1)
    eager = make_result(case=DEFAULT, measurements=measured)
    assert "2.00 ms CPU time" in case_line(eager, position=1, num_planned=1)


def test_a_line_tells_latency_speedup_and_compile_time(words: SnapshotAssertion) -> None:
    measurements = [
        make_measurement("latency_s", samples=[0.002]),
        make_measurement("speedup", samples=[1.5]),
        make_measurement("compile_cold_s", samples=[12.5]),
    ]
    result = make_result(case=DEFAULT, measurements=measurements)
    assert case_line(result, position=3, num_planned=25) == (words)


def test_a_line_of_an_eager_case_has_no_speedup(words: SnapshotAssertion) -> None:
    assert case_line(took(EAGER, 1.0), position=1, num_planned=2) == (words)


def test_a_graph_of_eager_kernels_is_compared_with_eager_like_any_variant() -> None:
    graph = dataclasses.replace(EAGER, variant="cuda-graph", backend="cuda_graph")
    result = make_result(
        case=graph,
        measurements=[
            make_measurement("latency_s", samples=[0.002]),
            make_measurement("speedup", samples=[1.5]),
        ],
    )
    assert "speedup 1.50x" in case_line(result, position=1, num_planned=2)


def test_a_line_says_that_a_speedup_is_of_cpu_time() -> None:
    method = "eager over variant thread CPU time, round by round"
    speedup = make_measurement("speedup", samples=[1.5], method=method)
    result = make_result(case=DEFAULT, measurements=[speedup])
    assert "speedup (CPU time) 1.50x" in case_line(result, position=1, num_planned=2)


def test_a_line_of_a_failure_tells_its_reason(words: SnapshotAssertion) -> None:
    result = make_result(case=DEFAULT, outcome="timeout", reason="\n  took too long\ntrace")
    assert case_line(result, position=1, num_planned=1) == (words)


def test_a_failure_without_a_reason_says_so() -> None:
    assert first_line(" \n") == "no reason given"


def show(*, is_terminal: bool, num_done: int = 0) -> str:
    clock = FakeClock()
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=is_terminal, width=120, no_color=True)
    run = make_run(plan=[EAGER, DEFAULT], environment={"device_name": "[cpu]"})
    with TerminalProgress(console, now=clock) as progress:
        progress(LogMessage(text="the [store] is locked", is_warning=True))
        progress(CaseStarted(case=EAGER))
        progress(RunStarted(run=run, num_done=num_done))
        if not num_done:
            progress(CaseStarted(case=EAGER))
            progress(CaseFinished(result=took(EAGER, 10.0)))
        progress(CaseStarted(case=DEFAULT))
        clock.advance(20.0)
        progress(CaseFinished(result=took(DEFAULT, 10.0)))
        ended = make_run(state="finished", finished_at=clock())
        # Its results go to the store before anybody is told.
        clock.advance(5.0)
        progress(RunEnded(run=ended))
    return stream.getvalue()


def test_without_a_terminal_there_are_plain_lines(words: SnapshotAssertion) -> None:
    assert show(is_terminal=False).splitlines() == words


def test_on_a_terminal_there_is_a_bar_with_the_time_left() -> None:
    assert "about 0:10 left" in show(is_terminal=True)


@pytest.mark.parametrize(("number", "text"), [(1, "1 pair of"), (2, "2 pairs of")])
def test_pairs_of_launches_are_counted_next_to_the_bar(number: int, text: str) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, no_color=True)
    with TerminalProgress(console, now=FakeClock()) as progress:
        progress(RunStarted(run=make_run(plan=[DEFAULT]), num_done=0))
        progress(PairLaunched(case=DEFAULT, num_pairs=number))
    assert f"bert default, {text} launches" in stream.getvalue()


def test_a_resumed_run_counts_what_was_before(words: SnapshotAssertion) -> None:
    lines = show(is_terminal=False, num_done=1).splitlines()
    assert lines[1] == words
    assert lines[2].startswith("[2/2] bert default")


def test_runs_in_turn_are_distinguished_and_share_one_bar(words: SnapshotAssertion) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, no_color=True)
    clock = FakeClock()
    runs = [make_run(name, plan=[EAGER, DEFAULT], environment={}) for name in ("a", "b")]
    with TerminalProgress(console, now=clock) as progress:
        for run in runs:
            progress(RunStarted(run=run, num_done=0, label=f"torch {run.id}"))
        progress(CaseStarted(case=EAGER))
        for run in runs:
            progress(CaseFinished(result=make_result(run=run, case=EAGER)))
        progress(CaseStarted(case=DEFAULT))
        for run in runs:
            progress(RunEnded(run=make_run(run.id, state="finished")))
    text = stream.getvalue()
    assert "run a (torch a): 2 cases" in text
    assert "run b (torch b): 2 cases" in text
    # Which lines the bar draws between them depends on the clock of the console.
    lines = (line.removeprefix("\x1b[2K") for line in text.splitlines())
    assert [line.strip() for line in lines if line.startswith(("[1/2]", "run b"))] == words
    # One case of two is over, and one of ten seconds is left.
    assert "1/2 about 0:10 left" in text


def test_the_next_run_of_one_program_counts_for_itself() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=False, width=120)
    with TerminalProgress(console, now=FakeClock()) as progress:
        for run, cases in ((make_run("a", plan=[EAGER]), 1), (make_run("b", plan=[EAGER] * 3), 3)):
            progress(RunStarted(run=run, num_done=cases - 1))
            progress(CaseFinished(result=make_result(run=run, case=EAGER)))
            progress(RunEnded(run=make_run(run.id, state="finished")))
    counts = [line[:5] for line in stream.getvalue().splitlines() if line.startswith("[")]
    assert counts == ["[1/1]", "[3/3]"]


class Failing(io.StringIO):
    """A stream to which nothing can be written."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def write(self, _text: str) -> int:
        raise OSError(self.number, "it failed")


def test_a_log_on_a_full_disk_does_not_end_what_it_tells_of() -> None:
    event = LogMessage(text="the disk is full")
    TerminalProgress(Console(file=Failing(errno.ENOSPC)), now=FakeClock())(event)
    with pytest.raises(OSError, match="it failed"):
        TerminalProgress(Console(file=Failing(errno.EIO)), now=FakeClock())(event)

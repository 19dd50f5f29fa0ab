"""The alert changes that fail a run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Case, Outcome, RunDocument, Verdict
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.cli.run import command as run_command
from compile_hud.runner.cli.run.after_run import not_the_machines, regressions_of
from compile_hud.runner.cli.run.command import print_results, warning_text
from tests.support.builders import make_alert, make_case, make_measurement, make_result, make_run

RUN = make_run(machine="box", toolchain="stable")


def test_a_step_is_reported_by_the_run_that_makes_it_significant() -> None:
    alert = make_alert(machine="box")
    assert regressions_of(RUN, [alert]) == [alert]


def test_other_machines_other_toolchains_and_improvements_fail_no_run() -> None:
    others = [
        make_alert(verdict=Verdict.IMPROVEMENT),
        make_alert(machine="other"),
        make_alert(toolchain="nightly"),
    ]
    assert regressions_of(RUN, others) == []


def test_what_the_machine_did_fails_no_run() -> None:
    ours, its = make_alert(cause_kind="compiler"), make_alert(cause_kind="machine")
    assert not_the_machines([its, ours]) == [ours]


LONG_MODE = "max-autotune-no-cudagraphs"
CASES = (make_case("bert", mode="default"), make_case("bert", mode=LONG_MODE))
NAMES = (
    *("model", "mode", "shape", "phase", "dtype", "outcome", "eager", "latency", "speedup"),
    *("peak memory", "compile warm", "compile cold"),
)


def printed(
    monkeypatch: pytest.MonkeyPatch,
    *,
    width: int,
    cases: tuple[Case, ...] = CASES,
    reason: str = "",
    is_terminal: bool = True,
) -> list[str]:
    """Return the lines of the table of a run of `cases`; they fail where there is a reason."""
    run = make_run(plan=cases)
    measurements = (make_measurement("compile_cold_s", samples=(31.5,)),)
    outcome = Outcome.FAILED if reason else Outcome.OK
    results = tuple(
        make_result(
            f"r{number}",
            run=run,
            case=case,
            outcome=outcome,
            reason=reason,
            measurements=() if reason else measurements,
        )
        for number, case in enumerate(cases)
    )
    output = io.StringIO()
    console = Console(file=output, width=width, force_terminal=is_terminal, color_system=None)
    monkeypatch.setattr(run_command, "stdout", lambda: console)
    print_results(RunDocument(run=run, results=results))
    return [line.rstrip() for line in output.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        (["eager over variant thread CPU time, round by round"] * 2, "speedup (CPU time): eager"),
        (["thread CPU time", "wall time"], "speedup (some in CPU time): eager"),
        (["eager over variant wall time, round by round"] * 2, "speedup: eager"),
    ],
)
def test_the_clock_of_the_speedups_is_reported(
    monkeypatch: pytest.MonkeyPatch, methods: list[str], text: str
) -> None:
    run = make_run(plan=CASES)
    results = tuple(
        make_result(
            f"r{number}",
            run=run,
            case=case,
            measurements=[make_measurement("speedup", samples=(1.5,), method=method)],
        )
        for number, (case, method) in enumerate(zip(CASES, methods, strict=True))
    )
    output = io.StringIO()
    monkeypatch.setattr(run_command, "stdout", lambda: Console(file=output, width=120))
    print_results(RunDocument(run=run, results=results))
    *_, last = output.getvalue().splitlines()
    assert last.startswith(text)


WALL_AND_CPU = {"latency_s": 0.02, "latency_cpu_s": 0.004}


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ([WALL_AND_CPU, WALL_AND_CPU], ["latency (CPU time)", "4.00 ms", "4.00 ms"]),
        ([WALL_AND_CPU, {"latency_s": 0.02}], ["latency (some in CPU time)", "4.00 ms", "20.0 ms"]),
        ([{"latency_s": 0.02}] * 2, ["latency ", "20.0 ms", "20.0 ms"]),
    ],
)
@pytest.mark.parametrize("speedup", [{}, {"speedup": 1.5}])
def test_the_clock_of_the_latencies_does_not_depend_on_speedups(
    monkeypatch: pytest.MonkeyPatch,
    times: list[dict[str, float]],
    shown: list[str],
    speedup: dict[str, float],
) -> None:
    run = make_run(plan=CASES)
    results = tuple(
        make_result(
            f"r{number}",
            run=run,
            case=case,
            measurements=[
                make_measurement(name, samples=(value,), method="thread CPU time")
                for name, value in {**own, **speedup}.items()
            ],
        )
        for number, (case, own) in enumerate(zip(CASES, times, strict=True))
    )
    output = io.StringIO()
    monkeypatch.setattr(run_command, "stdout", lambda: Console(file=output, width=200))
    print_results(RunDocument(run=run, results=results))
    lines = output.getvalue().splitlines()
    assert all(text in line for text, line in zip(shown, lines, strict=False))


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        (WALL_AND_CPU, "CPU time: ref_gemm 4.00 ms"),
        ({"latency_s": 0.02}, "wall time: ref_gemm 20."),
    ],
)
def test_reference_cases_have_the_clock_of_the_results(
    monkeypatch: pytest.MonkeyPatch, times: dict[str, float], shown: str
) -> None:
    case = make_case("ref_gemm", family="reference", mode="eager")
    run = make_run(plan=(case,))
    measured = [make_measurement(name, samples=(value,)) for name, value in times.items()]
    output = io.StringIO()
    monkeypatch.setattr(run_command, "stdout", lambda: Console(file=output, width=200))
    result = make_result(run=run, case=case, measurements=measured)
    print_results(RunDocument(run=run, results=(result,)))
    assert shown in output.getvalue()


@pytest.mark.parametrize("width", [160, 100])
def test_row_whose_eager_time_differs_from_that_of_eagers_own_process_says_so(
    monkeypatch: pytest.MonkeyPatch, width: int, words: SnapshotAssertion
) -> None:
    cases = (make_case("gan", mode="eager"), make_case("gan", mode="default"))
    run = make_run(plan=cases)
    times = (
        {"latency_s": 0.00372},
        {"eager_latency_s": 0.0051, "latency_s": 0.004, "speedup": 1.3},
    )
    results = tuple(
        make_result(
            f"r{number}",
            run=run,
            case=case,
            measurements=[
                make_measurement(name, samples=(0.99 * value, value, 1.01 * value))
                for name, value in own.items()
            ],
        )
        for number, (case, own) in enumerate(zip(cases, times, strict=True))
    )
    output = io.StringIO()
    console = Console(file=output, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(run_command, "stdout", lambda: console)
    print_results(RunDocument(run=run, results=results))
    assert output.getvalue().splitlines() == words


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (163, ()),
        (162, ("shape",)),
        (155, ("shape", "phase")),
        (144, ("shape", "phase", "dtype")),
        (107, ("shape", "phase", "dtype", "peak memory")),
        (94, ("shape", "phase", "dtype", "peak memory", "compile warm")),
        (80, ("shape", "phase", "dtype", "peak memory", "compile warm", "compile cold")),
        (60, ("shape", "phase", "dtype", "eager", "peak memory", "compile warm", "compile cold")),
    ],
)
def test_a_narrow_terminal_leaves_columns_out(
    monkeypatch: pytest.MonkeyPatch, width: int, left_out: tuple[str, ...]
) -> None:
    lines = printed(monkeypatch, width=width)
    assert [name for name in NAMES if name not in lines[0]] == list(left_out)


def test_intervals_are_left_out_before_other_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    wide, narrow = (printed(monkeypatch, width=width)[0] for width in (138, 137))
    assert (wide.count("95 % interval"), narrow.count("95 % interval")) == (2, 0)
    assert "peak memory" in narrow


def test_nothing_is_folded_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, width=80)
    assert [line.split()[:3] for line in lines[1:]] == [
        ["bert", "default", "ok"],
        ["bert", LONG_MODE, "ok"],
    ]


def test_what_differs_between_rows_stays_before_what_is_of_least_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = (make_case("bert", mode=LONG_MODE), make_case("bert", phase="training"))
    header, *_ = printed(monkeypatch, width=80, cases=cases)
    assert [name for name in NAMES if name not in header] == [
        "shape",
        "dtype",
        "peak memory",
        "compile warm",
        "compile cold",
    ]


def test_a_mode_is_never_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, width=50)
    assert any(LONG_MODE in line for line in lines)


def test_a_long_reason_is_folded_before_a_column_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = printed(monkeypatch, width=200, reason="there is no such kernel " * 4)
    assert [name for name in NAMES if name not in lines[0]] == []
    assert len(lines) > 1 + len(CASES)


def test_no_end_of_a_reason_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, width=80, reason="0123456789" * 4)
    folded = "".join(line.split()[-1] for line in lines[1:])
    assert folded == "0123456789" * 8


def test_what_is_no_terminal_has_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, width=400, is_terminal=False)
    assert [name for name in NAMES if name not in lines[0]] == []


def test_warnings_are_counted_by_result_the_most_frequent_first(words: SnapshotAssertion) -> None:
    def warned(*codes: str) -> list[RunWarning]:
        return [RunWarning(code=code, text="t") for code in codes]

    results = [
        make_result("a", warnings=warned("drift", "bimodal")),
        make_result("b", warnings=warned("noisy-neighbour", "drift", "drift")),
        make_result("c"),
    ]
    assert warning_text(results) == words
    assert warning_text(results[:1]).startswith("warnings on 1 result: ")


def test_without_warnings_there_is_no_text() -> None:
    assert warning_text([make_result("a")]) == ""

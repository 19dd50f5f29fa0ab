"""`hud import` of commands that hyperfine measured."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from tests.support.records.tool_files import write_json
from tests.support.stores.imports import only_result, report_of, runs
from tests.support.terminal import Terminal


def command(text: str = "make -j 8", **fields: Any) -> dict[str, Any]:
    return {
        "command": text,
        "mean": 2.0,
        "stddev": None,
        "median": 2.1,
        "user": 1.25,
        "system": 0.5,
        "min": 1.9,
        "max": 2.2,
        "times": [1.9, 2.1, 2.2],
        "exit_codes": [0, 0, 0],
        **fields,
    }


def imported(terminal: Terminal, *commands: Any) -> Any:
    write_json(terminal.folder / "out.json", {"results": list(commands)})
    options = ("--at", "2026-01-07", "--revision", "f00d", "--machine", "lab")
    return report_of(terminal, "out.json", *options)


def test_times_of_a_command_are_samples(terminal: Terminal) -> None:
    peaks = [3_000_000, 3_100_000, 3_050_000]
    report = imported(
        terminal, command(parameters={"jobs": "8", "device": "cpu"}, memory_usage_byte=peaks)
    )
    assert (report["format"], report["unread"], report["skipped"]) == ("hyperfine", {}, {})
    (document,) = runs(terminal)
    assert (document.run.revision, document.run.machine) == ("f00d", "lab")
    (result,) = document.results
    assert (result.case.model, result.case.shape, result.case.device) == (
        "make -j 8",
        "jobs=8",
        "cpu",
    )
    samples = {item.metric: item.samples for item in result.measurements}
    assert samples == {
        "latency_s": (1.9, 2.1, 2.2),
        "peak_bytes": tuple(map(float, peaks)),
        "user_s": (1.25,),
        "system_s": (0.5,),
    }


@pytest.mark.parametrize(("code", "word"), [(1, "exit code 1"), (139, "139"), (None, "signal")])
def test_a_command_whose_runs_all_failed_has_no_number(
    terminal: Terminal, code: int | None, word: str
) -> None:
    imported(terminal, command(exit_codes=[code] * 3))
    result = only_result(terminal)
    assert (result.outcome, result.measurements) == (Outcome.FAILED, ())
    assert word in result.reason


def test_runs_that_failed_are_left_out_and_counted(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    document = {
        "results": [
            command("train", exit_codes=[0, 2, None], memory_usage_byte=[5, 6, 7]),
            command("eval", times=None, exit_codes=[]),
            command("plain", times=[0.5, "slow"], exit_codes=[0, 0], note="x"),
            {"command": "empty", "exit_codes": []},
        ],
        "system": {},
    }
    document["results"][1].pop("times")  # type: ignore[index]
    write_json(terminal.folder / "out.json", document)
    assert terminal.hud("import", "out.json", "--at", "2026-01-07").stdout == words
    (run,) = runs(terminal)
    samples = {
        (result.case.model, item.metric): item.samples
        for result in run.results
        for item in result.measurements
    }
    assert samples["train", "latency_s"] == (1.9,)
    assert samples["train", "peak_bytes"] == (5.0,)
    assert ("train", "user_s") not in samples
    assert samples["eval", "latency_s"] == (2.1,)
    assert samples["plain", "latency_s"] == (0.5,)


def test_a_failed_run_without_a_number_is_counted_once(terminal: Terminal) -> None:
    times, peaks = [0.75, None, 0.5], [9, None, 8]
    report = imported(
        terminal,
        command("lint", times=times, memory_usage_byte=peaks, exit_codes=[0, 3, 0]),
    )
    ((reason, count),) = report["skipped"].items()
    assert ("exit code 0" in reason, count) == (True, 1)
    samples = {item.metric: item.samples for item in only_result(terminal).measurements}
    assert (samples["latency_s"], samples["peak_bytes"]) == ((0.75, 0.5), (9.0, 8.0))


def test_equal_commands_with_other_parameters_are_other_cases(terminal: Terminal) -> None:
    names = [{"n": "1"}, {"n": "2"}, {"n": "2", "mode": "eager"}]
    imported(terminal, *(command("sort {n}", parameters=parameters) for parameters in names))
    (document,) = runs(terminal)
    assert [(item.case.shape, item.case.mode) for item in document.results] == [
        ("n=1", "unknown"),
        ("n=2", "unknown"),
        ("n=2", "eager"),
    ]


def test_files_one_after_the_other_are_launches(terminal: Terminal) -> None:
    write_json(terminal.folder / "one.json", {"results": [command(times=[1.0, 1.1])]})
    text = (terminal.folder / "one.json").read_text()
    (terminal.folder / "both.json").write_text(f"{text}\n{text.replace('1.1', '1.3')}\n")
    report = report_of(terminal, "both.json", "--at", "2026-01-07", "--format", "hyperfine")
    assert report["rows"] == 6
    (latency, *_) = only_result(terminal).measurements
    assert latency.launches == (2, 2)


@pytest.mark.parametrize("results", [{}, [3], [{"command": "x", "times": 3}]])
def test_results_of_another_form_are_an_error(terminal: Terminal, results: Any) -> None:
    write_json(terminal.folder / "out.json", {"results": results})
    done = terminal.hud("import", "out.json", "--format", "hyperfine")
    assert (done.exit_code, runs(terminal)) == (2, [])

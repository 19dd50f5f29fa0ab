"""`hud import` of the results of asv, of single files and of folders."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from tests.support.records.tool_files import asv_result, write_asv, write_json
from tests.support.records.v3_records import commit_of
from tests.support.stores.imports import only_result, report_of, runs
from tests.support.terminal import Terminal

SORT = "sorting.Suite.time_sort"
DESCRIBED = {
    SORT: {
        "name": SORT,
        "type": "time",
        "unit": "seconds",
        "version": "v1",
        "param_names": ["size", "mode"],
    },
    "quality.track_score": {
        "name": "quality.track_score",
        "type": "track",
        "unit": "points",
        "version": "v1",
        "param_names": [],
    },
}


def test_combinations_of_parameters_are_cases_of_the_commit(terminal: Terminal) -> None:
    nan = math.nan
    columns = {
        "result": [0.5, 0.25, None, nan],
        "params": [["100", "'big'"], ["'eager'", "'max-autotune'"]],
        "samples": [[0.4, 0.5, 0.6], None, None, None],
        "started_at": 1_790_000_000_000,
        "duration": 3.0,
    }
    write_asv(
        terminal.folder / "results", asv_result({SORT: columns}, night=2), benchmarks=DESCRIBED
    )
    report = report_of(terminal, "results")
    assert (report["format"], report["rows"], report["unread"]) == ("asv", 4, {})
    (document,) = runs(terminal)
    run = document.run
    assert run.started_at == datetime(2026, 1, 3, tzinfo=timezone.utc)
    assert (run.revision, run.machine, run.suite) == (commit_of(2), "elm", "asv")
    assert run.toolchain == "imported:virtualenv-py3.12"
    assert (run.environment["cpu_model"], run.environment["num_cpus"]) == ("Xeon", 16)
    assert run.environment["dependencies"] == {"numpy": "2.1"}
    cases = {(item.case.shape, item.case.mode): item for item in document.results}
    assert {key: item.outcome for key, item in cases.items()} == {
        ("size=100", "eager"): Outcome.OK,
        ("size=100", "max-autotune"): Outcome.OK,
        ("size=big", "eager"): Outcome.FAILED,
        ("size=big", "max-autotune"): Outcome.SKIPPED,
    }
    (latency,) = cases["size=100", "eager"].measurements
    assert (latency.metric, latency.samples) == ("latency_s", (0.4, 0.5, 0.6))


@pytest.mark.parametrize(
    ("name", "value", "metric", "unit"),
    [
        ("a.time_x", 0.5, "latency_s", "s"),
        ("a.B.timeraw_x", 0.5, "latency_s", "s"),
        ("a.peakmem_x", 4096, "peak_bytes", "B"),
        ("a.mem_x", 56, "mem", "B"),
        ("a.track_accuracy", 0.75, "accuracy", "1"),
        ("a.TimeSuite.odd", 2, "odd", "1"),
    ],
)
def test_without_benchmarks_json_the_name_says_what_is_measured(
    terminal: Terminal, name: str, value: float, metric: str, unit: str
) -> None:
    write_json(terminal.folder / "one.json", asv_result({name: {"result": [value]}}))
    report_of(terminal, "one.json")
    (measured,) = only_result(terminal).measurements
    assert (measured.metric, measured.unit, measured.median) == (metric, unit, value)


def test_a_tracked_number_has_the_unit_of_its_description(terminal: Terminal) -> None:
    result = asv_result({"quality.track_score": {"result": [7]}})
    write_asv(terminal.folder / "results", result, benchmarks=DESCRIBED)
    report_of(terminal, "results")
    (measured,) = only_result(terminal).measurements
    assert (measured.metric, measured.unit) == ("score", "points")


def test_a_failed_benchmark_fails_in_every_combination(terminal: Terminal) -> None:
    columns = {"result": None, "params": [["1", "2", "3"], ["x"]]}
    write_json(terminal.folder / "one.json", asv_result({"a.time_x": columns}))
    report_of(terminal, "one.json")
    (document,) = runs(terminal)
    assert [(item.outcome, item.case.shape) for item in document.results] == [
        (Outcome.FAILED, f"param1={number}-param2=x") for number in (1, 2, 3)
    ]


def test_results_of_an_older_version_of_a_benchmark_are_skipped(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    results = {
        SORT: {"result": [0.5], "version": "v0"},
        "quality.track_score": {"result": [7, 8], "params": [["1", "2", "3"]]},
        "gone.time_x": {"result": [0.5], "samples": [[0.5, "?"]], "version": "v9"},
    }
    folder = write_asv(
        terminal.folder / "results", asv_result(results, extra=1), benchmarks=DESCRIBED
    )
    (file,) = [path for path in folder.rglob("*.json") if "py3" in path.name]
    assert terminal.hud("import", str(file.relative_to(terminal.folder))).stdout == words
    (document,) = runs(terminal)
    assert {item.case.model for item in document.results} == {"quality.track_score", "gone.time_x"}


def test_machines_and_environments_are_histories_of_their_own(terminal: Terminal) -> None:
    documents = [
        asv_result(
            {"a.time_x": {"result": [0.1 * (1 + number)]}},
            night=night,
            machine=machine,
            environment=environment,
        )
        for number, (machine, environment) in enumerate(
            [("elm", "virtualenv-py3.12"), ("elm", "conda-py3.13"), ("fir", "conda-py3.13")]
        )
        for night in (0, 1)
    ]
    write_asv(terminal.folder / "results", *documents)
    terminal.json("import", "results", "--json")
    documents_of_runs = runs(terminal)
    assert len(documents_of_runs) == 6
    assert len({item.run.fingerprint for item in documents_of_runs}) == 3
    assert {item.run.toolchain for item in documents_of_runs} == {
        "imported:virtualenv-py3.12",
        "imported:conda-py3.13",
    }


def test_a_folder_twice_changes_nothing(terminal: Terminal) -> None:
    results = [asv_result({"a.time_x": {"result": [0.5]}}, night=night) for night in range(3)]
    write_asv(terminal.folder / "results", *results)
    assert terminal.hud("import", "results").exit_code == 0
    before = runs(terminal)
    assert terminal.hud("import", "results").exit_code == 0
    assert runs(terminal) == before
    assert len(before) == 3


@pytest.mark.parametrize("version", [1, None, "2"])
def test_another_version_of_the_format_is_an_error(
    terminal: Terminal, version: Any, words: SnapshotAssertion
) -> None:
    write_json(terminal.folder / "old.json", asv_result({}, version=version))
    done = terminal.hud("import", "old.json")
    assert (done.exit_code, done.stderr) == (2, words)

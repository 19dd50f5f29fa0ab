"""`hud import` of sessions of pytest-benchmark."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.runner.interop.importers.benchmark_tools.tool_reader import MAX_SAMPLES
from tests.support.records.tool_files import pytest_benchmark, pytest_session, write_json
from tests.support.records.v3_records import commit_of
from tests.support.stores.imports import only_result, report_of, runs
from tests.support.terminal import Terminal


def imported(terminal: Terminal, *benchmarks: dict[str, Any], **fields: Any) -> Any:
    write_json(terminal.folder / "session.json", pytest_session(*benchmarks, **fields))
    return report_of(terminal, "session.json")


def test_rounds_are_samples_of_the_run_that_the_session_describes(terminal: Terminal) -> None:
    report = imported(terminal, pytest_benchmark(rounds=[0.011, 0.013, 0.012, 0.040]))
    assert (report["format"], report["rows"], report["unread"]) == ("pytest-benchmark", 1, {})
    (document,) = runs(terminal)
    run, (result,) = document.run, document.results
    assert run.started_at == datetime(2026, 1, 4, 5, 6, 7, 250_000, tzinfo=timezone.utc)
    assert (run.revision, run.suite, run.machine) == (commit_of(3), "kernels", "oak")
    assert run.toolchain == "imported:kernels@main"
    assert run.environment["cpu_model"] == "Ampere Altra"
    assert (run.environment["num_cpus"], run.environment["python_minor"]) == (80, "3.12")
    assert result.case.model == "bench/test_ops.py::test_attention"
    (latency,) = result.measurements
    assert (latency.metric, latency.samples) == ("latency_s", (0.011, 0.013, 0.012, 0.040))
    assert latency.median == pytest.approx(0.0125)


def test_parameters_are_the_shape_and_those_of_torch_the_case(terminal: Terminal) -> None:
    imported(
        terminal,
        pytest_benchmark(
            "test_mlp[256-reduce-overhead-float16-cuda:1]",
            params={
                "width": 256,
                "mode": "reduce-overhead",
                "dtype": "torch.float16",
                "device": "cuda:1",
                "benchmark_mode": "train",
            },
            param="256-reduce-overhead-float16-cuda:1",
        ),
    )
    case = only_result(terminal).case
    assert (case.model, case.shape) == ("bench/test_ops.py::test_mlp", "width=256")
    assert (case.mode, case.variant, case.dtype) == ("reduce-overhead",) * 2 + (Dtype.FP16,)
    assert (case.device, case.phase) == ("cuda", Phase.TRAINING)


@pytest.mark.parametrize(
    ("fields", "mode", "shape"),
    [
        ({"params": {"compiled": True, "n": 3}, "param": "True-3"}, "default", "n=3"),
        ({"params": {"compile": False}, "param": "False"}, "eager", "default"),
        # No mode of torch.compile, and a path in place of a dtype: the benchmark's own parameters.
        ({"params": {"mode": "same", "dtype": "a/b"}}, "unknown", "mode=same-dtype=a_b"),
        ({"params": {"config": {"layers": 4}}, "param": "config0"}, "unknown", "config0"),
        ({"params": None, "param": "small"}, "unknown", "small"),
    ],
)
def test_other_parameters_stay_in_the_shape(
    terminal: Terminal, fields: dict[str, Any], mode: str, shape: str
) -> None:
    imported(terminal, pytest_benchmark(**fields))
    case = only_result(terminal).case
    assert (case.mode, case.shape) == (mode, shape)


def test_without_rounds_their_median_counts_and_a_line_says_so(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    write_json(
        terminal.folder / "saved.json",
        pytest_session(
            pytest_benchmark("test_a", median=0.004),
            pytest_benchmark("test_b", rounds=[0.25, "n/a", 0.75]),
            pytest_benchmark("test_c", median=None),
            pytest_benchmark("test_d", rounds=[0.5] * (2 * MAX_SAMPLES)),
            pytest_benchmark("test_e", cprofile=[1], extra_info={"tokens_per_s": 900, "by": "me"}),
        ),
    )
    assert terminal.hud("import", "saved.json").stdout == words
    (document,) = runs(terminal)
    by_name = {result.case.model.rpartition("_")[2]: result for result in document.results}
    samples = {
        name: {item.metric: item.samples for item in result.measurements}
        for name, result in by_name.items()
    }
    assert samples["a"] == {"latency_s": (0.004,)}
    assert samples["b"] == {"latency_s": (0.25, 0.75)}
    assert len(samples["d"]["latency_s"]) == MAX_SAMPLES
    assert samples["e"] == {"latency_s": (0.5,), "tokens_per_s": (900.0,)}
    assert set(by_name) == {"a", "b", "d", "e"}


def test_sessions_one_after_the_other_in_a_file_are_launches_of_one_run(terminal: Terminal) -> None:
    sessions = [
        pytest_session(pytest_benchmark(rounds=rounds), datetime=f"2026-01-04T05:{minute}:00")
        for minute, rounds in ((10, [0.5, 0.6]), (20, [0.7, 0.8, 0.9]))
    ]
    write_json(terminal.folder / "sessions.json", sessions)
    assert report_of(terminal, "sessions.json")["runs"] == 1
    (latency,) = only_result(terminal).measurements
    assert latency.launches == (2, 3)


@pytest.mark.parametrize(
    ("commit", "revision"),
    [
        ({"id": "unversioned"}, "given"),
        ({"id": "unknown", "error": "no git"}, "given"),
        ({}, "given"),
        ({"id": "0f1e", "dirty": True, "branch": "(detached head)"}, "0f1e+dirty"),
    ],
)
def test_a_session_without_a_commit_takes_the_given_revision(
    terminal: Terminal, commit: dict[str, Any], revision: str
) -> None:
    session = pytest_session(pytest_benchmark(), commit_info=commit)
    write_json(terminal.folder / "session.json", session)
    report_of(terminal, "session.json", "--revision", "given", "--machine", "pool")
    (document,) = runs(terminal)
    assert (document.run.revision, document.run.machine) == (revision, "pool")
    assert document.run.toolchain == "imported:unknown"


@pytest.mark.parametrize(
    "fields", [{"datetime": "yesterday"}, {"benchmarks": {}}, {"benchmarks": [3]}, {"datetime": 5}]
)
def test_a_session_of_another_form_is_an_error_of_the_file(
    terminal: Terminal, fields: dict[str, Any]
) -> None:
    session = pytest_session(**fields)
    (terminal.folder / "session.json").write_text(f"\n{json.dumps(session)}")
    done = terminal.hud("import", "session.json")
    assert done.exit_code == 2
    assert "session.json:2: " in done.stderr
    assert runs(terminal) == []


def test_a_session_may_be_larger_than_any_record(terminal: Terminal) -> None:
    rounds = [0.5] * 200
    benchmark = pytest_benchmark(rounds=rounds, extra_info={"log": "x" * (17 << 20)})
    assert imported(terminal, benchmark)["rows"] == 1
    text = (terminal.folder / "session.json").read_text()
    (terminal.folder / "cut.json").write_text(text[: len(text) // 2])
    done = terminal.hud("import", "cut.json")
    assert (done.exit_code, "cut off" in done.stderr) == (2, True)

"""The kernels of a case result come from the trace that its first launch left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compile_hud.db.records.graphs.host_times import HOST_TIMES
from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.execution.kernel_profile import store_trace, with_kernels
from compile_hud.runner.protocol.messages import notes_path
from tests.support.builders import make_measurement, make_result

CODE = "void kernel() {}"


def event(name: str, *, start_us: float, duration_us: float, category: str) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": start_us,
        "dur": duration_us,
        "args": {},
    }


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of two iterations of 100 us: a kernel of 30 us, an operator of 20."""
    path = tmp_path / "case" / "trace.json.gz"
    path.parent.mkdir()
    events = []
    for start in (0.0, 1000.0):
        events += [
            event("hud/iteration", start_us=start, duration_us=100, category="user_annotation"),
            event("cpp_fused_add_0", start_us=start + 10, duration_us=30, category="cpu_op"),
            event("aten::mm", start_us=start + 50, duration_us=20, category="cpu_op"),
        ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")
    kernel = {
        "language": "cpp",
        "source": CODE,
        "num_bytes": 60.0,
        "origins": [{"node": "add", "module": "layers.0"}],
    }
    notes = {
        "schema_version": 1,
        "device": "cpu",
        "num_iterations": 2,
        "kernels": {"cpp_fused_add_0": kernel},
    }
    notes_path(path).write_text(json.dumps(notes), encoding="utf-8")
    return path


@pytest.fixture
def result() -> CaseResult:
    return make_result(measurements=(make_measurement("latency_s", samples=[90e-6]),))


def test_a_result_gets_its_kernels_their_code_and_their_number(
    result: CaseResult, trace: Path
) -> None:
    profiled = with_kernels(result, trace=trace, peaks={"copy_bytes_per_s": 4e6, "reason": "text"})
    first, second = profiled.kernels
    assert (first.label, first.count, first.total_s) == ("cpp_fused_add", 1.0, pytest.approx(30e-6))
    # 60 bytes in 30 us are half of what the device was measured to copy.
    assert first.roofline == pytest.approx(0.5)
    assert [source.text for source in profiled.sources] == [CODE]
    assert second.name == "aten::mm"
    count = profiled.measurement("num_kernels")
    assert count is not None
    assert count.samples == (2.0,)


def test_the_look_ups_of_an_iteration_are_its_guard_check(result: CaseResult, trace: Path) -> None:
    assert with_kernels(result, trace=trace, peaks={}).measurement("guard_s") is None
    document = json.loads(trace.read_text(encoding="utf-8"))
    # The last one is between the iterations.
    for start, duration in ((5.0, 3.0), (60.0, 4.5), (1040.0, 6.0), (500.0, 9.0)):
        document["traceEvents"].append(
            event(
                "TorchDynamo Cache Lookup",
                start_us=start,
                duration_us=duration,
                category="cpu_op",
            )
        )
    trace.write_text(json.dumps(document), encoding="utf-8")
    guard = with_kernels(result, trace=trace, peaks={}).measurement("guard_s")
    assert guard is not None
    assert guard.samples == pytest.approx((7.5e-6, 6e-6))
    assert guard.median == pytest.approx(6.75e-6)
    assert guard.launches == (2,)


def test_a_profile_agrees_with_its_samples(result: CaseResult, trace: Path) -> None:
    profile = with_kernels(result, trace=trace, peaks={}).details["profile"]
    assert profile["latency_s"] == 90e-6
    assert profile["iteration_s"] == pytest.approx(100e-6)
    assert sum(profile["parts"].values()) == pytest.approx(100e-6)
    assert profile["trace"] == f"{result.id}.json.gz"


def test_a_result_without_a_trace_stays_as_it_is(result: CaseResult, tmp_path: Path) -> None:
    assert with_kernels(result, trace=tmp_path / "trace.json.gz", peaks={}) is result


def test_a_failed_case_has_no_kernels(trace: Path) -> None:
    failed = make_result(outcome=Outcome.FAILED, measurements=())
    assert with_kernels(failed, trace=trace, peaks={}) is failed


@pytest.mark.parametrize("which", ["trace", "notes"])
def test_a_broken_file_costs_the_kernels_and_has_a_reason(
    which: str, result: CaseResult, trace: Path
) -> None:
    path = trace if which == "trace" else notes_path(trace)
    path.write_text(path.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    profiled = with_kernels(result, trace=trace, peaks={})
    (warning,) = profiled.warnings
    assert warning.code == "no-kernels"
    assert path.name in warning.text
    assert replace(profiled, warnings=()) == replace(result, warnings=())


def test_a_trace_is_left_where_its_result_waits(
    result: CaseResult, trace: Path, tmp_path: Path
) -> None:
    profiled = with_kernels(result, trace=trace, peaks={})
    assert store_trace(profiled, trace=trace, folder=tmp_path / "spool") == profiled
    left = tmp_path / "spool" / f"{result.id}.json.gz"
    assert left.read_bytes() == trace.read_bytes()


def test_a_result_of_more_launches_has_the_kernels_and_the_trace_of_the_one_before(
    result: CaseResult, trace: Path, tmp_path: Path
) -> None:
    looks = []
    for _ in range(2):
        profiled = with_kernels(result, trace=trace, peaks={})
        looks.append(store_trace(profiled, trace=trace, folder=tmp_path / "spool"))
    assert looks[0] == looks[1]
    assert [path.name for path in (tmp_path / "spool").iterdir()] == [f"{result.id}.json.gz"]


def test_a_trace_that_cannot_be_left_costs_only_itself(
    result: CaseResult, trace: Path, tmp_path: Path
) -> None:
    (tmp_path / "spool").write_text("no folder")
    profiled = with_kernels(result, trace=trace, peaks={})
    path = store_trace(profiled, trace=trace, folder=tmp_path / "spool")
    assert path.details["profile"]["trace"] == ""
    assert path.kernels == profiled.kernels


def test_a_result_without_kernels_leaves_no_trace(result: CaseResult, tmp_path: Path) -> None:
    assert store_trace(result, trace=tmp_path / "none", folder=tmp_path / "spool") is result
    assert not (tmp_path / "spool").exists()


def test_a_trace_says_what_runs_between_two_graphs_of_a_call(
    result: CaseResult, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json.gz"
    host = "cpu_op"
    graph = "## Call CompiledFxGraph f7 ##"
    rows = [
        ("hud/iteration", 0, 200, "user_annotation"),
        ("TorchDynamo Cache Lookup", 2, 5, host),
        ("Torch-Compiled Region: 0/0", 10, 90, host),
        (graph, 15, 20, "user_annotation"),
        ("aten::mm", 20, 10, host),
        # Between both graphs: an operator with a kernel, one without, and the guards.
        ("aten::addmm", 40, 12, host),
        ("aten::as_strided", 42, 3, host),
        ("TorchDynamo Cache Lookup", 60, 4, host),
        (graph, 70, 20, "user_annotation"),
        # A call of another region is no gap of the first one.
        ("aten::mul", 105, 9, host),
        ("Torch-Compiled Region: 2/0", 120, 40, host),
        (graph, 125, 20, "user_annotation"),
    ]
    events = [
        event(name, start_us=1000 * number + start, duration_us=duration, category=category)
        for number in range(2)
        for name, start, duration, category in rows
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")
    notes = {"schema_version": 1, "device": "cpu", "num_iterations": 2, "kernels": {}}
    notes_path(path).write_text(json.dumps(notes), encoding="utf-8")
    measured = {"num_gaps": 1, "gaps_s": [4e-5], "fallbacks": []}
    timed = with_kernels(
        replace(result, details={HOST_TIMES: measured}), trace=path, peaks={}
    ).details[HOST_TIMES]
    assert timed["gap_operators_s"] == pytest.approx([9e-6, 9e-6])
    assert timed["gap_guards_s"] == pytest.approx([4e-6, 4e-6])
    assert timed["gaps_s"] == [4e-5]
    # Nothing was measured without the profiler: then the trace has no use for it.
    assert HOST_TIMES not in with_kernels(result, trace=path, peaks={}).details

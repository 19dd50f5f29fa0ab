"""`hud import` of the JSON of Google Benchmark."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from tests.support.records.tool_files import (
    google_aggregate,
    google_context,
    google_entry,
    write_json,
)
from tests.support.stores.imports import only_result, report_of, runs
from tests.support.terminal import Terminal


def imported(terminal: Terminal, *entries: Any, **context: Any) -> Any:
    document = {"context": google_context(**context), "benchmarks": list(entries)}
    write_json(terminal.folder / "out.json", document)
    return report_of(terminal, "out.json")


def samples(terminal: Terminal) -> dict[str, tuple[float, ...]]:
    return {item.metric: item.samples for item in only_result(terminal).measurements}


def test_repetitions_are_samples_of_wall_and_cpu_time(terminal: Terminal) -> None:
    report = imported(
        terminal,
        google_entry("BM_Gemm/64/threads:2", 8.0, bytes_per_second=2e9, hits=3),
        google_entry("BM_Gemm/64/threads:2", 6.0, bytes_per_second=3e9, hits=5),
        google_aggregate("BM_Gemm/64/threads:2", "mean", 7.0),
        commit="abc1",
        branch="dev",
        flavour="asan",
    )
    assert report["format"] == "google-benchmark"
    assert set(report["unread"].values()) == {1}
    assert "the field context.flavour" in report["unread"]
    (document,) = runs(terminal)
    run = document.run
    assert run.started_at == datetime(2026, 1, 5, 18, 30, tzinfo=timezone.utc)
    assert (run.suite, run.machine, run.revision) == ("bench_gemm", "birch", "abc1")
    assert run.toolchain == "imported:dev"
    assert (document.results[0].case.model, document.results[0].case.shape) == (
        "BM_Gemm",
        "64-threads=2",
    )
    assert samples(terminal) == {
        "latency_s": pytest.approx((8e-6, 6e-6)),
        "latency_cpu_s": pytest.approx((4e-6, 3e-6)),
        "bandwidth_bytes_per_s": (2e9, 3e9),
        "hits": (3.0, 5.0),
    }


@pytest.mark.parametrize(
    ("name", "model", "shape"),
    [
        ("BM_Plain", "BM_Plain", "default"),
        ("Fixture/Method/8/16", "Fixture/Method", "8-16"),
        ("BM_Vec<std::pair<int, float>>/m:3/-5", "BM_Vec<std::pair<int, float>>", "m=3--5"),
        ("BM_Timed/4/min_time:2.000/repeats:9/real_time", "BM_Timed", "4-real_time"),
        ("BM_Cap/case_a/iterations:10", "BM_Cap/case_a", "default"),
        ("BM_Fit/dtype:bf16/device:cuda/7", "BM_Fit", "7"),
    ],
)
def test_arguments_in_a_name_are_the_shape(
    terminal: Terminal, name: str, model: str, shape: str
) -> None:
    imported(terminal, google_entry(name, 2.5))
    case = only_result(terminal).case
    assert (case.model, case.shape) == (model, shape)


@pytest.mark.parametrize(
    ("unit", "seconds"), [("ns", 4e-9), ("us", 4e-6), ("ms", 4e-3), ("s", 4.0)]
)
def test_times_are_in_their_unit(terminal: Terminal, unit: str, seconds: float) -> None:
    imported(terminal, google_entry("BM_X", 4.0, time_unit=unit))
    assert samples(terminal)["latency_s"] == pytest.approx((seconds,))


@pytest.mark.parametrize(
    ("kinds", "seconds"),
    [(("mean", "median", "stddev", "cv"), 11e-6), (("stddev", "mean"), 11e-6), (("max",), None)],
)
def test_a_file_of_aggregates_alone_has_their_median(
    terminal: Terminal, kinds: tuple[str, ...], seconds: float | None
) -> None:
    values = dict.fromkeys(kinds, 1.0)
    chosen = next((kind for kind in ("median", "mean") if kind in kinds), "")
    entries = [
        google_aggregate("BM_Sum/9", kind, 11.0 if kind == chosen else value)
        for kind, value in values.items()
    ]
    entries.append(google_entry("BM_Other", 3.0))
    imported(terminal, *entries)
    (document,) = runs(terminal)
    latencies = {
        item.case.model: measured.median
        for item in document.results
        if (measured := item.measurement("latency_s"))
    }
    assert latencies.get("BM_Sum") == (None if seconds is None else pytest.approx(seconds))


def test_versions_before_run_types_are_read_by_their_names(terminal: Terminal) -> None:
    old = [
        {"name": name, "iterations": 5, "real_time": time, "cpu_time": time, "time_unit": "ms"}
        for name, time in (("BM_Old/3", 7.0), ("BM_Old/3_mean", 7.0), ("BM_Old/3_stddev", 0.1))
    ]
    imported(terminal, *old, date="2026/01/05-03:04:05")
    assert samples(terminal)["latency_s"] == (0.007,)
    assert runs(terminal)[0].run.started_at.hour == 3


def test_failures_and_values_without_a_number_are_distinct(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    nan = float("nan")
    document = {
        "context": google_context(),
        "benchmarks": [
            google_entry("BM_Err", 0.0, error_occurred=True, error_message="CUDA error"),
            google_entry("BM_Skip", 0.0, skipped=True, skip_message="no GPU"),
            google_entry("BM_Half", 0.0, error_occurred=True, error_message="once"),
            google_entry("BM_Half", 5.0, ratio=nan, label="v2"),
            google_aggregate("BM_Fit", "BigO", 0.0, big_o="N"),
            {"name": "BM_None", "run_type": "iteration"},
        ],
        "notes": 1,
    }
    write_json(terminal.folder / "out.json", document)
    assert terminal.hud("import", "out.json").stdout == words
    (run,) = runs(terminal)
    outcomes = {result.case.model: (result.outcome, result.reason) for result in run.results}
    assert outcomes == {
        "BM_Err": (Outcome.FAILED, "CUDA error"),
        "BM_Skip": (Outcome.SKIPPED, "no GPU"),
        "BM_Half": (Outcome.OK, ""),
    }


def test_other_caches_and_a_debug_build_are_other_hardware(terminal: Terminal) -> None:
    contexts = [
        {},
        {"host_name": "larch"},
        {"caches": [{"type": "Unified", "level": 3, "size": 1024}]},
        {"library_build_type": "debug"},
    ]
    prints = []
    for number, context in enumerate(contexts):
        document = {
            "context": google_context(**context),
            "benchmarks": [google_entry("BM_X", 2.0 + number)],
        }
        write_json(terminal.folder / f"{number}.json", document)
        report_of(terminal, f"{number}.json")
    prints = [item.run.fingerprint for item in runs(terminal)]
    assert len(prints) == 4
    assert len(set(prints)) == 3


def test_a_file_whose_fields_were_sorted_is_known(terminal: Terminal) -> None:
    entry = dict(sorted(google_entry("BM_S", 2.0).items()))
    document = {"benchmarks": [entry], "context": google_context()}
    write_json(terminal.folder / "sorted.json", document)
    assert report_of(terminal, "sorted.json")["format"] == "google-benchmark"

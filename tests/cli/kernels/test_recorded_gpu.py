"""A result that `hud run` recorded on an NVIDIA H200, read by today's code."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.analysis.stats.launch_noise import launch_spread
from compile_hud.runner.cli.main import main
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces.profile import KernelReport, read_kernels

FIXTURES = Path(__file__).parents[2] / "fixtures"
DOCUMENT = FIXTURES / "h200.json.gz"
# The spread between launches on a GPU that was assumed when the document was recorded.
RECORDED_PRIOR_SD = 0.02
TRACE = FIXTURES / "traces" / "compiled_h200.json.gz"
RUN = "3ccc965334a2"
BERT = f"{RUN}:bert/inference/full/bf16"
NUM_ITERATIONS = 10
GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return the result document of the run."""
    content: dict[str, Any] = json.loads(gzip.decompress(DOCUMENT.read_bytes()))
    return content


@pytest.fixture(scope="module")
def report(document: dict[str, Any]) -> KernelReport:
    """Return what the reader says of the trace."""
    peaks = document["run"]["environment"]["peaks"]
    return read_kernels(TRACE, notes=KernelNotes(), latency_s=None, peaks=peaks)


def events() -> list[dict[str, Any]]:
    """Return the work of the GPU as the trace has it."""
    trace = json.loads(gzip.decompress(TRACE.read_bytes()))
    return [event for event in trace["traceEvents"] if event.get("cat") in GPU_WORK]


def test_time_and_calls_of_each_kernel_are_those_of_its_events(report: KernelReport) -> None:
    us: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for kernel in report.kernels:
        us[kernel.name] += kernel.total_s * 1e6 * NUM_ITERATIONS
        calls[kernel.name] += kernel.count * NUM_ITERATIONS
    whole_us: Counter[str] = Counter()
    for event in events():
        whole_us[event["name"]] += event["dur"]
    # The profiler warms up for one iteration, whose kernels may be in the trace as well.
    assert set(us) == set(whole_us)
    for name, time_us in whole_us.items():
        assert time_us * 0.9 < us[name] * 1.001
        assert us[name] < time_us * 1.001
    assert sum(calls.values()) == 211 * NUM_ITERATIONS


def test_the_parts_of_an_iteration_of_a_gpu_add_up(report: KernelReport) -> None:
    profile = report.profile
    assert profile.num_iterations == NUM_ITERATIONS
    assert sum(profile.components.values()) == pytest.approx(profile.iteration_s, rel=1e-9)
    assert not profile.is_graph_replay


def test_no_kernel_of_a_gpu_beats_what_the_device_can_do(report: KernelReport) -> None:
    products = {
        kernel.label: kernel.roofline
        for kernel in report.kernels
        if kernel.kind == "gemm" and kernel.roofline is not None
    }
    assert len(products) == 4
    # Large products of bf16 come near it, those of fp32 on plain cores too.
    assert 0.5 < min(products.values()) <= max(products.values()) < 1.0


def test_intervals_are_those_of_the_samples_and_the_prior_of_then(document: dict[str, Any]) -> None:
    for result in document["results"]:
        measurements = {item["metric"]: item for item in result["measurements"]}
        low, high = measurements["latency_s"]["interval"]
        throughput = measurements["throughput_samples_per_s"]
        num_samples = round(measurements["latency_s"]["samples"][0] * throughput["samples"][0])
        expected = [num_samples / high, num_samples / low]
        # The mean of two samples in the middle has another inverse than they.
        assert throughput["interval"] == pytest.approx(expected, rel=1e-4)
        for name in ("latency_s", "throughput_samples_per_s", "eager_latency_s"):
            if item := measurements.get(name):
                prior = replace(launch_spread(name, device="cuda"), sd=RECORDED_PRIOR_SD)
                again = estimate(item["samples"], launches=item["launches"], prior=prior)
                assert item["interval"] == pytest.approx([again.low, again.high])


@pytest.mark.parametrize(
    ("variant", "busy", "recorded", "idle"),
    [("eager", "86.2 %", "31.3 %", "864 us"), ("default", "92.9 %", "89.3 %", "730 us")],
)
def test_the_busy_share_of_a_device_fits_the_latency(
    variant: str, busy: str, recorded: str, idle: str, tmp_path: Path
) -> None:
    runner = CliRunner()
    store = ["--store", f"duckdb:///{tmp_path}/store.duckdb"]
    assert runner.invoke(main, ["ingest", *store, str(DOCUMENT)]).exit_code == 0
    arguments = ["kernels", *store, RUN, f"bert/inference/full/bf16/{variant}/cuda"]
    output = runner.invoke(main, arguments).output
    assert f"busy {busy} ({recorded} under the profiler)" in output
    assert re.search(rf"^idle +{idle} +", output, flags=re.MULTILINE)
    profile = json.loads(runner.invoke(main, [*arguments, "--json"]).output)["profile"]
    assert f"{profile['busy']:.1%}" == recorded.replace(" ", "")
    assert f"{profile['busy_without_profiler']:.1%}" == busy.replace(" ", "")
    assert sum(profile["parts"].values()) == pytest.approx(profile["iteration_s"])
    busy_s = sum(profile["parts_without_profiler"].values())
    assert busy_s == pytest.approx(profile["latency_s"])


def test_a_recorded_run_reports_by_its_kernels_why_it_is_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    # The clock of the machine that runs the tests is not what is tested.
    monkeypatch.setattr("compile_hud.runner.files.json_files.MAX_AHEAD", timedelta(days=36_500))
    runner = CliRunner()
    store = ["--store", f"duckdb:///{tmp_path}/store.duckdb"]
    assert runner.invoke(main, ["ingest", *store, str(DOCUMENT)]).exit_code == 0
    output = runner.invoke(main, ["show", RUN, *store]).output
    assert "NVIDIA H200" in output
    assert re.search(r"10\.3 ms  .*  0\.64x", output)
    arguments = ["kernels", "diff", "--json", *store, f"{BERT}/eager", f"{BERT}/default"]
    result = runner.invoke(main, arguments)
    assert result.exit_code == 0, result.output
    diff = json.loads(result.output)
    # Under the profiler eager took three times as long, all of it gaps.
    assert (diff["unexplained_us"], diff["unexplained"]) == (0.0, "")
    printed = runner.invoke(main, [word for word in arguments if word != "--json"]).output
    assert "+4,058.3" in printed
    assert "unexplained" not in printed
    assert diff["noise"] == ""
    rows = diff["rows"]
    # Why compiling makes it slower: attention in float32, and taken apart.
    largest = rows[0]
    assert largest["class"] == "split"
    assert largest["matched_by"] == words
    assert "(attention): 439 -> 6,162 us" in largest["text"]
    # Its operator clears memory first.
    names = {kernel["name"] for kernel in largest["baseline"]}
    assert {name.partition("_")[0] for name in names} == {"cudnn", "Memset (Device)"}
    names = [kernel["name"] for kernel in largest["candidate"]]
    assert sum("gemm_f32f32" in name for name in names) == 2
    assert sum("softmax" in name for name in names) == 1

"""A recorded trace of compiled training steps, compared with the profiler's own table of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest

from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces.profile import KernelReport, read_kernels

FOLDER = Path(__file__).parents[2] / "fixtures" / "traces"
NUM_ITERATIONS = 3
# The reader gives the time of Inductor's own ranges to the operators around, torch to the ranges.
WRAPPERS = ("CompiledFunction", "CompiledFunctionBackward")
RANGE = "## Call CompiledFxGraph"


@pytest.fixture(scope="module")
def report() -> KernelReport:
    """Return what the reader says of the trace."""
    path = FOLDER / "compiled_cpu.json.gz"
    return read_kernels(path, notes=KernelNotes(), latency_s=None, peaks={})


@pytest.fixture(scope="module")
def averages() -> dict[str, dict[str, float]]:
    """Return own time and calls by name, as torch's table has them."""
    text = (FOLDER / "compiled_cpu_averages.json").read_text(encoding="ascii")
    document: dict[str, dict[str, float]] = json.loads(text)["averages"]
    return {name.removeprefix("graph_0_"): row for name, row in document.items()}


def own_us(report: KernelReport) -> Counter[str]:
    times: Counter[str] = Counter()
    for kernel in report.kernels:
        times[kernel.name] += kernel.total_s * NUM_ITERATIONS * 1e6
    return times


def test_own_time_of_each_operator_is_that_of_torch(
    report: KernelReport, averages: dict[str, dict[str, float]]
) -> None:
    times = own_us(report)
    is_range = {name for name in averages if name.startswith(("hud/", "Optimizer.", RANGE))}
    assert set(times) == set(averages) - is_range
    for name in set(times) - set(WRAPPERS):
        assert times[name] == pytest.approx(averages[name]["self_cpu_us"], rel=1e-3)
    within = sum(row["self_cpu_us"] for name, row in averages.items() if name.startswith(RANGE))
    own = sum(averages[name]["self_cpu_us"] for name in WRAPPERS)
    assert sum(times[name] for name in WRAPPERS) == pytest.approx(own + within, rel=1e-3)


def test_generated_kernels_are_listed_with_their_calls(report: KernelReport) -> None:
    fused = [kernel for kernel in report.kernels if kernel.kind == "fused"]
    assert len(fused) == 6
    assert {kernel.count for kernel in fused} == {1.0}
    assert {kernel.library for kernel in fused} == {"inductor-cpp"}
    assert "cpp_fused_gelu_view" in {kernel.label for kernel in fused}


def test_parts_of_compiled_steps_add_up(report: KernelReport) -> None:
    profile = report.profile
    assert profile.num_iterations == NUM_ITERATIONS
    assert math.fsum(profile.components.values()) == pytest.approx(profile.iteration_s, rel=1e-9)
    rows_s = math.fsum(kernel.total_s for kernel in report.kernels)
    assert rows_s + profile.components["python"] == pytest.approx(profile.iteration_s, rel=1e-9)

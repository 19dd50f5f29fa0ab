"""The reader of traces, compared with torch's own view of the same profile."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from compile_hud.db.records.kernels import call_lines_of
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces.profile import KernelReport, read_kernels

NUM_ITERATIONS = 4
# It calls itself once, which torch's table folds into one call.
FOLDED = "aten::sum"


class Block(nn.Module):
    """A layer of everything that matters: products, a convolution, attention, norms."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.convolution = nn.Conv1d(8, 8, 3, padding=1)
        self.norm = nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of x (batch, 8, 32)."""
        with record_function("hud/module:up"):
            wide = nn.functional.gelu(self.up(x))
        wide = self.norm(self.convolution(wide))
        heads = wide.view(-1, 4, 8, 16)
        attended = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        out: torch.Tensor = self.down(attended.reshape(wide.shape))
        return out


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, KernelReport]:
    """Return torch's own table of a profile, and what the reader says of its trace."""
    path = tmp_path_factory.mktemp("trace") / "trace.json.gz"
    model, x = Block(), torch.randn(2, 8, 32)

    def step() -> None:
        with record_function("hud/iteration"):
            with record_function("hud/forward"):
                loss = model(x).sum()
            with record_function("hud/backward"):
                loss.backward()

    step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        for _ in range(NUM_ITERATIONS):
            step()
    profiled.export_chrome_trace(str(path))
    report = read_kernels(path, notes=KernelNotes(), latency_s=None, peaks={})
    return profiled.key_averages(), report


def test_time_and_calls_of_each_operator_are_those_of_torch(
    recorded: tuple[Any, KernelReport],
) -> None:
    averages, report = recorded
    times: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for kernel in report.kernels:
        times[kernel.name] += kernel.total_s * NUM_ITERATIONS
        counts[kernel.name] += round(kernel.count * NUM_ITERATIONS)
    own = {row.key: row for row in averages if not row.key.startswith("hud/")}
    assert counts.pop(FOLDED) > own[FOLDED].count
    assert counts == {key: row.count for key, row in own.items() if key != FOLDED}
    for key, row in own.items():
        # Both know whole nanoseconds; torch sums floats of microseconds.
        expected_s = row.self_cpu_time_total * 1e-6
        assert times[key] == pytest.approx(expected_s, rel=1e-3, abs=1e-9 * row.count)


def test_time_in_no_operator_is_what_torch_gives_to_the_ranges(
    recorded: tuple[Any, KernelReport],
) -> None:
    averages, report = recorded
    ranges_s = sum(row.self_cpu_time_total for row in averages if row.key.startswith("hud/")) * 1e-6
    assert report.profile.components["python"] * NUM_ITERATIONS == pytest.approx(ranges_s, rel=1e-3)
    assert math.fsum(report.profile.components.values()) == pytest.approx(
        report.profile.iteration_s, rel=1e-9
    )
    assert report.profile.num_iterations == NUM_ITERATIONS


def test_a_real_model_has_its_products_with_shapes_and_modules(
    recorded: tuple[Any, KernelReport],
) -> None:
    _, report = recorded
    (up,) = [kernel for kernel in report.kernels if kernel.module == "up" and kernel.kind == "gemm"]
    assert (up.name, up.count, up.flops) == ("aten::addmm", 1.0, 2 * 16 * 32 * 64)
    assert up.shapes == "float32 64, float32 16x32, float32 32x64"
    kinds = {kernel.kind for kernel in report.kernels}
    assert kinds >= {"gemm", "convolution", "attention", "reduction", "elementwise", "dispatch"}


def test_a_profile_with_stacks_gives_module_and_line_of_forward_and_backward(
    tmp_path: Path,
) -> None:
    model, x = Block(), torch.randn(2, 8, 32)
    model(x).sum().backward()
    with (
        profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True) as profiled,
        record_function("hud/iteration"),
    ):
        model(x).sum().backward()
    path = tmp_path / "trace.json"
    profiled.export_chrome_trace(str(path))
    kernels = read_kernels(path, notes=KernelNotes(), latency_s=None, peaks={}).kernels
    line = f"{Path(__file__).name}:{Block.forward.__code__.co_firstlineno}"
    for name in ("aten::convolution", "aten::convolution_backward"):
        (kernel,) = (item for item in kernels if item.name == name)
        assert kernel.module == "Block_0.Conv1d_0"
        assert call_lines_of(kernel)[kernel.module].endswith(line)

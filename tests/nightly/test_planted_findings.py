"""Causes planted in small models on a CPU: their costs are what removing them saves.

Each cause is measured twice, with and without it. A GPU shows more of them;
tests/unit/runner/analysis/findings has these from records.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from compile_hud.db.records.findings import Finding
from compile_hud.runner.analysis.findings.registry import findings_of
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from compile_hud.runner.measure.compile.dynamo import read_counts
from tests.nightly.test_kernel_changes import Bench
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.runs.launch_contexts import forget_compiled

pytestmark = pytest.mark.slow
X = torch.linspace(-3, 3, 384 * 1024).reshape(384, 1024)
# The share by which a cost may differ from what its removal saves.
TOLERANCE = 0.2
# A neighbour disturbs single measurements.
MAX_TRIES = 8


class Planted(nn.Module):
    """A product of a library, and a cause that fuses with nothing."""

    def __init__(self, cause: Callable[[Tensor], Tensor] | None) -> None:
        super().__init__()
        self.linear = nn.Linear(1024, 16)
        self.cause = cause

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the product, and what the cause makes of `x`."""
        product = self.linear(x)
        return product, product if self.cause is None else self.cause(x)


def _sorted(x: Tensor) -> Tensor:
    return torch.sort(x, dim=-1).values


def _transposed(x: Tensor) -> Tensor:
    return x.t().contiguous()


def _converted(x: Tensor) -> Tensor:
    # A wider dtype costs more than its kernel: the system maps the memory of its output.
    return x.to(torch.bfloat16)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with (
        inductor_config.patch(fx_graph_cache=False),
        functorch_config.patch(enable_autograd_cache=False),
        warnings.catch_warnings(),
    ):
        # Inductor's own modules use what torch is about to drop.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield Bench(tmp_path_factory.mktemp("traces"))
    forget_compiled()


def findings_in(side: KernelSide) -> dict[str, Finding]:
    """Return the findings of a compiled case with these kernels, by code."""
    assert side.latency_s is not None
    assert side.profile is not None
    breaks = [dataclasses.asdict(item) for item in read_counts().graph_breaks]
    result = make_result(
        case=make_case(mode="default", device="cpu"),
        measurements=[make_measurement("latency_s", samples=(side.latency_s,))],
        kernels=side.kernels,
        details={"profile": side.profile.to_json(), "graph_breaks": breaks},
    )
    return {finding.code: finding for finding in findings_of(ResultEvidence(result=result))}


@pytest.mark.parametrize(
    ("cause", "code", "num_rows"),
    [
        # Sorting takes fifty times as long as a copy: longer calls are disturbed more often.
        (_sorted, "extern-fallback", 16),
        (_transposed, "layout-copies", 384),
        (_converted, "dtype-conversions", 384),
    ],
)
def test_a_cost_is_what_removing_the_cause_saves(
    cause: Callable[[Tensor], Tensor], code: str, num_rows: int, bench: Bench
) -> None:
    x = X[:num_rows].clone()
    ratios = []
    for _ in range(MAX_TRIES):
        clean = bench.side(Planted(None), x=x)
        assert findings_in(clean) == {}
        planted = bench.side(Planted(cause), x=x)
        findings = findings_in(planted)
        assert list(findings) == [code]
        assert clean.latency_s is not None
        assert planted.latency_s is not None
        saved_s = planted.latency_s - clean.latency_s
        cost_s = findings[code].cost_s
        assert cost_s is not None
        ratios.append(cost_s / saved_s)
        if abs(ratios[-1] - 1) <= TOLERANCE:
            return
    pytest.fail(f"the cost was never what removing saves: {ratios}")


def test_a_planted_graph_break_is_named_with_its_line(bench: Bench) -> None:
    def cause(x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return x

    findings = findings_in(bench.side(Planted(cause), x=X))
    assert Path(__file__).name in findings["graph-break"].where.line

"""Each metric compared once with an independent source: a plain loop, numpy, another counter.

docs/reference/metrics.md names these tests in its table of methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.runner.measure.accuracy.step import check_result, make_reference
from compile_hud.runner.measure.compile import dynamo
from compile_hud.runner.measure.compile.compiler import time_compilation
from compile_hud.runner.measure.context import Context, Findings
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.latency.sampling import sample
from compile_hud.runner.measure.steps import StepLog
from compile_hud.runner.measure.subject import Subject, mean_square
from compile_hud.runner.protocol.messages import LaunchRequest, MeasureSettings, Workload
from tests.fixtures.odd_models import BATCH, WIDTH, Breaking, Plain, Recompiling
from tests.support.builders import make_case

CPU = Device(kind="cpu", num_threads=1)
NUM_SAMPLES, NUM_TOKENS = 8, 96
# Powers of two add up without rounding, so that equal means equal to the last bit.
EAGER_WALL_S, EAGER_CPU_S = 2.0**-6, 2.0**-7
VARIANT_WALL_S, VARIANT_CPU_S = 2.0**-8, 2.0**-10


class WorkClock:
    """Clocks on which time passes by work alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_s = self.cpu_s = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.wall_s)
        for name in ("thread_time", "process_time"):
            monkeypatch.setattr(time, name, lambda: self.cpu_s)

    def work(self, wall_s: float, cpu_s: float) -> None:
        """Let time pass."""
        self.wall_s += wall_s
        self.cpu_s += cpu_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WorkClock:
    return WorkClock(monkeypatch)


class Working(nn.Module):
    """A model that takes its time on a WorkClock."""

    def __init__(self, clock: WorkClock) -> None:
        super().__init__()
        self.clock = clock

    def forward(self, x: Tensor) -> Tensor:
        self.clock.work(EAGER_WALL_S, EAGER_CPU_S)
        return x


def context_of(model: nn.Module, inputs: dict[str, Tensor], **case: Any) -> Context:
    subject = Subject(
        model=model,
        inputs=inputs,
        phase=Phase.INFERENCE,
        dtype=Dtype.FP32,
        device=CPU,
        loss=mean_square,
    )
    workload = Workload(build="", config={}, num_samples=NUM_SAMPLES, num_tokens=NUM_TOKENS)
    request = LaunchRequest(
        case=make_case(**case),
        workload=workload,
        settings=MeasureSettings(num_rounds=6),
        launch=0,
        cache_dir="",
        report_path="",
        log_path="",
    )
    return Context(request=request, subject=subject, device=CPU, log=StepLog(), findings=Findings())


def plain_loop(call: Callable[[], object], *, clock_s: Callable[[], float]) -> float:
    """Return the mean time of an iteration as anybody would measure it."""
    start_s = clock_s()
    for _ in range(1000):
        call()
    return (clock_s() - start_s) / 1000


@pytest.fixture
def sampled(clock: WorkClock) -> tuple[Context, dict[str, Callable[[], object]]]:
    """Return a sampled case, and one iteration of each of its sides."""
    context = context_of(Working(clock), {"x": torch.ones(1)})

    def variant(x: Tensor) -> Tensor:
        clock.work(VARIANT_WALL_S, VARIANT_CPU_S)
        return x

    sample(context, variant)
    inputs = context.subject.inputs
    return context, {
        "": lambda: variant(**inputs),
        "eager_": lambda: context.subject.model(**inputs),
    }


@pytest.mark.parametrize("side", ["", "eager_"])
def test_latencies_are_those_of_a_plain_loop(
    sampled: tuple[Context, dict[str, Callable[[], object]]], side: str
) -> None:
    context, steps = sampled
    wall_s = plain_loop(steps[side], clock_s=lambda: time.perf_counter())
    cpu_s = plain_loop(steps[side], clock_s=lambda: time.thread_time())
    assert set(context.findings.metrics[f"{side}latency_s"].samples) == {wall_s}
    assert set(context.findings.metrics[f"{side}latency_cpu_s"].samples) == {cpu_s}


def test_throughput_and_speedup_are_those_worked_out_by_hand(
    sampled: tuple[Context, dict[str, Callable[[], object]]],
) -> None:
    metrics = sampled[0].findings.metrics
    # 8 samples, or 96 tokens, in 1/256 s; eager takes 1/128 s of CPU time, the variant 1/1024 s.
    assert set(metrics["throughput_samples_per_s"].samples) == {2048.0}
    assert set(metrics["throughput_tokens_per_s"].samples) == {24576.0}
    assert set(metrics["speedup"].samples) == {8.0}


def test_compile_time_and_steady_calls_add_up_to_the_first_calls(clock: WorkClock) -> None:
    costs_s = iter([16.0, 4.0, 2.0, 1.0, 1.0, 1.0])
    times = time_compilation(lambda: clock.work(next(costs_s), 0.0), device=CPU)
    assert times.compile_s + sum(times.later_calls_s) == sum(times.first_calls_s) == 22.0


class Affine(nn.Module):
    """A matrix product and a sum, worked out again in numpy below."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.linear = nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear(x)
        return result


def test_accuracy_is_what_numpy_finds() -> None:
    model = Affine()
    x = torch.randn(8, 32)
    context = context_of(model, {"x": x})
    error = torch.linspace(-1e-6, 2e-6, 8 * 16).reshape(8, 16)
    reason = check_result(
        context, lambda x: model(x) + error, reference=make_reference(context.subject)
    )
    assert reason == ""
    weight, bias = (
        item.detach().numpy().astype(numpy.float64) for item in model.linear.parameters()
    )
    oracle = x.numpy().astype(numpy.float64) @ weight.T + bias
    with torch.no_grad():
        eager = model(x).numpy().astype(numpy.float64)
        result = (model(x) + error).numpy().astype(numpy.float64)
    difference = result - oracle
    cosine = numpy.sum(result * oracle) / numpy.sqrt(numpy.sum(result**2) * numpy.sum(oracle**2))
    ratio = numpy.sqrt(numpy.mean(difference**2) / numpy.mean((eager - oracle) ** 2))
    metrics = {name: raw.samples[0] for name, raw in context.findings.metrics.items()}
    assert metrics["max_abs_error"] == pytest.approx(numpy.max(numpy.abs(difference)), rel=1e-6)
    assert metrics["cosine_similarity"] == pytest.approx(cosine, rel=1e-12)
    assert metrics["rmse_ratio"] == pytest.approx(ratio, rel=1e-6)


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    dynamo.reset()
    yield
    dynamo.reset()


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    ("make", "num_graphs", "num_breaks", "num_recompiles"),
    [(Plain, 1, 0, 0), (Breaking, 2, 1, 0), (Recompiling, 2, 0, 1)],
)
def test_graphs_are_those_that_explain_finds_and_a_backend_is_given(
    make: Callable[[], nn.Module], num_graphs: int, num_breaks: int, num_recompiles: int
) -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    x = torch.ones(BATCH, WIDTH)
    compiled = torch.compile(make(), backend=backend)
    with torch.no_grad():
        for _ in range(4):
            compiled(x)
    counts = dynamo.read_counts()
    assert counts.num_graphs == len(graphs) == num_graphs
    assert counts.num_graph_breaks == num_breaks
    assert counts.num_recompiles == num_recompiles
    # `explain` traces one call: what is compiled again later it does not see.
    dynamo.reset()
    with torch.no_grad():
        explained = torch._dynamo.explain(make())(x)
    assert explained.graph_count == num_graphs - num_recompiles
    assert explained.graph_break_count == num_breaks

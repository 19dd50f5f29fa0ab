"""Gaps between compiled graphs and calls of fallbacks, in iterations without the profiler."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compile_hud.db.records.graphs.host_times import HOST_TIMES
from compile_hud.db.records.results import Phase
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.kernels import host_times
from compile_hud.runner.measure.kernels.host_times import (
    MIN_ITERATIONS,
    HostCalls,
    report_host_times,
)
from tests.support.runs.launch_contexts import forget_compiled, make_context


class Broken(nn.Module):
    """Two graphs with eager work between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sin(self.first(x))
        torch._dynamo.graph_break()
        return self.second(x).relu()


class Called(nn.Module):
    """A layer, and a function of its output."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(8, 8), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


def _ordered(x: Tensor) -> Tensor:
    return torch.sort(x, dim=-1).values


def _squared(x: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * pairs)


@pytest.fixture(autouse=True)
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    forget_compiled()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    with warnings.catch_warnings():
        # Inductor warns of complex numbers, and its own modules use what torch is about to drop.
        warnings.simplefilter("ignore")
        yield
    forget_compiled()


def times_of(model: nn.Module, phase: Phase = Phase.INFERENCE, **options: Any) -> Any:
    """Return the times of the compiled `model`, None if nothing was reported."""
    model.train(phase is Phase.TRAINING)
    context = make_context(model, {"x": torch.randn(4, 8)}, phase=phase, **options)
    forward = torch.compile(model) if context.request.case.backend == "inductor" else model
    context.step(forward)()
    return _reported(context, forward)


def _reported(context: Context, forward: Any) -> Any:
    # One iteration of a second: the least number of iterations.
    context.findings.add("latency_s", (1.0,), method="")
    report_host_times(context, forward)
    return context.findings.details.get(HOST_TIMES)


def test_a_graph_break_leaves_a_gap_between_two_graphs() -> None:
    times = times_of(Broken())
    assert (times["clock"], times["num_gaps"], times["fallbacks"]) == ("thread_time", 1, [])
    assert len(times["gaps_s"]) == MIN_ITERATIONS
    assert 0 < statistics.median(times["gaps_s"]) < 0.1


def test_a_break_in_training_leaves_one_in_forward_and_one_in_backward() -> None:
    assert times_of(Broken(), Phase.TRAINING)["num_gaps"] == 2


def test_forward_and_backward_have_no_gap_between_them() -> None:
    assert times_of(Called(torch.sin), Phase.TRAINING) is None


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (_ordered, {("aten::sort", False)}),
        (
            _squared,
            {("aten::view_as_complex", True), ("aten::mul", True), ("aten::view_as_real", True)},
        ),
    ],
)
def test_operators_without_generated_code_are_timed(
    function: Callable[[Tensor], Tensor], calls: set[tuple[str, bool]]
) -> None:
    times = times_of(Called(function))
    assert {(item["operator"], item["is_complex"]) for item in times["fallbacks"]} == calls
    for item in times["fallbacks"]:
        assert (item["count"], len(item["samples_s"])) == (1, MIN_ITERATIONS)
        assert min(item["samples_s"]) > 0


def test_generated_code_alone_takes_one_iteration_and_has_neither() -> None:
    num_calls = 0

    context = make_context(Called(torch.sin), {"x": torch.randn(4, 8)})
    forward = torch.compile(context.subject.model)

    def counted(**inputs: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        return forward(**inputs)

    context.step(counted)()
    num_calls = 0
    assert _reported(context, counted) is None
    assert num_calls == 1


@pytest.mark.parametrize(
    "options",
    [{"backend": "eager"}, {"device": Device(kind="cuda", num_threads=1)}],
    ids=["eager", "a GPU works on"],
)
def test_only_compiled_code_on_a_cpu_is_timed(options: dict[str, Any]) -> None:
    model = Broken()
    context = make_context(model, {"x": torch.randn(4, 8)}, **options)
    assert _reported(context, model) is None


def test_nothing_of_torch_is_replaced_afterwards() -> None:
    from torch._inductor.output_code import CompiledFxGraph
    from torch._ops import OpOverload, OpOverloadPacket

    calls = [owner.__call__ for owner in (CompiledFxGraph, OpOverload, OpOverloadPacket)]
    times_of(Broken())
    after = [owner.__call__ for owner in (CompiledFxGraph, OpOverload, OpOverloadPacket)]
    assert calls == after


def test_a_gap_lasts_from_the_end_of_a_graph_to_the_first_kernel_of_the_next() -> None:
    calls = HostCalls(graphs=[[(10, 20), (25, 40), (41, 50)], [(90, 95)], []])
    assert calls.gaps_ns == [5, 1]


def test_a_graph_without_kernels_ends_the_gap_at_its_end() -> None:
    ticks = iter(range(100))
    recorder = host_times._CallRecorder(lambda: next(ticks))
    graph = recorder.around_graph(lambda: None)
    operator = recorder.around_operator(lambda _operator, value: value)
    graph()
    operator(torch.ops.aten.sort.stable, 3)
    graph()
    # An operator outside of a graph reads no clock.
    assert recorder.calls.graphs == [[(0, 0), (1, 1)]]
    assert recorder.calls.fallbacks == {}


def test_an_operator_that_another_one_calls_is_in_its_time() -> None:
    ticks = iter(range(0, 100, 10))
    recorder = host_times._CallRecorder(lambda: next(ticks))
    inner = recorder.around_operator(lambda _operator: torch.ones(2))
    outer = recorder.around_operator(lambda _operator: inner(torch.ops.aten.sin.default))
    recorder.around_graph(lambda: outer(torch.ops.aten.sort.stable))()
    assert recorder.calls.fallbacks == {("aten::sort", False): [10]}
    assert recorder.calls.graphs == [[(0, 30)]]

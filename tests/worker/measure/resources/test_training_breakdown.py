"""The parts of a training step: they are the whole step, in order, and show in profilers."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from compile_hud.db.records.results import Phase
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.resources import training_breakdown as breakdown
from compile_hud.runner.measure.resources.training_breakdown import (
    COMPONENTS,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    NUM_WARMUPS,
    CudaMarks,
    batch_source,
    report_breakdown,
    take_steps,
)
from tests.support.runs.launch_contexts import make_context

CUDA = Device(kind="cuda", num_threads=1)


def make_training(**options: Any) -> Context:
    context = make_context(
        nn.Linear(8, 8), {"input": torch.randn(4, 8)}, phase=Phase.TRAINING, **options
    )
    for metric in ("latency_cpu_s", "latency_s"):
        context.findings.add(metric, (0.02, 0.03, 0.04), method="")
    return context


def test_the_parts_of_a_real_step_are_the_step() -> None:
    context = make_training()
    steps = take_steps(context, context.subject.model, num_iterations=4)
    assert len(steps) == 4
    for step in steps:
        assert len(step.parts_ns) == len(COMPONENTS)
        assert min(step.parts_ns) > 0
        assert sum(step.parts_ns) == step.whole_ns


@pytest.mark.parametrize(
    ("num_threads", "clock_name", "metric"),
    [(1, "thread_time", "latency_cpu_s"), (2, "perf_counter", "latency_s")],
)
def test_the_parts_are_the_differences_of_the_clock(
    monkeypatch: pytest.MonkeyPatch, num_threads: int, clock_name: str, metric: str
) -> None:
    # Each iteration begins a second after the last one ended; its parts take 1, 2, 3 and 4 ms.
    ticks = itertools.cycle([1_000_000_000, 1_000_000, 2_000_000, 3_000_000, 4_000_000])
    clock = itertools.accumulate(ticks)
    monkeypatch.setattr(time, f"{clock_name}_ns", lambda: next(clock))
    context = make_training(device=Device(kind="cpu", num_threads=num_threads))
    report_breakdown(context, context.subject.model)
    metrics = context.findings.metrics
    # 0.3 s at 0.03 s each.
    assert metrics["data_s"].method.startswith(f"{clock_name} at the boundaries")
    assert metrics["data_s"].samples == (0.001,) * 10
    assert metrics["data_s"].warmups == (0.001,) * NUM_WARMUPS
    assert metrics["forward_s"].samples == (0.002,) * 10
    assert metrics["backward_s"].samples == (0.003,) * 10
    assert metrics["optimizer_s"].samples == (0.004,) * 10
    details = context.findings.details["breakdown"]
    # As many iterations with a fused optimizer, and the same two warm-ups.
    assert details["fused_optimizer_s"] == [0.004] * 10
    assert (details["latency_s"], details["latency_metric"]) == (0.03, metric)
    assert details["sum_s"] == pytest.approx(0.009)
    assert details["remainder_s"] == pytest.approx(0.021)
    assert details["step_s"] == 0.010


@pytest.mark.parametrize(("latency_s", "number"), [(1e-6, MAX_ITERATIONS), (9.0, MIN_ITERATIONS)])
def test_the_number_of_iterations_is_bounded(latency_s: float, number: int) -> None:
    context = make_training()
    context.findings.add("latency_cpu_s", (latency_s,), method="")
    report_breakdown(context, context.subject.model)
    assert len(context.findings.metrics["forward_s"].samples) == number
    assert context.findings.details["breakdown"]["num_iterations"] == number


def test_the_parts_are_ranges_in_a_profiler_of_their_own() -> None:
    context = make_training()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        take_steps(context, context.subject.model, num_iterations=3)
    counts = {event.key: event.count for event in profiler.key_averages()}
    assert [counts[f"hud/{part}"] for part in COMPONENTS] == [3, 3, 3, 3]


def test_an_iteration_leaves_no_gradient_and_steps_the_optimizer() -> None:
    context = make_training()
    take_steps(context, context.subject.model, num_iterations=3)
    assert [p.grad for p in context.subject.model.parameters()] == [None, None]
    assert context.subject.optimizer is not None
    states = context.subject.optimizer.state.values()
    assert {int(state["step"]) for state in states} == {3}


def test_a_fresh_batch_is_a_copy_and_keeps_what_is_one_tensor_one() -> None:
    context = make_training()
    shared = torch.randn(3)
    context.subject.inputs = {"a": shared, "b": shared, "c": torch.randn(3)}
    batch = batch_source(context.subject, device=context.device)()
    assert torch.equal(batch["a"], shared)
    assert batch["a"] is batch["b"]
    assert batch["a"] is not shared
    assert batch["c"] is not batch["a"]


@pytest.mark.parametrize("device", [Device(kind="cpu", num_threads=1), CUDA])
def test_a_fresh_batch_has_the_strides_that_compiled_code_expects(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(breakdown, "_to_cuda", torch.clone)
    rows = torch.arange(6.0).reshape(1, 6)
    inputs = {
        "expanded": rows.expand(4, 6),
        "transposed": torch.randn(3, 4).t(),
        "sliced": torch.randn(3, 8)[:, 1:6:2],
        "empty": torch.empty(0, 3),
        "sparse": torch.eye(3).to_sparse(),
    }
    context = make_context(nn.Identity(), inputs, device=device)
    batch = batch_source(context.subject, device=device)()
    for name, tensor in inputs.items():
        assert torch.equal(batch[name].to_dense(), tensor.to_dense()), name
        if name != "sparse":
            assert batch[name].shape == tensor.shape
            assert batch[name].stride() == tensor.stride(), name
    assert batch["expanded"].data_ptr() != rows.data_ptr()


class FakeEvent:
    """A CUDA event that comes by 1 ms after the one before."""

    log: list[str] = []

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.at_ms = 0.0

    def record(self) -> None:
        FakeEvent.log.append("event")
        self.at_ms = float(len(FakeEvent.log))

    def elapsed_time(self, after: FakeEvent) -> float:
        assert FakeEvent.log[-1] == "synchronize", "the events were read before they came by"
        return after.at_ms - self.at_ms


def test_on_cuda_nothing_is_synchronised_before_the_last_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeEvent, "log", [])
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: FakeEvent.log.append("synchronize"))
    marks = CudaMarks()
    for _ in range(2 * (len(COMPONENTS) + 1)):
        marks.mark()
    steps = marks.steps()
    assert FakeEvent.log == ["event"] * 10 + ["synchronize"]
    assert [step.parts_ns for step in steps] == [(1_000_000,) * 4] * 2
    assert [step.whole_ns for step in steps] == [4_000_000] * 2


def test_on_cuda_each_part_is_an_nvtx_range_and_a_compiled_iteration_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", seen.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: seen.append("pop"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: seen.append("mark"))
    monkeypatch.setattr(breakdown, "CudaMarks", lambda: breakdown.CpuMarks(time.perf_counter_ns))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(breakdown, "_to_cuda", torch.clone)
    context = make_training(device=CUDA)
    model = context.subject.model
    take_steps(context, lambda **inputs: model(**inputs), num_iterations=1)
    ranges = [name for part in COMPONENTS for name in (f"hud/{part}", "pop")]
    assert seen == ["mark", *ranges]
    seen.clear()
    take_steps(context, model, num_iterations=1)
    assert seen == ranges


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_parts_of_a_step_on_cuda_are_the_step() -> None:
    context = make_context(
        nn.Linear(512, 512).cuda(),
        {"input": torch.randn(64, 512, device="cuda")},
        phase=Phase.TRAINING,
        device=CUDA,
    )
    for step in take_steps(context, context.subject.model, num_iterations=5):
        assert min(step.parts_ns) > 0
        # An event is good to half a microsecond.
        assert abs(sum(step.parts_ns) - step.whole_ns) <= 1000 * len(COMPONENTS)

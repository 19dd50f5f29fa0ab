"""The step `breakdown` of a training launch: the components of one iteration's time.

Each iteration is data, forward (with the loss), backward and optimizer (with the gradient scaler
and dropping the gradients). The clock is read at the boundaries only, so the components of an
iteration add up to it without gap or overlap. On CUDA the boundaries are events in the stream, and
the first synchronisation follows the last iteration. Every component is a range (`hud/forward`;
NVTX too on CUDA), which external profilers display.

An optimizer that is not fused takes fused steps in as many iterations more: the difference is what
`fused=True` saves.

Inputs are synthetic, so `data` is the work of a training loop for a fresh batch: on CUDA a
non-blocking copy from pinned host memory, on a CPU a copy within memory.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.kernels.profiler_ranges import named_range
from compile_hud.runner.measure.latency.timing import garbage_collection_paused
from compile_hud.runner.measure.resources.fused_optimizer import can_be_fused, fused
from compile_hud.runner.measure.subject import Subject
from compile_hud.runner.protocol.messages import RawMetric

COMPONENTS = ("data", "forward", "backward", "optimizer")
# The first iterations fill the caches that the steps before have emptied.
NUM_WARMUPS = 2
MIN_ITERATIONS = 5
MAX_ITERATIONS = 30
# The limit of the whole step: it explains a latency that was measured with more care before.
BUDGET_S = 0.3
METHOD_CPU = "{clock} at the boundaries of the parts; data: a copy of the inputs"
METHOD_CUDA = (
    "CUDA events at the boundaries of the parts, none synchronised; data: a non-blocking copy of"
    " the inputs from pinned host memory"
)

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """One iteration in nanoseconds: its parts in the order of PARTS, and the whole."""

    parts_ns: tuple[int, ...]
    whole_ns: int


class Marks(Protocol):
    """Points in time, taken one after the other."""

    def mark(self) -> None:
        """Record a point in time."""

    def steps(self) -> list[TrainingStep]:
        """Return the iterations between the points; each needs one more point than components."""


class CpuMarks:
    """Points in time of this thread, on `clock_ns`."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._points_ns: list[int] = []

    def mark(self) -> None:
        """Read the clock."""
        self._points_ns.append(self._clock_ns())

    def steps(self) -> list[TrainingStep]:
        """Return the iterations between the readings."""
        return [
            TrainingStep(
                parts_ns=tuple(
                    after - before for before, after in zip(points, points[1:], strict=False)
                ),
                whole_ns=points[-1] - points[0],
            )
            for points in _groups(self._points_ns)
        ]


class CudaMarks:
    """Points in time of the stream, on the device's own clock."""

    def __init__(self) -> None:
        self._events: list[torch.cuda.Event] = []

    def mark(self) -> None:
        """Record an event in the stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._events.append(event)

    def steps(self) -> list[TrainingStep]:
        """Return the iterations between the events, once all of them have completed."""
        torch.cuda.synchronize()
        return [
            TrainingStep(
                parts_ns=tuple(
                    _elapsed_ns(before, after)
                    for before, after in zip(events, events[1:], strict=False)
                ),
                whole_ns=_elapsed_ns(events[0], events[-1]),
            )
            for events in _groups(self._events)
        ]


def _groups(points: list[int] | list[torch.cuda.Event]) -> Iterator[list]:  # type: ignore[type-arg]
    size = len(COMPONENTS) + 1
    for first in range(0, len(points), size):
        yield points[first : first + size]


def _elapsed_ns(before: torch.cuda.Event, after: torch.cuda.Event) -> int:
    return int(round(before.elapsed_time(after) * 1e6))


def report_breakdown(context: Context, forward: Forward) -> None:
    """Record the time of each component of an iteration, and its sum relative to the latency."""
    device, findings = context.device, context.findings
    # Other processes affect the wall time of a component, but not its CPU time.
    clock = "thread_time" if _has_cpu_time(device) else "perf_counter"
    against = "latency_cpu_s" if _has_cpu_time(device) else "latency_s"
    latency_s = statistics.median(findings.metrics[against].samples)
    num_iterations = min(MAX_ITERATIONS, max(MIN_ITERATIONS, int(BUDGET_S / latency_s)))
    with device.pinned(), garbage_collection_paused():
        steps = take_steps(context, forward, num_iterations=NUM_WARMUPS + num_iterations)
        fused_s = _fused_optimizer_s(context, forward, num_iterations=NUM_WARMUPS + num_iterations)
    method = METHOD_CUDA if device.is_cuda else METHOD_CPU.format(clock=clock)
    for index, part in enumerate(COMPONENTS):
        times_s = tuple(step.parts_ns[index] / 1e9 for step in steps)
        findings.metrics[f"{part}_s"] = RawMetric(
            samples=times_s[NUM_WARMUPS:], warmups=times_s[:NUM_WARMUPS], method=method
        )
    medians_s = {
        part: statistics.median(findings.metrics[f"{part}_s"].samples) for part in COMPONENTS
    }
    # A sampled iteration has its inputs already, so `data` is no part of the latency.
    sum_s = sum(medians_s[part] for part in COMPONENTS if part != "data")
    findings.details["breakdown"] = {
        "sum_s": sum_s,
        "latency_s": latency_s,
        "latency_metric": against,
        "remainder_s": latency_s - sum_s,
        "step_s": statistics.median(step.whole_ns for step in steps[NUM_WARMUPS:]) / 1e9,
        "num_iterations": num_iterations,
        "fused_optimizer_s": fused_s[NUM_WARMUPS:],
    }


def _fused_optimizer_s(context: Context, forward: Forward, *, num_iterations: int) -> list[float]:
    """Return the times of the optimizer with fused steps; empty if it is fused, or cannot be."""
    optimizer = context.subject_of(forward).optimizer
    if optimizer is None or not can_be_fused(optimizer):
        return []
    index = COMPONENTS.index("optimizer")
    try:
        with fused(optimizer):
            steps = take_steps(context, forward, num_iterations=num_iterations)
    except RuntimeError:
        # torch has no fused step for these weights, and so the option would save nothing.
        return []
    return [step.parts_ns[index] / 1e9 for step in steps]


def _has_cpu_time(device: Device) -> bool:
    return not device.is_cuda and device.num_threads == 1


def _marks(device: Device) -> Marks:
    if device.is_cuda:
        return CudaMarks()
    return CpuMarks(time.thread_time_ns if _has_cpu_time(device) else time.perf_counter_ns)


def take_steps(context: Context, forward: Forward, *, num_iterations: int) -> list[TrainingStep]:
    """Return `num_iterations` training iterations through `forward`, part by part."""
    subject, device = context.subject_of(forward), context.device
    marks = _marks(device)
    next_batch = batch_source(subject, device=device)
    is_compiled = forward is not context.subject.model
    subject.zero_grad()
    device.synchronize()
    for _ in range(num_iterations):
        if device.is_cuda and is_compiled:
            torch.compiler.cudagraph_mark_step_begin()
        _iterate(subject, forward, marks=marks, next_batch=next_batch)
    return marks.steps()


def _iterate(
    subject: Subject, forward: Forward, *, marks: Marks, next_batch: Callable[[], Batch]
) -> None:
    device = subject.device
    marks.mark()
    with named_range("hud/data", device=device):
        inputs = next_batch()
    marks.mark()
    with named_range("hud/forward", device=device):
        _, loss = subject.forward_loss(forward, inputs=inputs)
    marks.mark()
    with named_range("hud/backward", device=device):
        subject.backward(loss)
    marks.mark()
    with named_range("hud/optimizer", device=device):
        subject.optimize()
        subject.zero_grad()
    marks.mark()


def batch_source(subject: Subject, *, device: Device) -> Callable[[], Batch]:
    """Return a source of fresh batches: the subject's inputs, copied to the device.

    A tensor that is two inputs stays one, and each keeps its strides: compiled code has guards on
    both, and would be recompiled.
    """
    copy: Callable[[torch.Tensor], torch.Tensor] = torch.clone
    tensors = {id(tensor): tensor for tensor in subject.inputs.values()}
    sources = {key: _memory_of(tensor) for key, tensor in tensors.items()}
    if device.is_cuda:
        sources = {key: source.cpu().pin_memory() for key, source in sources.items()}
        copy = _to_cuda

    def next_batch() -> Batch:
        copies = {
            key: _with_layout_of(copy(source), like=tensors[key]) for key, source in sources.items()
        }
        return {name: copies[id(tensor)] for name, tensor in subject.inputs.items()}

    return next_batch


def _memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory of `tensor` as a vector if a copy of it would have other strides.

    Expanded tensors are of this kind: an element is in memory once and in the tensor several times.
    """
    if tensor.layout is not torch.strided:
        return tensor
    strides = tensor.stride()
    if torch.empty_like(tensor).stride() == strides:
        return tensor
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, strides, strict=True))
    return tensor.as_strided((span,), (1,))


def _with_layout_of(copied: torch.Tensor, *, like: torch.Tensor) -> torch.Tensor:
    if like.layout is not torch.strided or copied.stride() == like.stride():
        return copied
    return copied.as_strided(like.shape, like.stride())


def _to_cuda(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cuda", non_blocking=True)

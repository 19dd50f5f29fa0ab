"""The counters of a launch, from a script of readings and from the kernel under this machine."""

from __future__ import annotations

import errno
import mmap
import struct
from dataclasses import replace
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import nn

from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.resources.counters_step import (
    NUM_SAMPLES,
    ONE_THREAD,
    report_counters,
)
from compile_hud.runner.measure.resources.cpu_counters import (
    HARDWARE,
    SOFTWARE,
    TYPE_HARDWARE,
    LinuxPerf,
    open_group,
    unavailable_reason,
)
from tests.support.fakes import FakeKernel
from tests.support.runs.launch_contexts import make_context

# A 5 ms sample of these takes 2 iterations.
LATENCY_S = 0.0025
REFUSED = {0: errno.ENOENT, 1: errno.ENOENT, 5: errno.EACCES}


class Counting(nn.Linear):
    """Counts its own calls."""

    num_calls = 0

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self.num_calls += 1
        return super().forward(input)


def make_sampled(device: Device | None = None) -> Context:
    context = make_context(Counting(4, 4), {"input": torch.ones(2, 4)})
    context.findings.add("latency_s", (LATENCY_S,), method="")
    return context if device is None else replace(context, device=device)


def readings(
    num_values: int, *, enabled_ns: int = 1000, running_ns: int = 1000, step: int = 20
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return a reading before and one after each sample, each later by the same amounts."""
    return [
        (n * enabled_ns, n * running_ns, tuple(n * step * (k + 1) for k in range(num_values)))
        for n in range(2 * NUM_SAMPLES)
    ]


def in_turn(*groups: list[tuple[int, int, tuple[int, ...]]]) -> list[Any]:
    """Return the readings of several groups in the order in which they are asked for."""
    return [reading for together in zip(*groups, strict=True) for reading in together]


def test_counts_are_per_iteration_and_scaled_by_the_time_counted(words: SnapshotAssertion) -> None:
    context = make_sampled()
    script = in_turn(readings(4, running_ns=250), readings(3))
    report_counters(context, context.subject.model, kernel=FakeKernel(script))
    findings = context.findings
    # Cycles moved by 20 in a quarter of the time: 80 in 2 iterations; the next event by twice that.
    assert findings.metrics["cycles"].samples == (40.0,) * NUM_SAMPLES
    assert findings.metrics["instructions"].samples == (80.0,) * NUM_SAMPLES
    assert findings.metrics["cache_misses"].samples == (120.0,) * NUM_SAMPLES
    assert findings.metrics["cycles"].method == words
    assert findings.metrics["page_faults"].samples == (20.0,) * NUM_SAMPLES
    assert "scaled" not in findings.metrics["page_faults"].method
    details = findings.details["counters"]
    assert details["per_iteration"]["branch_misses"] == 160.0
    assert details["per_iteration"]["context_switches"] == 30.0
    assert details["missing"] == {}
    model = context.subject.model
    assert isinstance(model, Counting)
    # Both groups count the same iterations, after one to warm up.
    assert model.num_calls == 1 + NUM_SAMPLES * details["iterations_per_sample"]
    assert findings.warnings == []


def test_where_nothing_can_be_counted_nothing_runs() -> None:
    context = make_sampled()
    kernel = FakeKernel(refused=dict.fromkeys((0, 1, 2, 3, 5), errno.EACCES))
    report_counters(context, context.subject.model, kernel=kernel)
    assert len(context.findings.details["counters"]["missing"]) == len(HARDWARE) + len(SOFTWARE)
    model = context.subject.model
    assert isinstance(model, Counting)
    assert model.num_calls == 0


def test_a_slow_model_is_counted_over_a_single_iteration() -> None:
    context = make_sampled()
    context.findings.add("latency_s", (20.0,), method="")
    script = in_turn(readings(4)[:2], readings(3)[:2])
    report_counters(context, context.subject.model, kernel=FakeKernel(script))
    assert context.findings.metrics["cycles"].samples == (20.0,)
    model = context.subject.model
    assert isinstance(model, Counting)
    assert model.num_calls == 2


def test_what_the_machine_lacks_is_missing_with_its_reason_and_no_warning() -> None:
    context = make_sampled()
    # Software events have numbers of their own; the task clock's is that of the instructions.
    kernel = FakeKernel(in_turn(readings(1), readings(2)), refused=REFUSED)
    report_counters(context, context.subject.model, kernel=kernel)
    missing = context.findings.details["counters"]["missing"]
    assert sorted(missing) == ["branch_misses", "cycles", "instructions", "task_clock_ns"]
    assert "virtual PMU" in missing["cycles"]
    assert "perf_event_paranoid" in missing["branch_misses"]
    assert sorted(context.findings.metrics) == ["cache_misses", "latency_s", "page_faults"]
    assert context.findings.warnings == []
    assert len(kernel.closed) == len(kernel.leaders)


class NarrowKernel(FakeKernel):
    """Has one hardware counter: any event by itself, no two of them together."""

    def open(self, attributes: bytes, *, leader: int) -> int:
        (kind,) = struct.unpack_from("=I", attributes)
        if kind == TYPE_HARDWARE and leader != -1:
            raise OSError(errno.EINVAL, "no room")
        return super().open(attributes, leader=leader)


def test_events_that_cannot_be_counted_together_are_missing_and_cost_no_result(
    words: SnapshotAssertion,
) -> None:
    context = make_sampled()
    kernel = NarrowKernel(readings(3))
    report_counters(context, context.subject.model, kernel=kernel)
    missing = context.findings.details["counters"]["missing"]
    assert missing.keys() == {event.name for event in HARDWARE}
    assert set(missing.values()) == words
    assert sorted(context.findings.metrics) == ["latency_s", "page_faults"]
    assert len(kernel.closed) == len(kernel.leaders)


def test_a_group_whose_turn_never_comes_is_missing(words: SnapshotAssertion) -> None:
    context = make_sampled()
    script = in_turn(readings(4, running_ns=0), readings(3))
    report_counters(context, context.subject.model, kernel=FakeKernel(script))
    assert context.findings.details["counters"]["missing"]["cycles"] == words
    assert "cycles" not in context.findings.metrics
    assert "page_faults" in context.findings.metrics


@pytest.mark.parametrize(
    "device", [Device(kind="cuda", num_threads=1), Device(kind="cpu", num_threads=2)]
)
def test_nothing_is_counted_where_other_threads_do_the_work(device: Device) -> None:
    context = make_sampled(device)
    kernel = FakeKernel()
    report_counters(context, context.subject.model, kernel=kernel)
    assert set(context.findings.details["counters"]["missing"].values()) == {ONE_THREAD}
    assert kernel.leaders == []


def test_page_faults_are_the_pages_touched() -> None:
    faults = next(event for event in SOFTWARE if event.name == "page_faults")
    if why := unavailable_reason(faults, kernel=LinuxPerf()):
        pytest.skip(why)
    memory = mmap.mmap(-1, 200 * mmap.PAGESIZE)
    # A huge page would be one fault for many.
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    group = open_group([faults], kernel=LinuxPerf())
    (before,) = group.read().values
    for page in range(200):
        memory[page * mmap.PAGESIZE] = 1
    (after,) = group.read().values
    group.close()
    # The interpreter may take some memory of its own meanwhile.
    assert 200 <= after - before < 400


def test_this_machine_counts_or_reports_the_reason() -> None:
    context = make_sampled()
    report_counters(context, context.subject.model)
    details = context.findings.details["counters"]
    names = {event.name for event in (*HARDWARE, *SOFTWARE)}
    assert set(details["missing"]) | set(details["per_iteration"]) == names
    assert not set(details["missing"]) & set(details["per_iteration"])

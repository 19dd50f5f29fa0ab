"""Peak memory against counts by hand, and against a scripted allocator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compile_hud.db.records.results import Phase
from compile_hud.runner.measure.context import Context, Findings
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.resources.memory import (
    CudaPeak,
    cpu_peak_bytes,
    highest_balance,
    private_pool_bytes,
    report_memory,
    storage_bytes,
)
from compile_hud.runner.measure.steps import StepLog
from compile_hud.runner.measure.subject import Subject, mean_square
from compile_hud.runner.protocol.messages import LaunchRequest, MeasureSettings, Workload
from tests.support.builders import make_case

CPU = Device(kind="cpu", num_threads=1)
CUDA = Device(kind="cuda", num_threads=1)
FLOAT_BYTES = 4
# torch keeps a scalar or two of its own in an iteration: the loss, a step count.
SCALARS_BYTES = 64


class Perceptron(nn.Module):
    """Matrix products of growing and shrinking width."""

    WIDTHS = (32, 64, 128, 16)

    def __init__(self) -> None:
        super().__init__()
        pairs = zip(self.WIDTHS, self.WIDTHS[1:], strict=False)
        self.layers = nn.ModuleList(nn.Linear(left, right) for left, right in pairs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


PARAMETERS = [32 * 64, 64, 64 * 128, 128, 128 * 16, 16]


def context_of(
    model: nn.Module,
    *,
    batch: int = 256,
    device: Device = CPU,
    phase: Phase = Phase.INFERENCE,
    variant: str = "default",
    snapshot_path: str = "",
) -> Context:
    subject = Subject(
        model=model,
        inputs={"x": torch.ones(batch, Perceptron.WIDTHS[0])},
        phase=phase,
        dtype=make_case().dtype,
        device=device,
        loss=mean_square,
    )
    if phase is Phase.TRAINING:
        subject.optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    backend = "eager" if variant == "eager" else "inductor"
    request = LaunchRequest(
        case=make_case(variant=variant, backend=backend, device=device.kind, phase=phase),
        workload=Workload(build="", config={}, num_samples=1, num_tokens=None),
        settings=MeasureSettings(),
        launch=0,
        cache_dir="",
        report_path="",
        log_path="",
        snapshot_path=snapshot_path,
    )
    return Context(
        request=request, subject=subject, device=device, log=StepLog(), findings=Findings()
    )


def bytes_by_metric(context: Context) -> dict[str, float]:
    return {name: raw.samples[0] for name, raw in context.findings.metrics.items()}


def test_the_highest_balance_is_the_peak_of_live_bytes() -> None:
    assert highest_balance([100, 50, -100, 20, -70]) == 150
    assert highest_balance([-10, 5]) == 0


def test_views_of_one_storage_count_once() -> None:
    base = torch.zeros(10)
    assert storage_bytes([base, base[:5], torch.zeros(2)]) == 48


def test_peak_memory_of_a_product_is_counted_by_hand() -> None:
    left, right = torch.ones(64, 32), torch.ones(32, 16)
    peak = cpu_peak_bytes(lambda: (left @ right).relu(), alive=[left, right])
    assert peak == (64 * 32 + 32 * 16 + 2 * 64 * 16) * FLOAT_BYTES


def test_peak_memory_of_inference_is_counted_by_hand() -> None:
    context = context_of(Perceptron(), variant="eager")
    report_memory(context, context.subject.model)
    # The widest layer holds its input and its output; the model's own input lives all along.
    held_bytes = sum(PARAMETERS) + 256 * (32 + 64 + 128)
    assert bytes_by_metric(context) == {"peak_bytes": held_bytes * FLOAT_BYTES}
    assert "torch.profiler" in context.findings.metrics["peak_bytes"].method


def test_peak_memory_of_a_small_batch_of_training_is_that_of_the_optimizer() -> None:
    context = context_of(Perceptron(), batch=1, phase=Phase.TRAINING, variant="eager")
    context.subject.step(context.subject.model)()
    report_memory(context, context.subject.model)
    # Parameters, gradients, two moments, a step count each, input and output; then AdamW's
    # denominator and its square root of the largest parameter, and the denominator of the last one.
    held_bytes = (
        4 * sum(PARAMETERS) + len(PARAMETERS) + 32 + 16 + 2 * max(PARAMETERS) + PARAMETERS[1]
    )
    peak = bytes_by_metric(context)["peak_bytes"]
    assert held_bytes * FLOAT_BYTES <= peak <= held_bytes * FLOAT_BYTES + SCALARS_BYTES


def test_peak_memory_of_a_large_batch_of_training_is_that_of_the_activations() -> None:
    context = context_of(Perceptron(), batch=4096, phase=Phase.TRAINING, variant="eager")
    context.subject.step(context.subject.model)()
    report_memory(context, context.subject.model)
    # Parameters and moments all along. When the last layer gives back: the input, what each layer
    # saved, the outputs, their gradient, the gradient of the last layer and of its input.
    state = 3 * sum(PARAMETERS) + len(PARAMETERS)
    last = sum(PARAMETERS[4:])
    held_bytes = state + 4096 * (32 + 64 + 128 + 16) + 4096 * (16 + 128) + last
    peak = bytes_by_metric(context)["peak_bytes"]
    assert held_bytes * FLOAT_BYTES <= peak <= held_bytes * FLOAT_BYTES + SCALARS_BYTES


def test_eager_is_measured_with_the_variant() -> None:
    context = context_of(Perceptron())
    weight = torch.ones(32, 16)
    report_memory(context, lambda x: x @ weight)
    variant, eager = 16, 64 + 128
    alive = sum(PARAMETERS) + 256 * 32
    peak_bytes = bytes_by_metric(context)
    assert peak_bytes["peak_bytes"] == (alive + 256 * variant) * FLOAT_BYTES
    assert peak_bytes["eager_peak_bytes"] == (alive + 256 * eager) * FLOAT_BYTES
    assert (
        peak_bytes["compression_ratio"] == peak_bytes["eager_peak_bytes"] / peak_bytes["peak_bytes"]
    )


def test_nothing_held_has_no_ratio() -> None:
    context = context_of(Scripted(lambda x: x), batch=0)
    report_memory(context, lambda x: x)
    assert bytes_by_metric(context) == {"peak_bytes": 0.0, "eager_peak_bytes": 0.0}


def test_a_snapshot_on_a_cpu_is_refused_with_a_hint() -> None:
    context = context_of(Perceptron(), snapshot_path="anywhere")
    report_memory(context, context.subject.model)
    assert [warning.code for warning in context.findings.warnings] == ["no-memory-snapshot"]
    assert "CUDA" in context.findings.warnings[0].hint
    assert "memory_snapshot" not in context.findings.details


def segment(pool: tuple[int, int] | None, *, total: int, allocated: int) -> dict[str, Any]:
    own = {} if pool is None else {"segment_pool_id": pool}
    return {"total_size": total, "allocated_size": allocated, **own}


def test_private_pools_are_counted_apart_from_the_common_one() -> None:
    snapshot = [
        segment((0, 0), total=1000, allocated=10),
        segment(None, total=1000, allocated=10),
        segment((1, 0), total=500, allocated=100),
        segment((0, 2), total=50, allocated=0),
    ]
    assert private_pool_bytes(snapshot) == (550, 450)


def test_eager_has_no_part_in_the_pools_of_cuda_graphs() -> None:
    peak = CudaPeak(allocated=1000, reserved=5000, pools=500, pools_free=400)
    assert peak.of_variant == 1400
    assert peak.of_eager == 900


class FakeAllocator:
    """torch.cuda's allocator: each step sets the marks, `events` says what was called."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.allocated = self.reserved = 0
        self.segments: list[dict[str, Any]] = []

    def note(self, name: str) -> Callable[..., None]:
        return lambda *_, **options: self.events.append(f"{name}{options or ''}")

    def step(self, name: str, *, allocated: int, reserved: int) -> Callable[..., Tensor]:
        def call(**_: Tensor) -> Tensor:
            self.events.append(name)
            self.allocated, self.reserved = allocated, reserved
            return torch.ones(1)

        return call


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAllocator]:
    fake = FakeAllocator()
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, fake.note(name))
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: fake.segments)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: fake.allocated)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: fake.reserved)
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", fake.note("mark"))
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", fake.note("record"))
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", lambda path: Path(path).touch())
    return fake


class Scripted(nn.Module):
    """A model that is one step of a FakeAllocator."""

    def __init__(self, step: Callable[..., Tensor]) -> None:
        super().__init__()
        self.step = step

    def forward(self, **inputs: Tensor) -> Tensor:
        return self.step(**inputs)


def test_cuda_reads_the_marks_of_one_iteration_with_the_caches_empty(
    allocator: FakeAllocator,
) -> None:
    model = Scripted(allocator.step("eager", allocated=3000, reserved=9000))
    context = context_of(model, device=CUDA)
    allocator.segments = [segment((0, 1), total=600, allocated=200)]
    report_memory(context, allocator.step("variant", allocated=1000, reserved=7000))
    assert bytes_by_metric(context) == {
        "peak_bytes": 1400.0,
        "peak_reserved_bytes": 7000.0,
        "cudagraph_pool_bytes": 600.0,
        "eager_peak_bytes": 2800.0,
        "compression_ratio": 2.0,
    }
    begin = ["synchronize", "empty_cache", "reset_peak_memory_stats"]
    assert allocator.events == [*begin, "mark", "variant", "synchronize", *begin, "eager"] + [
        "synchronize"
    ]


def test_a_transformed_variant_reserves_nothing_for_the_eager_model(
    allocator: FakeAllocator,
) -> None:
    eager = Scripted(allocator.step("eager", allocated=3000, reserved=9000))
    eager.weight = nn.Parameter(torch.zeros(11))
    context = context_of(eager, device=CUDA)
    twin = Scripted(allocator.step("variant", allocated=1000, reserved=7000))
    transformed = dataclasses.replace(context.subject, model=twin)
    report_memory(dataclasses.replace(context, transformed=transformed), twin)
    assert bytes_by_metric(context)["peak_reserved_bytes"] == 7000.0 - 11 * 4
    assert bytes_by_metric(context)["peak_bytes"] == 1000.0 - 11 * 4


def test_an_eager_case_on_cuda_has_no_second_eager_peak(allocator: FakeAllocator) -> None:
    model = Scripted(allocator.step("eager", allocated=3000, reserved=9000))
    context = context_of(model, device=CUDA, variant="eager")
    report_memory(context, model)
    assert bytes_by_metric(context) == {"peak_bytes": 3000.0, "peak_reserved_bytes": 9000.0}


def test_the_history_of_the_allocator_is_written_and_switched_off(
    allocator: FakeAllocator, tmp_path: Path
) -> None:
    model = Scripted(allocator.step("step", allocated=1, reserved=1))
    path = tmp_path / "run" / "case.pickle"
    context = context_of(model, device=CUDA, variant="eager", snapshot_path=str(path))
    report_memory(context, model)
    assert path.exists()
    assert context.findings.details["memory_snapshot"] == str(path)
    recorded = allocator.events[allocator.events.index("record{'max_entries': 100000}") :]
    assert recorded[1:] == ["step", "synchronize", "record{'enabled': None}"]

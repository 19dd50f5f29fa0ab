"""The timing of iterations on CUDA, with a GPU that is only a clock and a queue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.metrics import FLUSHED
from compile_hud.db.records.results import Dtype
from compile_hud.runner.measure import device as device_module
from compile_hud.runner.measure.device import FLUSH_FACTOR, Device

CUDA = Device(kind="cuda", num_threads=1)
L2_BYTES = 1000
CALL_MS, FLUSH_MS = 2.0, 30.0


class FakeGpu:
    """Work takes its time in the order in which it was handed over; the host needs 1 s a call."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.host_s = 0.0
        self.log: list[str] = []

    def call(self) -> None:
        self._work("call", CALL_MS)

    def flush(self) -> None:
        self._work("flush", FLUSH_MS)

    def _work(self, name: str, duration_ms: float) -> None:
        self.now_ms += duration_ms
        self.host_s += 1.0
        self.log.append(name)

    def synchronize(self) -> None:
        self.host_s += 4.0
        self.log.append("synchronize")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu()

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at_ms = fake.now_ms
            fake.log.append("event")

        def elapsed_time(self, end: Any) -> float:
            return float(end.at_ms - self.at_ms)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", fake.synchronize)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: fake.log.append("empty cache"))
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda _: SimpleNamespace(L2_cache_size=L2_BYTES),
    )
    monkeypatch.setattr(
        device_module, "_buffer_on_device", lambda size: torch.ones(size, dtype=torch.uint8)
    )
    monkeypatch.setattr(device_module, "time", SimpleNamespace(perf_counter=lambda: fake.host_s))
    return fake


def test_iterations_back_to_back_share_one_pair_of_events(gpu: FakeGpu) -> None:
    timing = CUDA.time_iterations(gpu.call, num_iterations=3)
    assert timing.wall_s == pytest.approx(CALL_MS / 1e3)
    assert timing.cpu_s is None
    assert gpu.log == ["synchronize", "event", "call", "call", "call", "event", "synchronize"]


def test_the_share_of_the_host_ends_where_all_is_handed_over(gpu: FakeGpu) -> None:
    assert CUDA.time_iterations(gpu.call, num_iterations=4).host_share == 0.5


def test_a_flush_before_each_iteration_is_not_part_of_its_time(gpu: FakeGpu) -> None:
    timing = device_module._time_each(gpu.call, num_iterations=2, flush=gpu.flush)
    assert timing.wall_s == pytest.approx(CALL_MS / 1e3)
    iteration = ["flush", "event", "call", "event"]
    assert gpu.log == ["synchronize", *iteration, *iteration, "synchronize"]
    assert timing.host_share == 0.5


def test_a_working_set_that_fits_into_the_cache_is_flushed(gpu: FakeGpu) -> None:
    with CUDA.flushing(working_set_bytes=L2_BYTES) as timer:
        buffer = timer.flush_buffer
        assert buffer is not None
        assert buffer.nbytes == FLUSH_FACTOR * L2_BYTES
        timer.time_iterations(gpu.call, num_iterations=2)
        assert int(buffer.sum()) == 0
        assert gpu.log.count("event") == 4
        assert FLUSHED in timer.clock
    assert buffer.untyped_storage().nbytes() == 0
    assert gpu.log[-1] == "empty cache"


def test_a_larger_working_set_evicts_itself(gpu: FakeGpu, words: SnapshotAssertion) -> None:
    with CUDA.flushing(working_set_bytes=L2_BYTES + 1) as timer:
        assert timer.flush_buffer is None
        assert timer.clock == words
    assert gpu.log == []


def test_a_torch_that_does_not_report_the_size_of_the_cache_flushes_nothing(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace())
    with CUDA.flushing(working_set_bytes=0) as timer:
        assert timer.flush_buffer is None
    assert gpu.log == []


def test_a_cpu_is_not_flushed() -> None:
    cpu = Device(kind="cpu", num_threads=1)
    with cpu.flushing(working_set_bytes=1) as timer:
        assert timer is cpu


def test_a_device_that_only_emulates_bf16_has_no_bf16(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation
    )
    for dtype in (Dtype.BF16, Dtype.BF16_AUTOCAST):
        assert CUDA.unsupported_reason(dtype) == words
        assert Device(kind="cpu", num_threads=1).unsupported_reason(dtype) is None
    assert CUDA.unsupported_reason(Dtype.FP32) is None

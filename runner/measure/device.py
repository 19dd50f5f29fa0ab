"""The device under measurement: its clock, its barriers and its capabilities."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from compile_hud.db.records.metrics import FLUSHED
from compile_hud.db.records.results import Dtype, Phase
from compile_hud.db.shared.text import counted
from compile_hud.runner.measure.latency.timing import Timing

# Written from end to end, twice the cache leaves nothing of the last iteration in it.
FLUSH_FACTOR = 2
TF32_CAPABILITY = (8, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device as torch sees it. `kind` is `cpu` or `cuda`.

    Writing to the `flush_buffer`, if there is one, evicts the L2 cache before each iteration.
    """

    kind: str
    num_threads: int
    flush_buffer: torch.Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def is_cuda(self) -> bool:
        """Return whether this is a CUDA device."""
        return self.kind == "cuda"

    @property
    def clock(self) -> str:
        """Return the clock of `time_iterations` as text for a measurement's method."""
        if self.flush_buffer is not None:
            return (
                f"CUDA events around each of k iterations, each after a write that {FLUSHED},"
                " synchronised inside the timer"
            )
        if self.is_cuda:
            return "CUDA events around k iterations, synchronised inside the timer"
        if self.num_threads == 1:
            return "perf_counter and thread_time around k iterations, one pinned thread"
        return f"perf_counter around k iterations, {counted(self.num_threads, 'thread')}"

    def synchronize(self) -> None:
        """Wait until the device has nothing left to do."""
        if self.is_cuda:
            torch.cuda.synchronize()

    def give_back(self) -> None:
        """Wait for the device and free cached memory."""
        if self.is_cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def time_call(self, call: Callable[[], object]) -> float:
        """Return the wall seconds of one call, synchronised inside the timer."""
        self.synchronize()
        start_s = time.perf_counter()
        call()
        self.synchronize()
        return time.perf_counter() - start_s

    def time_iterations(self, call: Callable[[], object], *, num_iterations: int) -> Timing:
        """Return the mean time of `num_iterations` calls back to back (see `clock`)."""
        if self.flush_buffer is not None:
            return _time_each(call, num_iterations=num_iterations, flush=self.flush_buffer.zero_)
        if self.is_cuda:
            return _time_together(call, num_iterations=num_iterations)
        start_s = time.perf_counter()
        start_cpu_s = time.thread_time()
        for _ in range(num_iterations):
            call()
        cpu_s = time.thread_time() - start_cpu_s
        wall_s = time.perf_counter() - start_s
        return Timing(
            wall_s=wall_s / num_iterations,
            # This thread's clock would miss the work of other threads.
            cpu_s=cpu_s / num_iterations if self.num_threads == 1 else None,
        )

    @contextmanager
    def flushing(self, *, working_set_bytes: int) -> Iterator[Device]:
        """Yield this device, with a flushed L2 cache if that could hold the working set.

        Back-to-back iterations would read from the cache. With other work between them, a real
        program reads from memory. A larger working set evicts itself.
        """
        l2_bytes = _l2_bytes() if self.is_cuda else 0
        if working_set_bytes > l2_bytes or l2_bytes == 0:
            yield self
            return
        buffer = _buffer_on_device(FLUSH_FACTOR * l2_bytes)
        try:
            yield replace(self, flush_buffer=buffer)
        finally:
            # The buffer is freed at once, since reserved memory would count as the model's later.
            buffer.untyped_storage().resize_(0)
            torch.cuda.empty_cache()

    def unsupported_reason(self, dtype: Dtype, *, phase: Phase = Phase.INFERENCE) -> str | None:
        """Return the reason why this device cannot run `dtype` in `phase`, None if it can."""
        if dtype is Dtype.FP16 and phase is Phase.TRAINING:
            # Squares of small gradients and AdamW's epsilon are both 0 in fp16: 0 / 0.
            return "training with weights in fp16 ends in NaN: train under fp16-autocast or in bf16"
        if dtype is Dtype.FP16_AUTOCAST and not self.is_cuda:
            return "fp16 autocast is for CUDA devices: on a CPU half precision is emulated"
        if dtype is Dtype.FP16 and not self.is_cuda and not _cpu_has_fp16():
            return "this CPU has no fp16 arithmetic, only conversions: measure it in bf16"
        # Before Ampere bf16 is emulated, and Triton has none at all.
        is_emulated = self.is_cuda and not torch.cuda.is_bf16_supported(including_emulation=False)
        if dtype in (Dtype.BF16, Dtype.BF16_AUTOCAST) and is_emulated:
            return "this CUDA device has no bf16 arithmetic"
        return self._no_tf32_reason() if dtype is Dtype.TF32 else None

    def _no_tf32_reason(self) -> str | None:
        if not self.is_cuda:
            return "TF32 is a format of CUDA devices: measure it in fp32"
        if torch.cuda.get_device_capability() < TF32_CAPABILITY:
            return "this CUDA device has no TF32, which came with compute capability 8.0"
        if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
            return "NVIDIA_TF32_OVERRIDE=0 forbids TF32: unset it"
        return None

    @contextmanager
    def pinned(self) -> Iterator[int | None]:
        """Pin this thread to one CPU core during the block; yield the core's number.

        It is the last core: interrupts and the parent mostly run on the first ones. With several
        threads and on CUDA nothing is pinned (yields None).
        """
        if self.is_cuda or self.num_threads != 1:
            yield None
            return
        allowed = os.sched_getaffinity(0)
        core = max(allowed)
        os.sched_setaffinity(0, {core})
        try:
            yield core
        finally:
            os.sched_setaffinity(0, allowed)


def _time_together(call: Callable[[], object], *, num_iterations: int) -> Timing:
    start, stop = _event(), _event()
    torch.cuda.synchronize()
    start_s = time.perf_counter()
    start.record()
    for _ in range(num_iterations):
        call()
    stop.record()
    enqueued_s = time.perf_counter()
    torch.cuda.synchronize()
    return Timing(
        wall_s=start.elapsed_time(stop) / 1e3 / num_iterations,
        cpu_s=None,
        host_share=(enqueued_s - start_s) / (time.perf_counter() - start_s),
    )


def _time_each(
    call: Callable[[], object], *, num_iterations: int, flush: Callable[[], object]
) -> Timing:
    """Return the mean time of calls with a pair of events each, without the flushes between them.

    While the device still writes the flush buffer, the host enqueues the event and the first
    kernels, so their launch latency does not count. Nothing synchronises in between. Beyond that a
    host slower than the device does count, as it does without events.
    """
    pairs = [(_event(), _event()) for _ in range(num_iterations)]
    torch.cuda.synchronize()
    start_s = time.perf_counter()
    for start, stop in pairs:
        flush()
        start.record()
        call()
        stop.record()
    enqueued_s = time.perf_counter()
    torch.cuda.synchronize()
    total_ms = sum(start.elapsed_time(stop) for start, stop in pairs)
    return Timing(
        wall_s=total_ms / 1e3 / num_iterations,
        cpu_s=None,
        host_share=(enqueued_s - start_s) / (time.perf_counter() - start_s),
    )


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def _l2_bytes() -> int:
    """Return the size of the L2 cache; 0 if unknown, and then nothing is flushed."""
    return int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0))


def _buffer_on_device(num_bytes: int) -> torch.Tensor:
    return torch.empty(num_bytes, dtype=torch.uint8, device="cuda")


def _cpu_has_fp16() -> bool:
    """Return whether products in fp16 are more than conversions and products in fp32.

    On a core without such arithmetic a product of 512 x 512 took 30 times as long as in fp32.
    """
    # A torch without oneDNN has no such operator.
    has_onednn = torch.backends.mkldnn.is_available()
    return has_onednn and bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())


def allow_tf32() -> None:
    """Let matrix products and convolutions of this process run in TF32.

    These calls set torch's old and new settings consistently. After a direct write to
    `fp32_precision`, the older `get_float32_matmul_precision` and `allow_tf32` raise.
    """
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True


def open_device(kind: str, *, num_threads: int) -> Device:
    """Return the device `kind`; raise RuntimeError when this machine or torch has none."""
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(f"unknown device {kind!r}; allowed: cpu, cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(
            "no CUDA device is usable by this torch"
            f" ({torch.__version__}); check `nvidia-smi` and that torch is a CUDA build"
        )
    torch.set_num_threads(num_threads)
    return Device(kind=kind, num_threads=num_threads)

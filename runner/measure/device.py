"""The device under measurement: its clock, its barriers and what it can do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from db.records import Dtype
from runner.measure.timing import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device as torch sees it. `kind` is `cpu` or `cuda`."""

    kind: str
    num_threads: int

    @property
    def is_cuda(self) -> bool:
        """Return whether this is a CUDA device."""
        return self.kind == "cuda"

    @property
    def clock(self) -> str:
        """Return how `time_iterations` times, for a measurement's method."""
        if self.is_cuda:
            return "CUDA events around k iterations, synchronised inside the timer"
        if self.num_threads == 1:
            return "perf_counter and thread_time around k iterations, one pinned thread"
        return f"perf_counter around k iterations, {self.num_threads} threads"

    def synchronize(self) -> None:
        """Wait until the device has nothing left to do."""
        if self.is_cuda:
            torch.cuda.synchronize()

    def time_call(self, call: Callable[[], object]) -> float:
        """Return the wall seconds of one call, synchronised inside the timer."""
        self.synchronize()
        start_s = time.perf_counter()
        call()
        self.synchronize()
        return time.perf_counter() - start_s

    def time_iterations(self, call: Callable[[], object], *, num_iterations: int) -> Timing:
        """Return the mean time of `num_iterations` calls back to back (see `clock`)."""
        if self.is_cuda:
            return self._time_on_cuda(call, num_iterations=num_iterations)
        start_s = time.perf_counter()
        start_cpu_s = time.thread_time()
        for _ in range(num_iterations):
            call()
        cpu_s = time.thread_time() - start_cpu_s
        wall_s = time.perf_counter() - start_s
        return Timing(
            wall_s=wall_s / num_iterations,
            # With several threads the work of the others is missing from this thread's clock.
            cpu_s=cpu_s / num_iterations if self.num_threads == 1 else None,
        )

    def _time_on_cuda(self, call: Callable[[], object], *, num_iterations: int) -> Timing:
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        for _ in range(num_iterations):
            call()
        stop.record()
        torch.cuda.synchronize()
        return Timing(wall_s=start.elapsed_time(stop) / 1e3 / num_iterations, cpu_s=None)

    def why_unsupported(self, dtype: Dtype) -> str | None:
        """Return why this device cannot run `dtype`, None when it can."""
        if dtype is Dtype.FP16_AUTOCAST and not self.is_cuda:
            return "fp16 autocast is for CUDA devices: on a CPU half precision is emulated"
        if dtype is Dtype.BF16 and self.is_cuda and not torch.cuda.is_bf16_supported():
            return "this CUDA device has no bf16 arithmetic"
        return None

    @contextmanager
    def pinned(self) -> Iterator[int | None]:
        """Keep this thread on one CPU core while the block runs; yield its number.

        The last core is taken: interrupts and the parent mostly run on the first ones. Nothing is
        pinned with several threads or on CUDA (yields None).
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

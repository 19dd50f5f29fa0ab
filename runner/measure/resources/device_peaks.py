"""The measured peaks of a device, the references of MFU and of the share of the bandwidth.

Method: the best of many matrix products of a few sizes in each dtype, and the best of several
copies between buffers larger than any cache. Other load can only make them slower, so the best
counts. The timer is that of MFU: events on CUDA; on a CPU with one thread the thread's CPU time,
which neighbours affect least, on the core that cases run on; with several threads the wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from compile_hud.db.records.results import Dtype
from compile_hud.runner.measure.device import Device

# The facts by the dtype that products run in; runner/execution/utilisation.py has those of every
# dtype.
PEAK_DTYPES = {
    Dtype.FP32: ("fp32_flops_per_s", torch.float32),
    Dtype.BF16: ("bf16_flops_per_s", torch.bfloat16),
    Dtype.FP16: ("fp16_flops_per_s", torch.float16),
}
# By default cuDNN runs fp32 convolutions in TF32, even if matrix products do not.
TF32_NAME = "tf32_flops_per_s"
# A core reaches its best at 512 already; many threads or a GPU need larger sizes.
CPU_SIZES = (512, 1024, 2048, 4096)
CUDA_SIZES = (4096, 8192)
# 100 products of the first size on one core; the first result waits no longer than this.
CPU_BUDGET_S = 0.2
# A GPU takes some hundred milliseconds to raise its clocks.
CUDA_BUDGET_S = 0.5
# Several products between two readings of the clock hide the cost of a launch.
CUDA_ITERATIONS = 5
MIN_COPY_BYTES = 64 * 2**20
MAX_COPY_BYTES = 256 * 2**20
CUDA_COPY_BYTES = 2**30
# Buffers of four times the last cache: hardly anything of one is left there when it is read again.
CACHE_FACTOR = 4
L3_SIZE = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
METHOD = "best of repeated square products (torch.mm) and of copies between buffers past the caches"

Call = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The time limit of a peak's measurement, with its timer and its clock."""

    budget_s: float
    time_s: Callable[[Call], float]
    now_s: Callable[[], float] = time.perf_counter


def measure_peaks(device: Device) -> dict[str, Any]:
    """Return the peaks of `device` in FLOP/s and B/s, with how they were measured."""
    num_iterations = CUDA_ITERATIONS if device.is_cuda else 1
    budget = Budget(
        budget_s=CUDA_BUDGET_S if device.is_cuda else CPU_BUDGET_S,
        time_s=lambda call: (
            device.time_iterations(call, num_iterations=num_iterations).least_noisy_s
        ),
    )
    peaks: dict[str, Any] = {}
    with device.pinned():
        for dtype, (name, torch_dtype) in PEAK_DTYPES.items():
            if device.unsupported_reason(dtype) is None:
                peaks[name] = product_flops_per_s(torch_dtype, device=device, budget=budget)
        if device.is_cuda and torch.backends.cudnn.allow_tf32:
            with _tf32_products():
                rate = product_flops_per_s(torch.float32, device=device, budget=budget)
            peaks[TF32_NAME] = rate
        peaks["copy_bytes_per_s"] = copy_bytes_per_s(device, budget=budget)
    return {
        **peaks,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "method": METHOD,
    }


@contextmanager
def _tf32_products() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def product_flops_per_s(dtype: torch.dtype, *, device: Device, budget: Budget) -> float:
    """Return the most operations a second that a matrix product in `dtype` reaches."""

    def make(size: int) -> Call:
        # Random numbers: with zeros a GPU draws less power and clocks higher than with any model.
        left, right = (torch.randn(size, size, device=device.kind).to(dtype) for _ in range(2))
        result = torch.empty_like(left)
        return lambda: torch.mm(left, right, out=result)

    sizes: tuple[int, ...] = CUDA_SIZES if device.is_cuda else CPU_SIZES
    if device.is_cuda:
        # Three matrices, and the random numbers before they are rounded.
        limit = _free_bytes() / (4 * 4)
        sizes = tuple(size for size in sizes if size * size < limit) or sizes[:1]
    return best_rate(make, sizes=sizes, work=lambda size: 2.0 * size**3, budget=budget)


def copy_bytes_per_s(device: Device, *, budget: Budget) -> float:
    """Return the most bytes a second, read and written, that a copy past the caches reaches."""
    num_bytes = CUDA_COPY_BYTES if device.is_cuda else copy_size_bytes(L3_SIZE)
    if device.is_cuda:
        num_bytes = min(num_bytes, _free_bytes() // 4)

    def make(size: int) -> Call:
        source = torch.ones(size, dtype=torch.uint8, device=device.kind)
        target = torch.empty_like(source)
        return lambda: target.copy_(source)

    return best_rate(make, sizes=(num_bytes,), work=lambda size: 2.0 * size, budget=budget)


def best_rate(
    make: Callable[[int], Call],
    *,
    sizes: Sequence[int],
    work: Callable[[int], float],
    budget: Budget,
) -> float:
    """Return the best of `work(size)` over the seconds that a call of `make(size)` takes.

    Sizes are tried in order. Each gets its share of the budget and at least one timed call. A size
    that would exceed the remaining budget is not started.
    """
    best = 0.0
    deadline_s = budget.now_s() + budget.budget_s
    for number, size in enumerate(sizes):
        left_s = deadline_s - budget.now_s()
        if best and 2 * work(size) / best > left_s:
            break
        call = make(size)
        call()
        until_s = budget.now_s() + left_s / (len(sizes) - number)
        while True:
            best = max(best, work(size) / budget.time_s(call))
            if budget.now_s() >= until_s:
                break
    return best


def copy_size_bytes(l3_size: Path) -> int:
    """Return a buffer size of which the CPU's last cache can hold only a small part."""
    try:
        text = l3_size.read_text(encoding="ascii").strip()
        num_bytes = int(text.removesuffix("K")) * 1024
    except (OSError, ValueError):
        return MIN_COPY_BYTES
    return min(max(CACHE_FACTOR * num_bytes, MIN_COPY_BYTES), MAX_COPY_BYTES)


def _free_bytes() -> int:
    free_bytes, _ = torch.cuda.mem_get_info()
    return free_bytes

"""Peak memory of one iteration.

On CUDA: the allocator's own high-water mark. On a CPU: what is alive before the iteration
(parameters, buffers, inputs, gradients, optimizer state, counted by storage) plus the highest
balance of the allocations and frees that the allocator reports to the profiler during it. The
resident set size is no substitute: it moves with malloc's caching and with whatever was imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from runner.measure.device import Device

MEMORY_EVENT = "[memory]"
METHOD_CUDA = "torch.cuda.max_memory_allocated over one iteration after reset_peak_memory_stats"
METHOD_CPU = "bytes alive before one iteration + highest allocator balance in it (torch.profiler)"


def peak_bytes(
    step: Callable[[], object], *, alive: Iterable[torch.Tensor], device: Device
) -> tuple[int, str]:
    """Return the peak in bytes of one call of `step`, and the method."""
    if device.is_cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated(), METHOD_CUDA
    before = storage_bytes(alive)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    return before + highest_balance(allocation_events(profiler)), METHOD_CPU


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the distinct storages behind `tensors`."""
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors
    }
    return sum(storages.values())


def allocation_events(profiler: profile) -> list[int]:
    """Return the allocator's events in time order: bytes taken (above 0) and given back (below)."""
    inner = profiler.profiler
    results = None if inner is None else inner.kineto_results
    if results is None:
        return []
    events = [event for event in results.events() if event.name() == MEMORY_EVENT]
    return [_nbytes(event) for event in sorted(events, key=lambda event: event.start_ns())]


def _nbytes(event: Any) -> int:
    # torch's own type stub leaves this method out.
    return int(event.nbytes())


def highest_balance(changes: Iterable[int]) -> int:
    """Return the highest running sum of `changes`, at least 0."""
    balance = highest = 0
    for change in changes:
        balance += change
        highest = max(highest, balance)
    return highest

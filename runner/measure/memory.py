"""Peak memory of one iteration.

On CUDA: the allocator's own high-water mark. On a CPU: what is alive before the iteration
(parameters, buffers, inputs, gradients, optimizer state, counted by storage) plus the highest
balance of the allocations and frees that the allocator reports to the profiler during it. The
resident set size is no substitute: it moves with malloc's caching and with whatever was imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from runner.measure.context import Context, Forward
from runner.measure.device import Device

MEMORY_EVENT = "[memory]"
METHOD_CUDA = (
    "torch.cuda.max_memory_allocated over one iteration after reset_peak_memory_stats,"
    " plus what the private pools of CUDA graphs keep"
)
# The pool of everything that belongs to no CUDA graph.
COMMON_POOL = (0, 0)
METHOD_CPU = "bytes alive before one iteration + highest allocator balance in it (torch.profiler)"


def report_memory(context: Context, forward: Forward) -> None:
    """Keep the peak of one iteration through `forward`."""
    subject = context.subject
    peak, method = peak_bytes(subject.step(forward), alive=subject.alive(), device=context.device)
    context.found.add("peak_bytes", (float(peak),), method=method)


def peak_bytes(
    step: Callable[[], object], *, alive: Iterable[torch.Tensor], device: Device
) -> tuple[int, str]:
    """Return the peak in bytes of one call of `step`, and the method."""
    if device.is_cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        pools = private_pool_bytes(torch.cuda.memory_snapshot())
        return torch.cuda.max_memory_allocated() + pools, METHOD_CUDA
    before = storage_bytes(alive)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    return before + highest_balance(allocation_events(profiler)), METHOD_CPU


def private_pool_bytes(snapshot: Iterable[Mapping[str, Any]]) -> int:
    """Return the bytes that CUDA graphs keep in pools of their own and that count as free.

    A replay writes into them without asking the allocator, so its statistics do not show them.
    """
    return sum(
        segment["total_size"] - segment["allocated_size"]
        for segment in snapshot
        if tuple(segment.get("segment_pool_id", COMMON_POOL)) != COMMON_POOL
    )


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

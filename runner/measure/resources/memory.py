"""Peak memory of one iteration, of the variant and of eager.

On CUDA: the allocator's own high-water marks. On a CPU: the memory alive before the iteration
(parameters, buffers, inputs, gradients, optimizer state, counted by storage) plus the highest
balance of the allocations and frees that the allocator reports to the profiler during it. The
resident set size is no substitute: it varies with malloc's caching and with imported modules.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.runtimes.registry import allocates_itself

MEMORY_EVENT = "[memory]"
METHOD_CUDA = (
    "torch.cuda.max_memory_allocated over one iteration after reset_peak_memory_stats,"
    " plus what the private pools of CUDA graphs keep"
)
METHOD_CUDA_EAGER = (
    "torch.cuda.max_memory_allocated over one eager iteration after reset_peak_memory_stats,"
    " less what the variant's CUDA graphs hold"
)
METHOD_RESERVED = (
    "torch.cuda.max_memory_reserved over the same iteration, caches emptied before,"
    " less what only eager's model beside a treated one holds"
)
METHOD_POOLS = "total size of the segments of private pools in torch.cuda.memory_snapshot"
METHOD_CPU = "bytes alive before one iteration + highest allocator balance in it (torch.profiler)"
METHOD_RATIO = "eager_peak_bytes over peak_bytes"
# The pool of all memory outside of CUDA graphs.
COMMON_POOL = (0, 0)
# An iteration of a large model allocates some thousand times; the rest would be cut off silently.
MAX_ENTRIES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaPeak:
    """The high-water marks of one iteration on CUDA, in bytes.

    `pools` is the memory in the private pools of CUDA graphs. `pools_free` of it counts as free: a
    replay writes there without the allocator, so the allocator's statistics miss it.
    """

    allocated: int
    reserved: int
    pools: int
    pools_free: int

    @property
    def of_variant(self) -> int:
        """Return the peak including the memory of the CUDA graphs."""
        return self.allocated + self.pools_free

    @property
    def of_eager(self) -> int:
        """Return the peak without the variant's CUDA graphs, which eager does not use."""
        return self.allocated - (self.pools - self.pools_free)


def report_memory(context: Context, forward: Forward) -> None:
    """Record the peak of one iteration through `forward`, and of an eager one.

    Another runtime has no peak: torch's allocator does not see its memory.
    """
    if allocates_itself(context.request.case):
        context.findings.warn(
            "no-memory",
            f"{context.request.case.backend} allocates its memory itself, where torch does not see"
            " it: no peak memory",
            hint="the resident set size would be that of eager's model as well",
        )
        return
    if context.device.is_cuda:
        peak, eager_peak, method = _report_cuda(context, forward)
    else:
        peak, eager_peak, method = _report_cpu(context, forward)
    context.findings.add("peak_bytes", (float(peak),), method=method)
    if eager_peak is not None:
        method = METHOD_CUDA_EAGER if context.device.is_cuda else METHOD_CPU
        context.findings.add("eager_peak_bytes", (float(eager_peak),), method=method)
        if peak:
            context.findings.add("compression_ratio", (eager_peak / peak,), method=METHOD_RATIO)
    if context.request.snapshot_path:
        _keep_snapshot(context, forward)


def _report_cuda(context: Context, forward: Forward) -> tuple[int, int | None, str]:
    findings = context.findings
    peak = cuda_peak(context.step(forward))
    idle = idle_bytes(context, forward)
    findings.add("peak_reserved_bytes", (float(peak.reserved - idle),), method=METHOD_RESERVED)
    if context.is_eager:
        return peak.of_variant, None, METHOD_CUDA
    findings.add("cudagraph_pool_bytes", (float(peak.pools),), method=METHOD_POOLS)
    eager = context.subject.model
    eager_peak = cuda_peak(context.step(eager)).of_eager - idle_bytes(context, eager)
    return peak.of_variant - idle, eager_peak, METHOD_CUDA


def _report_cpu(context: Context, forward: Forward) -> tuple[int, int | None, str]:
    peak = _cpu_peak_bytes(context, forward)
    if context.is_eager:
        return peak, None, METHOD_CPU
    return peak, _cpu_peak_bytes(context, context.subject.model), METHOD_CPU


def _cpu_peak_bytes(context: Context, forward: Forward) -> int:
    subject = context.subject_of(forward)
    # An iteration begins by dropping the previous gradients. The profiler does not report frees of
    # memory allocated before it started, so those gradients would count twice.
    subject.zero_grad()
    return cpu_peak_bytes(subject.step(forward), alive=subject.alive())


def idle_bytes(context: Context, forward: Forward) -> int:
    """Return the bytes that are alive for the other model while `forward` runs.

    A variant that transforms its model has a copy next to eager's; neither needs the other.
    """
    busy = storages(context.subject_of(forward).alive())
    both = storages((*context.subject.alive(), *context.variant.alive()))
    return sum(num_bytes for address, num_bytes in both.items() if address not in busy)


def cuda_peak(step: Callable[[], object]) -> CudaPeak:
    """Return the allocator's marks over one call of `step`, its caches emptied before."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    pools, pools_free = private_pool_bytes(torch.cuda.memory_snapshot())
    return CudaPeak(
        allocated=torch.cuda.max_memory_allocated(),
        reserved=torch.cuda.max_memory_reserved(),
        pools=pools,
        pools_free=pools_free,
    )


def cpu_peak_bytes(step: Callable[[], object], *, alive: Iterable[torch.Tensor]) -> int:
    """Return the peak in bytes of one call of `step` on a CPU; `alive` exists all the time."""
    before = storage_bytes(alive)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    return before + highest_balance(allocation_events(profiler))


def private_pool_bytes(snapshot: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Return the bytes in private pools of CUDA graphs: all, and the free ones."""
    segments = [
        segment
        for segment in snapshot
        if tuple(segment.get("segment_pool_id", COMMON_POOL)) != COMMON_POOL
    ]
    total = sum(int(segment["total_size"]) for segment in segments)
    return total, total - sum(int(segment["allocated_size"]) for segment in segments)


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the distinct storages behind `tensors`."""
    return sum(storages(tensors).values())


def storages(tensors: Iterable[torch.Tensor]) -> dict[int, int]:
    """Return the bytes of the distinct storages behind `tensors`, by address."""
    return {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors
    }


def allocation_events(profiler: profile) -> list[int]:
    """Return the allocator's events in time order: bytes allocated (above 0) and freed (below)."""
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


def _keep_snapshot(context: Context, forward: Forward) -> None:
    """Write the allocator history of one more iteration, or warn that there is none."""
    if not context.device.is_cuda:
        context.findings.warn(
            "no-memory-snapshot",
            "an allocator snapshot was requested, but the CPU's allocator has none",
            hint="measure on CUDA, or turn [run] memory_snapshot off",
        )
        return
    path = Path(context.request.snapshot_path)
    write_snapshot(context.step(forward), path=path)
    context.findings.details["memory_snapshot"] = str(path)


def write_snapshot(step: Callable[[], object], *, path: Path) -> None:
    """Write the allocator history of one call of `step`, with the stack of each allocation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES)
    try:
        step()
        torch.cuda.synchronize()
        torch.cuda.memory._dump_snapshot(str(path))
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)

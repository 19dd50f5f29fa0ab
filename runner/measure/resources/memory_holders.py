"""The step `allocations` of a launch: the holders of memory at the peak of one iteration.

One more iteration runs under the profiler with its memory events, after the peak was measured. The
allocations that are alive at the highest balance are summed by operator and module. Earlier memory
is summed by role: parameters, gradients, optimizer state, inputs and the rest. All rows add up to
the peak of this iteration, to the byte.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.profiler import ProfilerActivity, profile

from compile_hud.db.records.memory.peak import MEMORY_PEAK, HolderKind, MemoryHolder, PeakHolders
from compile_hud.runner.measure.compile.compiler import is_uncompiled
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.kernels.profile_step import module_ranges
from compile_hud.runner.measure.resources.allocation_events import (
    AllocationEvent,
    RecordedAllocations,
    read_allocations,
)
from compile_hud.runner.measure.resources.compiled_buffers import BufferUse, watched_buffers
from compile_hud.runner.measure.resources.memory import (
    highest_balance,
    idle_bytes,
    private_pool_bytes,
    storages,
)
from compile_hud.runner.measure.runtimes.registry import allocates_itself
from compile_hud.runner.measure.subject import Subject, held_tensors, plain_tensors

# Memory before the iteration that no tensor of the subject has: workspaces of libraries, outputs.
OTHER = "other"
GRAPH_POOLS = "pools of CUDA graphs"
_TORCH = str(Path(torch.__file__).parent)


def is_explained(context: Context) -> bool:
    """Return whether the holders are recorded: with the kernels, and where torch allocates."""
    request = context.request
    return bool(request.trace_path) and not (request.is_watched or allocates_itself(request.case))


def report_holders(context: Context, forward: Forward) -> None:
    """Record the holders of memory at the peak of one more iteration through `forward`."""
    subject, step = context.subject_of(forward), context.step(forward)
    is_cuda = context.device.is_cuda
    # Frees of gradients from earlier iterations are not reported on a CPU.
    subject.zero_grad()
    if is_cuda:
        gc.collect()
        torch.cuda.synchronize()
    before = alive_by_role(subject)
    in_use = torch.cuda.memory_allocated() if is_cuda else sum(before.values())
    in_use -= idle_bytes(context, forward) if is_cuda else 0
    lines: dict[str, str] = {}
    # CUPTI is not needed: the allocator reports from the host.
    activities = [ProfilerActivity.CPU]
    with (
        _named_ranges(context, lines) as uses,
        profile(activities=activities, profile_memory=True) as profiler,
    ):
        step()
    pools, pools_free = 0, 0
    if is_cuda:
        torch.cuda.synchronize()
        pools, pools_free = private_pool_bytes(torch.cuda.memory_snapshot())
    peak = holders_at_peak(
        read_allocations(profiler, device=context.device.kind),
        before=before,
        # A replay writes to the free part of the pools without the allocator.
        in_use=in_use + pools_free,
        pools=pools,
        uses=uses,
        lines={**context.call_lines, **lines},
    )
    context.findings.details[MEMORY_PEAK] = peak.to_json()


def alive_by_role(subject: Subject) -> dict[str, int]:
    """Return the bytes on the subject's device that live between iterations, by their role."""
    model = subject.model
    states = [] if subject.optimizer is None else list(subject.optimizer.state.values())
    roles: dict[str, Iterable[torch.Tensor]] = {
        "parameters": model.parameters(),
        "buffers": model.buffers(),
        "inputs": subject.inputs.values(),
        "gradients": [item.grad for item in model.parameters() if item.grad is not None],
        "optimizer state": [
            value for state in states for value in state.values() if torch.is_tensor(value)
        ],
        "attributes of modules": [tensor for _, tensor in held_tensors(model)],
    }
    known: set[int] = set()
    sizes = {}
    for role, tensors in roles.items():
        plain = [item for tensor in tensors for item in plain_tensors(tensor)]
        here = storages(item for item in plain if item.device.type == subject.device.kind)
        sizes[role] = sum(size for address, size in here.items() if address not in known)
        known |= here.keys()
    return sizes


def holders_at_peak(
    recorded: RecordedAllocations,
    *,
    before: Mapping[str, int],
    in_use: int,
    pools: int = 0,
    uses: Mapping[int, BufferUse],
    lines: Mapping[str, str],
) -> PeakHolders:
    """Return the holders at the first moment of the highest balance.

    `in_use` is all memory before the first event, `before` the part of it with a role. `pools` is
    the size of the pools of CUDA graphs. `uses` has the uses of buffers, `lines` the user's line by
    module.
    """
    alive, freed = alive_at_peak(recorded.events)
    holders = [
        MemoryHolder(kind=HolderKind.BEFORE, operator=role, num_bytes=size, count=1)
        for role, size in before.items()
    ]
    left = in_use - freed - sum(before.values())
    for kind, name, size in (
        (HolderKind.GRAPHS, GRAPH_POOLS, min(pools, left)),
        (HolderKind.BEFORE, OTHER, left - min(pools, left)),
    ):
        # Roles count bytes of tensors; the allocator rounds them up, so nothing is below 0.
        holders.append(MemoryHolder(kind=kind, operator=name, num_bytes=max(0, size), count=1))
    for event in alive:
        use = uses.get(-1 if event.buffer is None else event.buffer)
        if use is None:
            module = recorded.module_of(event)
            use = BufferUse(operator=event.operator, module=module, line=lines.get(module, ""))
        holders.append(
            MemoryHolder(
                kind=HolderKind.OPERATOR,
                operator=use.operator,
                module=use.module,
                line=use.line,
                num_bytes=event.num_bytes,
                count=1,
            )
        )
    return PeakHolders.of(holders)


def alive_at_peak(events: Sequence[AllocationEvent]) -> tuple[list[AllocationEvent], int]:
    """Return the allocations alive at the first highest balance, and the earlier bytes freed then.

    Earlier bytes are of memory that was allocated before the first event.
    """
    peak = highest_balance(event.num_bytes for event in events)
    alive: dict[int, AllocationEvent] = {}
    balance = freed = 0
    for event in events:
        if balance == peak:
            break
        balance += event.num_bytes
        if event.num_bytes > 0:
            alive[event.address] = event
        elif alive.pop(event.address, None) is None:
            freed -= event.num_bytes
    return list(alive.values()), freed


@contextmanager
def _named_ranges(context: Context, lines: dict[str, str]) -> Iterator[Mapping[int, BufferUse]]:
    """Show modules, or buffers of compiled code, as ranges; yield the uses of the buffers."""
    if is_uncompiled(context.request.case):
        model = context.variant.model
        with module_ranges(model), _call_lines(model, lines):
            yield {}
    else:
        with watched_buffers(context) as buffers:
            yield buffers.uses


@contextmanager
def _call_lines(model: torch.nn.Module, lines: dict[str, str]) -> Iterator[None]:
    """Add the user's line that calls each module of torch to `lines` while the block runs.

    A module of the user has operators in several lines, so that none of them is its line.
    """
    paths = {
        module: path
        for path, module in model.named_modules()
        if path and type(module).__module__.split(".")[0] == "torch"
    }

    def enter(module: torch.nn.Module, _inputs: Any) -> None:
        path = paths.get(module)
        if path is not None and path not in lines:
            lines[path] = _user_line()

    handle = register_module_forward_pre_hook(enter)
    try:
        yield
    finally:
        handle.remove()


def _user_line() -> str:
    """Return the innermost line outside of torch and this file; "" if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name != __file__ and not name.startswith(_TORCH):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""

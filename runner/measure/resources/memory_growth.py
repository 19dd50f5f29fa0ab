"""Growth of the memory that lives between iterations, as by a leak.

Method: on CUDA the allocated bytes, on a CPU the balance of the allocations that the profiler
reports, after two numbers of iterations. A single allocation cancels out. The modules' own
attributes are searched for the holder.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from itertools import pairwise

import torch
from torch.profiler import ProfilerActivity, profile

from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.resources.memory import allocation_events, storage_bytes
from compile_hud.runner.measure.subject import Subject, held_tensors, plain_tensors

# A leak grows in each stretch; an allocation that happens once or now and then does not.
NUM_ITERATIONS = 2
NUM_STRETCHES = 2
# An iteration that keeps a few numbers (a counter, a running mean) is no leak yet.
MIN_BYTES = 1024
# Recording every allocation is slow.
MAX_RECORDED_S = 0.05


def report_growth(context: Context, forward: Forward) -> None:
    """Warn if each iteration through `forward` leaves memory behind, with the bytes and the holder.

    On a CPU allocations are recorded for eager alone, and not for long iterations; otherwise the
    attributes of the modules decide.
    """
    subject, step = context.subject_of(forward), context.step(forward)
    before = held_bytes(subject)
    num_bytes = growth(step, subject=subject, is_recorded=context.is_eager)
    if num_bytes < MIN_BYTES:
        return
    after = held_bytes(subject)
    by_holder = {name: number - before.get(name, 0) for name, number in after.items()}
    growing = {name: number for name, number in by_holder.items() if number >= MIN_BYTES}
    holder = max(growing, key=lambda name: growing[name], default="")
    context.findings.details["memory_growth"] = {
        "bytes_per_iteration": num_bytes,
        "holder": holder,
    }
    where = f", held by `{holder}`" if holder else ""
    context.findings.warn(
        "memory-grows",
        f"memory that lives between iterations grows by {num_bytes / 1024:,.0f} KiB an"
        f" iteration{where}",
        hint="drop or detach what forward keeps; the peak is that of one iteration at this point",
    )


def held_bytes(subject: Subject) -> Mapping[str, int]:
    """Return the bytes of the tensors in each attribute of the modules, by `layers.0.cache`."""
    tensors: dict[str, list[torch.Tensor]] = {}
    for name, tensor in held_tensors(subject.model):
        tensors.setdefault(name, []).extend(plain_tensors(tensor))
    return {name: storage_bytes(items) for name, items in tensors.items()}


def growth(step: Callable[[], object], *, subject: Subject, is_recorded: bool) -> int:
    """Return the bytes that each call of `step` leaves, the least over the stretches.

    On a CPU allocations are recorded if `is_recorded` and a call is short.
    """
    start_s = time.perf_counter()
    step()
    is_short = time.perf_counter() - start_s <= MAX_RECORDED_S
    if not subject.device.is_cuda and not (is_recorded and is_short):
        return _growth_of_attributes(step, subject=subject)
    balance = _balance_cuda if subject.device.is_cuda else _balance_cpu
    balances = [
        balance(step, num=number * NUM_ITERATIONS, subject=subject)
        for number in range(1, NUM_STRETCHES + 2)
    ]
    slopes = [(later - sooner) // NUM_ITERATIONS for sooner, later in pairwise(balances)]
    return max(0, min(slopes))


def _balance_cuda(step: Callable[[], object], *, num: int, subject: Subject) -> int:
    """Return the bytes that `num` calls leave in torch's allocator."""
    subject.zero_grad()
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(num):
        step()
    torch.cuda.synchronize()
    gc.collect()
    return torch.cuda.memory_allocated() - before


def _balance_cpu(step: Callable[[], object], *, num: int, subject: Subject) -> int:
    """Return the bytes that `num` calls leave, by the profiler's allocations and frees."""
    # The frees of earlier gradients are not reported: their allocation was before.
    subject.zero_grad()
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(num):
            step()
        gc.collect()
    return sum(allocation_events(profiler))


def _growth_of_attributes(step: Callable[[], object], *, subject: Subject) -> int:
    """Return the bytes that each call leaves in attributes of the modules, the least of a few."""
    sizes = [sum(held_bytes(subject).values())]
    for _ in range(NUM_STRETCHES):
        step()
        sizes.append(sum(held_bytes(subject).values()))
    return max(0, min(later - sooner for sooner, later in pairwise(sizes)))

"""The allocator's events of a profiled block, each with its enclosing operators and module.

torch.profiler writes an event for each allocation and each free. Its tree of events names the
enclosing operators without a stack of Python. A backward operator has the number of its forward
one, and thereby its module. The tree is an internal of torch, and only this file uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch.profiler import profile

MODULE_RANGE = "hud/module:"
BUFFER_RANGE = "hud/buffer:"
NO_OPERATOR = "outside of operators"
COMPILED_CODE = "compiled code"
_OWN_RANGE = "hud/"
_BACKWARD = "autograd::engine::evaluate_function: "
# An operator asks these for its memory; they say nothing about its use.
_ALLOCATING = frozenset(
    f"aten::{name}"
    for name in (
        "empty",
        "empty_like",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
    )
)
# The names have a hash of the graph, and the number of the frame.
_COMPILED = re.compile(r"## Call CompiledFxGraph .*|Torch-Compiled Region: .*")
_NO_NUMBER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationEvent:
    """An allocation of `num_bytes` at `address`, or a free if they are below 0.

    `stack` has the names of the enclosing operators and ranges, the outermost first. `number` is
    autograd's number of the enclosing backward operator, -1 outside of backward.
    """

    time_ns: int
    address: int
    num_bytes: int
    stack: tuple[str, ...] = ()
    number: int = _NO_NUMBER

    @property
    def operator(self) -> str:
        """Return the innermost operator that uses the memory, after its backward function."""
        function = next((_backward(name) for name in self.stack if name.startswith(_BACKWARD)), "")
        for name in reversed(self.stack):
            if name in _ALLOCATING or name.startswith((_OWN_RANGE, _BACKWARD)):
                continue
            label = COMPILED_CODE if _COMPILED.fullmatch(name) else name
            return f"{function}: {label}" if function and label != function else label
        return self.stack[-1] if self.stack and self.stack[-1] in _ALLOCATING else NO_OPERATOR

    @property
    def module(self) -> str:
        """Return the path of the innermost module of the event, "" outside of all."""
        return self._last(MODULE_RANGE)

    @property
    def buffer(self) -> int | None:
        """Return the number of the buffer of compiled code, None for other memory."""
        number = self._last(BUFFER_RANGE)
        return int(number) if number else None

    def _last(self, prefix: str) -> str:
        names = (name for name in reversed(self.stack) if name.startswith(prefix))
        return next(names, prefix).removeprefix(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAllocations:
    """The events in time order; `modules` has the module of each forward operator by number."""

    events: tuple[AllocationEvent, ...]
    modules: Mapping[int, str]

    def module_of(self, event: AllocationEvent) -> str:
        """Return the module of an event, that of the forward operator in backward."""
        return event.module or self.modules.get(event.number, "")


def read_allocations(profiler: profile, *, device: str) -> RecordedAllocations:
    """Return the events of the allocator of `device` (`cpu`, `cuda`) in a finished profile.

    Raises RuntimeError if this torch has another tree.
    """
    inner = profiler.profiler
    results = None if inner is None else inner.kineto_results
    if results is None:
        return RecordedAllocations(events=(), modules={})
    modules: dict[int, str] = {}
    try:
        events = list(_events(results.experimental_event_tree(), device=device, modules=modules))
    except AttributeError as error:
        raise RuntimeError(
            f"the profiler of torch has no events of its allocator: {error}"
        ) from error
    return RecordedAllocations(
        events=tuple(sorted(events, key=lambda event: event.time_ns)), modules=modules
    )


def _events(
    roots: Iterable[Any], *, device: str, modules: dict[int, str]
) -> Iterator[AllocationEvent]:
    """Yield the events below `roots`, and add the modules of forward operators to `modules`."""
    pending: list[tuple[Any, tuple[str, ...], int]] = [
        (root, (), _NO_NUMBER) for root in reversed(list(roots))
    ]
    while pending:
        event, stack, number = pending.pop()
        fields, kind = event.extra_fields, event.tag.name
        if kind == "Allocation":
            if fields.device.type == device:
                yield AllocationEvent(
                    time_ns=event.start_time_ns,
                    address=fields.ptr,
                    num_bytes=fields.alloc_size,
                    stack=stack,
                    number=number,
                )
        elif kind == "TorchOp":
            stack = (*stack, event.name)
            if event.name.startswith(_BACKWARD):
                number = fields.sequence_number
            elif number == _NO_NUMBER and fields.sequence_number >= 0:
                # An operator made of others shares the number of the first one: the last is it.
                path = AllocationEvent(time_ns=0, address=0, num_bytes=0, stack=stack).module
                modules[fields.sequence_number] = path
        pending += [(child, stack, number) for child in reversed(event.children)]


def _backward(name: str) -> str:
    return name.removeprefix(_BACKWARD).rpartition("::")[2]

"""The buffers of compiled code, each with the kernel or library call that first uses it.

Inductor's code allocates its buffers by functions that the profiler does not show. While the block
runs, each such call is in a range of its own number. The first kernel that is called with the
buffer gives it a name, a module and a line. The functions are internals of torch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.kernels.generated_code import (
    GeneratedKernel,
    generated_modules,
    range_maker,
    replaced,
    visible_kernels,
)
from compile_hud.runner.measure.kernels.library_calls import shown_library_calls
from compile_hud.runner.measure.resources.allocation_events import BUFFER_RANGE

# The names of Inductor's allocating functions: empty_strided_cpu, empty_strided_cuda.
_ALLOCATING = "empty_strided"
# The compiler numbers kernels by order, and another revision numbers them differently.
_NUMBER = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferUse:
    """The first use of a buffer: a kernel, or an operator of a library; unknown fields are ""."""

    operator: str
    module: str = ""
    line: str = ""


@dataclass(slots=True)
class CompiledBuffers:
    """The uses of buffers by their number; `unused` has the number by address until a use."""

    uses: dict[int, BufferUse] = field(default_factory=dict)
    unused: dict[int, int] = field(default_factory=dict)
    num_buffers: int = 0

    def allocate(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, each call of it in a range of the number of its buffer."""
        range_of = range_maker()

        def show(*arguments: Any, **options: Any) -> Any:
            number = self.num_buffers
            self.num_buffers += 1
            with range_of(f"{BUFFER_RANGE}{number}"):
                buffer = function(*arguments, **options)
            self.unused[buffer.untyped_storage().data_ptr()] = number
            return buffer

        return show

    def use(self, use: BufferUse, arguments: Iterable[Any]) -> None:
        """Name the buffers among `arguments` that nothing used before."""
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                number = self.unused.pop(argument.untyped_storage().data_ptr(), None)
                if number is not None:
                    self.uses[number] = use


@contextmanager
def watched_buffers(context: Context) -> Iterator[CompiledBuffers]:
    """Number the buffers of compiled code and find their uses while the block runs."""
    buffers = CompiledBuffers()

    def on_kernel(kernel: GeneratedKernel, arguments: Iterable[Any]) -> None:
        buffers.use(_kernel_use(context, kernel), arguments)

    def on_library(operator: str, path: str, arguments: Iterable[Any]) -> None:
        line = context.call_lines.get(path, "")
        buffers.use(BufferUse(operator=f"aten::{operator}", module=path, line=line), arguments)

    with (
        ExitStack() as shown,
        shown_library_calls(context.library_calls, on_call=on_library),
        visible_kernels(on_call=on_kernel),
    ):
        for module in generated_modules():
            for name, function in list(vars(module).items()):
                if name.startswith(_ALLOCATING) and callable(function):
                    shown.enter_context(replaced(module, name, buffers.allocate(function)))
        yield buffers


def _kernel_use(context: Context, kernel: GeneratedKernel) -> BufferUse:
    graphs = context.origins.get(kernel.name, [])
    origins = graphs[kernel.index].origins if kernel.index < len(graphs) else []
    modules = dict.fromkeys(origin.module for origin in origins if origin.module)
    lines = (f"{origin.file}:{origin.line}" for origin in origins if origin.line)
    return BufferUse(
        operator=_NUMBER.sub("", kernel.name),
        module=_common_path(modules),
        line=next(lines, ""),
    )


def _common_path(modules: Mapping[str, Any]) -> str:
    return ".".join(os.path.commonprefix([module.split(".") for module in modules]))

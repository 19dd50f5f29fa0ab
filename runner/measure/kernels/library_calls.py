"""The calls of libraries in compiled code, with the module of the model that each one is for.

Inductor generates no kernel for a matrix product or a convolution. Its module calls
`extern_kernels.addmm` and the like, and a trace shows an operator without a module. When Inductor
writes such a call it knows the node of the graph. The calls of a graph always run in the order in
which they were written. During `shown_library_calls` each call is therefore in a range
`hud/module:PATH`. If the numbers of written and called ones differ, the graph gets no ranges: a
wrong path is worse than none. The functions are internals of torch.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import Any

import torch

from compile_hud.db.records.kernels import Origin
from compile_hud.runner.measure.kernels.generated_code import (
    generated_modules,
    module_text,
    replaced,
    wrapped,
)
from compile_hud.runner.measure.kernels.provenance import graph_number, origin_of

# The calls are attributes of this name in every module that Inductor writes.
LIBRARIES = "extern_kernels"
_CALL = re.compile(rf"^\s+(?:\w+ = )?{LIBRARIES}\.\w+\(", re.MULTILINE)

# The module path of each call, in order; a list for each graph that has any, in order too.
Calls = list[list[str]]
# A function that is called before each call of a library: its name, the path of its module, and the
# arguments.
OnLibraryCall = Callable[[str, str, Sequence[Any]], None]


@contextmanager
def recorded_library_calls(calls: Calls, *, lines: dict[str, str]) -> Iterator[None]:
    """Add the module path of each call to `calls` that Inductor writes while the block runs.

    `lines` gets the user's line, `FILE:LINE`, of the first call in each module.
    """
    from torch._inductor.ir import ExternKernel

    watching = functools.partial(_watching, calls=calls, lines=lines)
    with wrapped(ExternKernel, "codegen_comment", watching):
        yield


def _watching(
    write: Callable[..., Any], *, calls: Calls, lines: dict[str, str]
) -> Callable[..., Any]:
    last_graph: list[Any] = []

    @functools.wraps(write)
    def watching(self: Any, *arguments: Any, **options: Any) -> Any:
        # A missing origin must not fail a compilation.
        with suppress(Exception):
            name = self.get_kernel_name()
            if name.startswith(f"{LIBRARIES}."):
                graph = graph_number()
                if last_graph != [graph]:
                    last_graph[:] = [graph]
                    calls.append([])
                origin = _origin_of(self.origins, operator=name.rpartition(".")[2])
                calls[-1].append(origin.module)
                if origin.module and origin.line:
                    lines.setdefault(origin.module, f"{origin.file}:{origin.line}")
        return write(self, *arguments, **options)

    return watching


def _origin_of(nodes: Any, *, operator: str) -> Origin:
    """Return the node that a call computes; an empty one if no single module has it.

    The nodes include operators that were fused into the inputs or are only views of them.
    """
    origins = [origin_of(node) for node in nodes if node.op == "call_function"]
    own = [origin for origin in origins if origin.target.split(".")[1:2] == [operator]]
    is_one = len({origin.module for origin in own}) == 1
    return own[0] if is_one else Origin(node="")


@contextmanager
def shown_library_calls(calls: Calls, *, on_call: OnLibraryCall | None = None) -> Iterator[None]:
    """Put each call of a library into the range of its module during the block.

    `on_call` is called before each one, with the path "" where the module is unknown.
    """
    with ExitStack() as shown:
        for module, paths in _paths_by_module(calls):
            if paths or on_call is not None:
                libraries = _Libraries(getattr(module, LIBRARIES), paths, on_call)
                shown.enter_context(replaced(module, LIBRARIES, libraries))
        yield


def _paths_by_module(calls: Calls) -> list[tuple[ModuleType, Sequence[str]]]:
    """Return the modules with calls of libraries, and the paths of these as far as known."""
    modules = [(module, len(_CALL.findall(module_text(module)))) for module in generated_modules()]
    calling = [(module, number) for module, number in modules if number]
    if len(calling) != len(calls):
        return [(module, ()) for module, _ in calling]
    return [
        (module, paths if number == len(paths) else ())
        for (module, number), paths in zip(calling, calls, strict=True)
    ]


class _Libraries:
    """Replaces `extern_kernels` in one module; counts its calls."""

    def __init__(
        self, hidden: Any, paths: Sequence[str], on_call: OnLibraryCall | None = None
    ) -> None:
        self._hidden = hidden
        self._paths = paths
        self._on_call = on_call
        self._num_calls = 0

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._hidden, name)

        def show(*arguments: Any, **options: Any) -> Any:
            path = self._paths[self._num_calls % len(self._paths)] if self._paths else ""
            self._num_calls += 1
            if self._on_call is not None:
                self._on_call(name, path, (*arguments, *options.values()))
            if not path:
                return function(*arguments, **options)
            with torch.profiler.record_function(f"hud/module:{path}"):
                return function(*arguments, **options)

        return show

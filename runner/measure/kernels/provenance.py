"""The origin and the work of each generated kernel, recorded when Inductor defines it.

The origin is the nodes of the FX graph with the user's lines; the work is the bytes and operations
of a call.

Inductor has an option for this (`trace.provenance_tracking_level`). It makes compiling 25 to 95 %
slower, and compile time is measured. This module looks at each kernel once, when Inductor defines
it and knows its nodes and their stacks. The functions are internals of torch. Only this file uses
them; if they differ from its expectation, the origin is unknown.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from compile_hud.db.records.kernels import Origin
from compile_hud.runner.measure.kernels.generated_code import wrapped
from compile_hud.runner.measure.kernels.loop_costs import LoopWork, work_of_loops

# The nodes that a fused kernel shows at most; hundreds explain nothing.
MAX_ORIGINS = 64
MAX_CODE_CHARS = 200
_FRAME = re.compile(
    r'File "(?P<file>[^"\n]+)", line (?P<line>\d+), in [^\n]*(?:\n\s*(?P<code>[^\n]+))?'
)
# The local variable of the compiled frame that a path begins with, `L['self']` mostly.
_ROOT = re.compile(r"^L\['\w+'\]\.?")


@dataclass(slots=True)
class Provenance:
    """The origin of one kernel, and its work; None if unknown or ambiguous."""

    origins: list[Origin] = field(default_factory=list)
    work: LoopWork | None = None


# The provenance by kernel name: one entry for each graph with such a kernel, in the order of
# compilation.
Origins = dict[str, list[Provenance]]


@contextmanager
def recorded_origins(origins: Origins) -> Iterator[None]:
    """Add the origins of each kernel to `origins` that is defined while the block runs."""
    # The import is here, since an eager case does not need it.
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.codegen.triton import TritonScheduling

    watch = functools.partial(_watching, origins=origins)
    with (
        wrapped(CppScheduling, "define_kernel", watch),
        wrapped(TritonScheduling, "define_kernel", watch),
    ):
        yield


def _watching(define: Callable[..., Any], *, origins: Origins) -> Callable[..., Any]:
    last_graphs: dict[str, Any] = {}

    @functools.wraps(define)
    def watching(self: Any, *args: Any, **options: Any) -> Any:
        name = define(self, *args, **options)
        # A missing origin must not fail a compilation.
        with suppress(Exception):
            graph = graph_number()
            graphs = origins.setdefault(name, [])
            is_first = not graphs or last_graphs.get(name) != graph
            if is_first:
                graphs.append(Provenance())
                last_graphs[name] = graph
            graph_origins = graphs[-1].origins
            known = {origin.node for origin in graph_origins}
            _source, nodes, *others = args
            graph_origins += [item for item in _origins_of(nodes) if item.node not in known]
            work = _work_of(nodes, arguments=_arguments_of(self, others))
            # The same code may be called with other sizes; the work is then ambiguous.
            graphs[-1].work = work if is_first or graphs[-1].work == work else None
        return name

    return watching


def _arguments_of(scheduling: Any, others: Sequence[Any]) -> Any:
    """Return the arguments of the kernel, which C++ passes, or has on its kernel or group."""
    kernel = others[0] if others else None
    if kernel is None:
        kernel = scheduling.kernel_group
    return getattr(kernel, "args", kernel)


def _work_of(nodes: Iterable[Any], *, arguments: Any) -> LoopWork | None:
    with suppress(Exception):
        return work_of_loops(nodes, arguments=arguments)
    return None


def graph_number() -> int | None:
    """Return the unique number of the graph that is being compiled."""
    from torch._inductor.virtualized import V

    number: int | None = getattr(V.graph, "post_grad_graph_id", None)
    return number


def _origins_of(nodes: Iterable[Any]) -> list[Origin]:
    by_kernel: dict[str, Origin] = {}
    for scheduled in nodes:
        for node in getattr(getattr(scheduled, "node", None), "origins", None) or ():
            if len(by_kernel) < MAX_ORIGINS and node.op == "call_function":
                by_kernel[node.name] = origin_of(node)
    return list(by_kernel.values())


def origin_of(node: Any) -> Origin:
    """Return name, ATen operator, module path and the user's line of a node of an FX graph."""
    meta: Mapping[str, Any] = node.meta
    frames = list(_FRAME.finditer(str(meta.get("stack_trace") or "")))
    last = frames[-1] if frames else None
    return Origin(
        node=str(node.name),
        target=str(node.target),
        module=_module_path(meta),
        file=last["file"] if last else "",
        line=int(last["line"]) if last else 0,
        code=(last["code"] or "").strip()[:MAX_CODE_CHARS] if last else "",
    )


def _module_path(meta: Mapping[str, Any]) -> str:
    """Return the path of the innermost module, as `named_modules` would name it."""
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    # Dynamo writes L['self'].layers.0 or L['self']._modules['layers']._modules['0'].
    path = re.sub(r"_modules\['([^']+)'\]", r"\1", path)
    path = re.sub(r"\[(\d+)\]", r".\1", path)
    return _ROOT.sub("", path)

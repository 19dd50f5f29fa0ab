"""The graphs of a case, captured for a script that runs them with torch alone.

The graphs are those that Dynamo hands to the compiler: they name operators of torch and no code of
a model. Inputs are drawn anew, with the shapes, strides, ranges, means and deviations of the real
ones. With values of equal chance within a range, activations grew from layer to layer.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from compile_hud.db.records.results import Case
from compile_hud.models_zoo.catalog.spec import CompileSettings
from compile_hud.runner.measure.compile.own_settings import SDPA_BACKENDS, applied_while_compiling
from compile_hud.runner.measure.subject import AUTOCAST_DTYPES, Subject
from compile_hud.runner.protocol.graphs import CapturedCase, CapturedGraph

_KNOWN = frozenset(("torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree", "math"))

# The namespaces of operators that torch itself registers.
_NAMESPACES = frozenset(("aten", "prim", "prims", "quantized", "mkldnn", "onednn", "inductor"))


class NoScriptError(Exception):
    """The graphs of a case need more than torch."""


def captured_case(
    subject: Subject,
    *,
    case: Case,
    options: Mapping[str, Any] | None,
    settings: CompileSettings,
) -> CapturedCase:
    """Return the graphs of one iteration; `options` go to torch.compile, None for eager code.

    Raises NoScriptError, UnknownSettingError, and any error of the model.
    """
    if options is not None and not isinstance(options.get("backend"), str):
        raise NoScriptError(f"the backend {case.backend} has no name that torch knows")
    if options is None:
        graphs = _captured(subject, dynamic=None)
    else:
        with applied_while_compiling(settings, inputs=subject.inputs):
            graphs = _captured(subject, dynamic=options.get("dynamic"))
    if not graphs:
        raise NoScriptError("torch.compile got no graph of it")
    return CapturedCase(
        torch_version=torch.__version__,
        graphs=tuple(graphs),
        options=None if options is None else repr(dict(options)),
        autocast=str(AUTOCAST_DTYPES.get(case.dtype)),
        num_threads=subject.device.num_threads,
        environment=settings.environment,
        sdpa=SDPA_BACKENDS[settings.sdpa].name if settings.sdpa else "",
    )


def _captured(subject: Subject, *, dynamic: bool | None) -> list[CapturedGraph]:
    """Return the graphs of one iteration; `dynamic` is the argument of torch.compile."""
    calls: list[tuple[torch.fx.GraphModule, list[str]]] = []

    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        # An error here would come out as one of the compiler.
        texts = _input_texts(module, inputs)
        _inline_numbers(module.graph, inputs, texts)
        calls.append((module, texts))
        forward: Callable[..., Any] = module.forward
        return forward

    torch._dynamo.reset()
    subject.step(torch.compile(subject.model, backend=backend, dynamic=dynamic))()
    torch._dynamo.reset()
    return [_captured_graph(module, texts) for module, texts in calls]


def _captured_graph(module: torch.fx.GraphModule, texts: list[str]) -> CapturedGraph:
    _read_sizes_of_tensors(module.graph, texts)
    code = module.graph.python_code("self")
    needed = {name for name, value in code.globals.items() if not _is_known(name, value)}
    foreign = sorted({*needed, *_foreign_operators(module)})
    if foreign:
        raise NoScriptError(f"a graph needs more than torch: {', '.join(foreign)}")
    attributes = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
    if attributes or any(name for name, _ in module.named_children()):
        raise NoScriptError("a graph has modules or tensors of its own")
    body = "".join(f"    {line}\n" if line else "\n" for line in code.src.strip().splitlines())
    return CapturedGraph(code=body, inputs=tuple(texts))


def _is_known(name: str, value: object) -> bool:
    """Return whether a script has the global `name`: an import of its head, or a builtin."""
    return name in _KNOWN or (hasattr(builtins, name) and getattr(builtins, name) is value)


def _read_sizes_of_tensors(graph: torch.fx.Graph, texts: list[str]) -> None:
    """Replace inputs that are sizes of other inputs, and remove their texts.

    torch.compile takes a number of a script as a constant, and its tensor would be static.
    """
    inputs = _placeholders(graph)
    sizes = {
        size.node.expr: (node, dimension)
        for node in inputs
        for dimension, size in enumerate(_sizes(node))
        if _is_dynamic(size)
    }
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for number, node in reversed(list(enumerate(inputs))):
        value: Any = node.meta.get("example_value")
        source = sizes.get(value.node.expr) if _is_dynamic(value) else None
        if source is not None:
            with graph.inserting_before(first):
                node.replace_all_uses_with(graph.call_method("size", source))
            graph.erase_node(node)
            del texts[number]


def _inline_numbers(graph: torch.fx.Graph, inputs: Sequence[Any], texts: list[str]) -> None:
    """Replace numbers of the model that Dynamo passes as tensors, and remove their texts.

    With open sizes a number is one too; in a script its `item()` would break the graph.
    """
    for number, node in reversed(list(enumerate(_placeholders(graph)))):
        value, users = inputs[number], list(node.users)
        is_number = isinstance(value, torch.Tensor) and not value.dim() and bool(users)
        if is_number and all(user.target == "item" for user in users):
            for item in users:
                _replace(item, value.item())
                graph.erase_node(item)
            graph.erase_node(node)
            del texts[number]


def _replace(node: torch.fx.Node, number: float) -> None:
    """Replace the result of `node` by `number` wherever it is read."""

    def changed(argument: torch.fx.Node) -> Any:
        return number if argument is node else argument

    for user in list(node.users):
        user.args = torch.fx.node.map_arg(user.args, changed)
        user.kwargs = torch.fx.node.map_arg(user.kwargs, changed)


def _placeholders(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _sizes(node: torch.fx.Node) -> tuple[Any, ...]:
    value = node.meta.get("example_value")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


def _is_dynamic(size: Any) -> bool:
    return isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None


def _foreign_operators(module: torch.fx.GraphModule) -> set[str]:
    """Return the operators of the graph that another package registers."""
    # An overload is shown as `namespace.name.overload`, and all of them as `namespace.name`.
    operators = {
        str(node.target)
        for node in module.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
    }
    return {name for name in operators if name.partition(".")[0] not in _NAMESPACES}


def _input_texts(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[str]:
    nodes = _placeholders(module.graph)
    dynamic = [
        tuple(number for number, size in enumerate(_sizes(node)) if _is_dynamic(size))
        for node in nodes
    ]
    if not any(dynamic):
        return [_input_text(value) for value in inputs]
    return [
        _input_text(value, dynamic=dimensions)
        for value, dimensions in zip(inputs, dynamic, strict=True)
    ]


def _input_text(value: object, *, dynamic: tuple[int, ...] | None = None) -> str:
    if isinstance(value, torch.SymInt):
        # Its conversion to a number would be a guard that makes the size a constant.
        return repr(value.node.hint)
    if not isinstance(value, torch.Tensor):
        return repr(value)
    low, high = _range_of(value)
    sizes, strides = (tuple(map(int, numbers)) for numbers in (value.shape, value.stride()))
    mean, sd = _moments_of(value)
    figures = f"{low!r}, {high!r}, {mean!r}, {sd!r}, {value.requires_grad}"
    marks = "" if dynamic is None else f", {dynamic}"
    return f"tensor({value.dtype}, {sizes}, {strides}, {figures}{marks})"


def _finite(plain: torch.Tensor) -> torch.Tensor:
    return plain[torch.isfinite(plain)] if plain.is_floating_point() else plain


def _moments_of(value: torch.Tensor) -> tuple[float, float]:
    """Return the mean and the standard deviation of floating-point values, else zeros."""
    plain = _finite(value.detach())
    if not plain.is_floating_point() or not plain.numel():
        return 0.0, 0.0
    plain = plain.double()
    return float(plain.mean()), float(plain.std(correction=0))


def _range_of(value: torch.Tensor) -> tuple[float, float]:
    """Return the least and the largest value; of booleans twice the share that is true."""
    plain = value.detach()
    if not plain.numel() or plain.is_complex():
        return 0.0, 1.0
    if plain.dtype is torch.bool:
        share = float(plain.float().mean())
        return share, share
    finite = _finite(plain)
    if not finite.numel():
        return 0.0, 1.0
    return float(finite.float().min()), float(finite.float().max())

"""The graphs of a case, captured for a script that runs them with torch alone.

The graphs are those that Dynamo hands to the compiler: they name operators of torch and no code of
a model. Inputs are drawn anew, with the shapes, strides, ranges, means and deviations of the real
ones. With values of equal chance within a range, activations grew from layer to layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from compile_hud.db.records.results import Case
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
    environment: Mapping[str, str],
) -> CapturedCase:
    """Return the graphs of one iteration; `options` go to torch.compile, None for eager code.

    Raises NoScriptError, and any error of the model.
    """
    graphs = _captured(subject)
    if not graphs:
        raise NoScriptError("torch.compile got no graph of it")
    if options is not None and not isinstance(options.get("backend"), str):
        raise NoScriptError(f"the backend {case.backend} has no name that torch knows")
    return CapturedCase(
        torch_version=torch.__version__,
        graphs=tuple(graphs),
        options=None if options is None else repr(dict(options)),
        autocast=str(AUTOCAST_DTYPES.get(case.dtype)),
        num_threads=subject.device.num_threads,
        environment=environment,
    )


def _captured(subject: Subject) -> list[CapturedGraph]:
    calls: list[tuple[torch.fx.GraphModule, tuple[str, ...]]] = []

    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        # An error here would come out as one of the compiler.
        calls.append((module, tuple(map(_input_text, inputs))))
        forward: Callable[..., Any] = module.forward
        return forward

    torch._dynamo.reset()
    subject.step(torch.compile(subject.model, backend=backend))()
    torch._dynamo.reset()
    return [_captured_graph(module, inputs) for module, inputs in calls]


def _captured_graph(module: torch.fx.GraphModule, inputs: tuple[str, ...]) -> CapturedGraph:
    code = module.graph.python_code("self")
    foreign = sorted({*(set(code.globals) - _KNOWN), *_foreign_operators(module)})
    if foreign:
        raise NoScriptError(f"a graph needs more than torch: {', '.join(foreign)}")
    attributes = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
    if attributes or any(name for name, _ in module.named_children()):
        raise NoScriptError("a graph has modules or tensors of its own")
    body = "".join(f"    {line}\n" if line else "\n" for line in code.src.strip().splitlines())
    return CapturedGraph(code=body, inputs=inputs)


def _foreign_operators(module: torch.fx.GraphModule) -> set[str]:
    """Return the operators of the graph that another package registers."""
    # An overload is shown as `namespace.name.overload`, and all of them as `namespace.name`.
    operators = {
        str(node.target)
        for node in module.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
    }
    return {name for name in operators if name.partition(".")[0] not in _NAMESPACES}


def _input_text(value: object) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(int(value)) if isinstance(value, torch.SymInt | int) else repr(value)
    low, high = _range_of(value)
    sizes, strides = (tuple(map(int, numbers)) for numbers in (value.shape, value.stride()))
    mean, sd = _moments_of(value)
    figures = f"{low!r}, {high!r}, {mean!r}, {sd!r}"
    return f"tensor({value.dtype}, {sizes}, {strides}, {figures}, {value.requires_grad})"


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

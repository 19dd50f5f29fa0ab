"""A script that runs the graphs of a case with torch alone, and times them.

The graphs are those that Dynamo hands to the compiler: they name operators of torch and no code of
a model. Inputs are drawn anew, with the shapes, strides and ranges of the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

import torch

from compile_hud.db.records.results import Case, Dtype, Phase
from compile_hud.runner.measure.subject import AUTOCAST_DTYPES, Subject

_HEAD = Template('''\
"""$title

It needs torch alone: python FILE
Each graph has the operators that torch.compile got, with inputs that are drawn anew.
"""

import contextlib
import math
import statistics
import time

import torch
import torch.fx._pytree as fx_pytree
import torch.utils._pytree as pytree
from torch import device, inf, nan

NoneType = type(None)
OPTIONS = $options
DEVICE = "$device"
AUTOCAST = $autocast
IS_TRAINING = $is_training
torch.set_num_threads($num_threads)
${precision}NUM_WARMUPS, NUM_SAMPLES = 5, 50

''')
_INPUTS = '''
def tensor(dtype, sizes, strides, low, high, needs_grad):
    """Return a tensor with values from `low` to `high`."""
    made = torch.empty_strided(sizes, strides, dtype=dtype, device=DEVICE)
    with torch.no_grad():
        if dtype is torch.bool:
            made.copy_(torch.rand(sizes) < (low + high) / 2)
        elif dtype.is_floating_point:
            made.copy_(torch.empty(sizes).uniform_(low, high))
        elif dtype.is_complex:
            made.copy_(torch.randn(sizes, dtype=torch.complex64))
        else:
            made.copy_(torch.randint(int(low), int(high) + 1, sizes))
    return made.requires_grad_(needs_grad)

'''
_MAIN = """
def loss_of(outputs):
    tensors = [item for item in pytree.tree_leaves(outputs) if isinstance(item, torch.Tensor)]
    return sum(item.float().square().mean() for item in tensors if item.requires_grad)


def iterate(functions, inputs):
    for function, values in zip(functions, inputs):
        with torch.set_grad_enabled(IS_TRAINING), autocast():
            outputs = function(*values)
            loss = loss_of(outputs) if IS_TRAINING else None
        if isinstance(loss, torch.Tensor):
            loss.backward()


def autocast():
    if AUTOCAST is None:
        return contextlib.nullcontext()
    return torch.autocast(DEVICE, dtype=AUTOCAST)


def main():
    torch.manual_seed(0)
    inputs = [make() for make in INPUTS]
    functions = [graph() for graph in GRAPHS]
    if OPTIONS is not None:
        functions = [torch.compile(function, **OPTIONS) for function in functions]
    samples = []
    for number in range(NUM_WARMUPS + NUM_SAMPLES):
        started = time.perf_counter()
        iterate(functions, inputs)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        if number >= NUM_WARMUPS:
            samples.append(time.perf_counter() - started)
    print(f"torch {torch.__version__}: median {1e6 * statistics.median(samples):.1f} us")


if __name__ == "__main__":
    main()
"""
_TF32 = 'torch.set_float32_matmul_precision("high")\n'
_KNOWN = frozenset(("torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree", "math"))


# The namespaces of operators that torch itself registers.
_NAMESPACES = frozenset(("aten", "prim", "prims", "quantized", "mkldnn", "onednn", "inductor"))


class NoScriptError(Exception):
    """The graphs of a case need more than torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedGraph:
    """The code of a graph as a method `forward`, and what it was called with."""

    code: str
    inputs: tuple[str, ...]


def graph_script(
    subject: Subject, *, case: Case, options: Mapping[str, Any] | None, version: str
) -> str:
    """Return the script of one iteration of `subject`; `options` go to torch.compile, None for not.

    Raises NoScriptError, and any error of the model.
    """
    graphs = _captured(subject)
    if not graphs:
        raise NoScriptError("torch.compile got no graph of it")
    if options is not None and not isinstance(options.get("backend"), str):
        raise NoScriptError(f"the backend {case.backend} has no name that torch knows")
    head = _HEAD.substitute(
        title=f"{case.key}, captured with torch {version}",
        options=None if options is None else repr(dict(options)),
        device=case.device,
        autocast=AUTOCAST_DTYPES.get(case.dtype),
        is_training=case.phase is Phase.TRAINING,
        num_threads=subject.device.num_threads,
        precision=_TF32 if case.dtype is Dtype.TF32 else "",
    )
    parts = [head, _INPUTS]
    for number, graph in enumerate(graphs):
        values = "".join(f"        {text},\n" for text in graph.inputs)
        parts.append(f"\nclass Graph{number}(torch.nn.Module):\n{graph.code}\n")
        parts.append(f"\ndef inputs_{number}():\n    return [\n{values}    ]\n\n")
    numbers = range(len(graphs))
    parts.append(f"\nGRAPHS = [{', '.join(f'Graph{number}' for number in numbers)}]\n")
    parts.append(f"INPUTS = [{', '.join(f'inputs_{number}' for number in numbers)}]\n\n")
    return "".join([*parts, _MAIN])


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
    needs_grad = value.requires_grad
    return f"tensor({value.dtype}, {sizes}, {strides}, {low!r}, {high!r}, {needs_grad})"


def _range_of(value: torch.Tensor) -> tuple[float, float]:
    """Return the least and the largest value; of booleans twice the share that is true."""
    plain = value.detach()
    if not plain.numel() or plain.is_complex():
        return 0.0, 1.0
    if plain.dtype is torch.bool:
        share = float(plain.float().mean())
        return share, share
    finite = plain[torch.isfinite(plain)] if plain.is_floating_point() else plain
    if not finite.numel():
        return 0.0, 1.0
    return float(finite.float().min()), float(finite.float().max())

"""The outputs of an iteration as separate tensors, so that each can be compared.

In a joint comparison a large output would hide the error of a small one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch

OUTPUTS = "outputs"
GRADIENTS = "gradients"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One iteration's numbers, by component.

    `parts` are its floating-point tensors as vectors in their own dtype, since several results of a
    model that fills a GPU exist at a time. `discrete` are its integer and bool tensors. `layout`
    has the name, dtype and shape of each output, in order.
    """

    parts: dict[str, torch.Tensor]
    discrete: dict[str, torch.Tensor] = field(default_factory=dict)
    layout: tuple[str, ...] = ()


def flatten_outputs(outputs: object) -> Result:
    """Return the numbers of `outputs`, copied; raise TypeError when there is no tensor at all.

    The part is called `outputs` where there is one tensor, else `outputs.NAME` or `outputs.0`.
    """
    named = list(named_tensors(outputs))
    if not named:
        raise TypeError(
            f"the model returned {type(outputs).__name__} without any tensor;"
            " there is nothing to check its accuracy with"
        )
    if len(named) == 1:
        named = [(OUTPUTS, named[0][1])]
    return Result(
        parts={name: as_vector(tensor) for name, tensor in named if is_inexact(tensor)},
        discrete={
            name: dense(tensor.detach()).to(torch.int64).reshape(-1)
            for name, tensor in named
            if not is_inexact(tensor)
        },
        layout=tuple(
            f"{name} {str(tensor.dtype).removeprefix('torch.')}{_shape_text(tensor)}"
            for name, tensor in named
        ),
    )


def named_tensors(outputs: object, *, name: str = OUTPUTS) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor in `outputs` with its path, in order, from any nested container."""
    if isinstance(outputs, torch.Tensor):
        yield name, outputs
        return
    values: Iterator[tuple[object, object]] = iter(())
    if isinstance(outputs, Mapping):
        values = iter(outputs.items())
    elif isinstance(outputs, list | tuple):
        values = iter(enumerate(outputs))
    elif dataclasses.is_dataclass(outputs):
        values = ((item.name, getattr(outputs, item.name)) for item in dataclasses.fields(outputs))
    for key, value in values:
        yield from named_tensors(value, name=f"{name}.{key}")


def floating_tensors(outputs: object) -> Iterator[torch.Tensor]:
    """Yield every floating-point tensor in `outputs`, in order, from any nested container."""
    for _, tensor in named_tensors(outputs):
        if tensor.is_floating_point():
            yield tensor


def is_inexact(tensor: torch.Tensor) -> bool:
    """Return whether the numbers of `tensor` are rounded: floating-point or complex."""
    return tensor.is_floating_point() or tensor.is_complex()


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers of `tensor` in a strided one: a sparse tensor is filled up with zeros.

    The components of a nested tensor are joined to one vector. Gradients flow through.
    """
    if tensor.is_nested:
        return torch.cat([item.reshape(-1) for item in tensor.unbind()])
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _shape_text(tensor: torch.Tensor) -> str:
    if tensor.is_nested:
        # The symbol of a ragged dimension is another one in each call.
        return f"{[list(item.shape) for item in tensor.unbind()]} nested"
    layout = str(tensor.layout).removeprefix("torch.")
    return f"{list(tensor.shape)}{'' if layout == 'strided' else f' {layout}'}"


def as_vector(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of `tensor` as one vector; a complex number makes two."""
    tensor = dense(tensor.detach())
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    # A copy always: CUDA graphs give the next iteration's outputs the same memory.
    return tensor.clone().reshape(-1)

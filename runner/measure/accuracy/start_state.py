"""The state in which each compared run starts: inputs, buffers and random numbers.

A model may write to its inputs, update its buffers or draw random numbers. Two runs of it agree
only from the same start.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import torch

# Other types may hold anything behind their shape.
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartState:
    """The seed, and tensors with copies of their first contents, in the memory of the host."""

    seed: int
    tensors: tuple[tuple[torch.Tensor, torch.Tensor], ...]

    @classmethod
    def of(cls, tensors: Iterable[torch.Tensor], *, seed: int) -> StartState:
        """Return the present state of `tensors`; those without plain bytes are left out."""
        plain = [tensor.detach() for tensor in tensors if _is_plain(tensor)]
        return cls(seed=seed, tensors=tuple((item, item.cpu().clone()) for item in plain))

    def restore(self) -> None:
        """Put the contents back where they changed, and seed all generators."""
        for tensor, first in self.tensors:
            before = first.to(tensor.device)
            if not _is_same(tensor, before):
                # Only there may a tensor made in inference mode be written to.
                with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                    tensor.copy_(before)
        seed_generators(self.seed)


def seed_generators(seed: int) -> None:
    """Seed the generators of torch on all devices, of Python and of NumPy."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def generator_state() -> tuple[object, ...]:
    """Return the state of these generators, which a run that draws a number changes."""
    states: list[object] = [bytes(torch.get_rng_state().tolist()), random.getstate()]
    if torch.cuda.is_initialized():
        states.append(bytes(torch.cuda.get_rng_state().tolist()))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, *gauss = numpy.random.get_state()
        states.append((name, keys.tobytes(), position, *gauss))
    return tuple(states)


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in _PLAIN_TYPES
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_meta
    )


def _is_same(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    # NaN differs from itself, and is the same content.
    equal = (tensor == other) | ((tensor != tensor) & (other != other))
    return bool(equal.all())

"""The state in which each compared run starts: inputs, buffers, attributes and random numbers.

A model may write to its inputs, update its buffers, count its calls or keep a cache. It may draw
random numbers, also from a generator of its own. Two runs agree only from the same start.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

# Subclasses (lazy, distributed, quantised by a library) may hold anything behind their shape.
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
# Values of other types are left alone: nothing says how to copy them.
_ATTRIBUTE_TYPES = (type(None), bool, int, float, str, tuple, list, dict, torch.Tensor)
# Every module has these: parameters, buffers, hooks, other modules.
MODULE_ATTRIBUTES = frozenset(vars(torch.nn.Module()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleState:
    """The buffers and the attributes of a module, with the contents of lists and dicts."""

    module: torch.nn.Module
    buffers: dict[str, torch.Tensor | None]
    attributes: dict[str, Any]
    contents: dict[str, Any]

    @classmethod
    def of(cls, module: torch.nn.Module) -> ModuleState:
        """Return the present state of `module`, without that of the modules in it."""
        attributes = {
            name: value
            for name, value in vars(module).items()
            if name not in MODULE_ATTRIBUTES and isinstance(value, _ATTRIBUTE_TYPES)
        }
        return cls(
            module=module,
            buffers=dict(module._buffers),
            attributes=attributes,
            contents={
                name: value.copy()
                for name, value in attributes.items()
                if isinstance(value, list | dict)
            },
        )

    def restore(self) -> None:
        """Put each buffer and each attribute back; attributes that came later go."""
        present = vars(self.module)
        for name in [*present]:
            is_new = name not in self.attributes and name not in MODULE_ATTRIBUTES
            if is_new and isinstance(present[name], _ATTRIBUTE_TYPES):
                del present[name]
        self.module._buffers.update(self.buffers)
        for name, value in self.attributes.items():
            if isinstance(value, list):
                value[:] = self.contents[name]
            elif isinstance(value, dict):
                value.clear()
                value.update(self.contents[name])
            present[name] = value


@dataclass(frozen=True, slots=True, kw_only=True)
class StartState:
    """The seed, and tensors with copies of their first contents, in the memory of the host.

    `generators` are those of the model itself, with their first states. `modules` are restored
    on request only: compiled code has guards on attributes, which a restored one may not pass.
    """

    seed: int
    tensors: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    generators: tuple[tuple[torch.Generator, torch.Tensor], ...]
    modules: tuple[ModuleState, ...]

    @classmethod
    def of(
        cls, tensors: Iterable[torch.Tensor], *, seed: int, model: torch.nn.Module
    ) -> StartState:
        """Return the present state of `tensors` and `model`, without tensors that are not plain."""
        plain = [tensor.detach() for tensor in tensors if is_plain(tensor)]
        modules = list(model.modules())
        return cls(
            seed=seed,
            tensors=tuple((item, item.cpu().clone()) for item in plain),
            generators=tuple((item, item.get_state()) for item in _own_generators(modules)),
            modules=tuple(map(ModuleState.of, modules)),
        )

    def restore_modules(self) -> None:
        """Put the buffers and attributes of the modules back."""
        for module in self.modules:
            module.restore()

    def generator_states(self) -> tuple[bytes, ...]:
        """Return the present states of the model's own generators."""
        return tuple(bytes(item.get_state().tolist()) for item, _ in self.generators)

    def restore(self) -> None:
        """Put the contents back where they changed, and seed all generators."""
        for tensor, first in self.tensors:
            before = first.to(tensor.device)
            if not _is_same(tensor, before):
                # Only there may a tensor made in inference mode be written to.
                with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                    tensor.copy_(before)
        for generator, state in self.generators:
            generator.set_state(state)
        seed_generators(self.seed)


def _own_generators(modules: Iterable[torch.nn.Module]) -> Iterator[torch.Generator]:
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, torch.Generator):
                yield value


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


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the bytes of `tensor` are its contents, and can be read."""
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

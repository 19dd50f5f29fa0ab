"""A model that another runtime executes: called like the model, exported in its first call.

The first calls minus later ones are therefore the time of export and loading, as they are the time
of compiling under torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from compile_hud.db.records.results import Dtype
from compile_hud.db.shared.text import counted, counted_of
from compile_hud.runner.measure.accuracy.outputs import named_tensors
from compile_hud.runner.measure.device import Device


class ExportError(RuntimeError):
    """A runtime cannot execute this model; the message names the failed step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The input of a runtime: a model, the inputs of its calls, and its output buffers.

    `outputs` are the tensors of the model's outputs in order, contiguous, each in memory that every
    call writes to.
    """

    model: torch.nn.Module
    inputs: Mapping[str, torch.Tensor]
    outputs: Sequence[torch.Tensor]
    dtype: Dtype
    device: Device


class Session(Protocol):
    """A model in a runtime with bound outputs; `facts` describe the runtime, as JSON values."""

    facts: Mapping[str, Any]

    def bind(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Bind contiguous `inputs`, which later calls read without a copy."""

    def run(self) -> Any:
        """Execute once, until the outputs are written.

        Returns the model's outputs if they are new tensors, None if they are the bound ones.
        """


Load = Callable[[Export], Session]


@dataclass(slots=True, kw_only=True)
class ExportedModel:
    """`model` in another runtime; the first call exports it and loads it there.

    Most runtimes return the same tensors with new numbers in each call, as CUDA graphs do.
    """

    model: torch.nn.Module
    load: Load
    dtype: Dtype
    device: Device
    _session: Session | None = None
    _outputs: Any = None
    _bound: dict[str, torch.Tensor] = field(default_factory=dict)

    def __call__(self, **inputs: torch.Tensor) -> Any:
        """Return the model's outputs for `inputs`, which have the shapes of the first call."""
        if self._session is None:
            self._session = self._begin(inputs)
        self._bind(self._session, inputs)
        # A runtime with its own stream would start while torch still writes the inputs. A flush of
        # the L2 cache, which is no part of its time, might also still run.
        self.device.synchronize()
        fresh = self._session.run()
        return self._outputs if fresh is None else fresh

    @property
    def facts(self) -> dict[str, Any]:
        """Return the runtime's facts as JSON values; empty before the first call."""
        return {} if self._session is None else dict(self._session.facts)

    def _begin(self, inputs: Mapping[str, torch.Tensor]) -> Session:
        outputs = self.model(**inputs)
        leaves, structure = tree_flatten(outputs)
        num_tensors = sum(1 for _ in named_tensors(outputs))
        tensors = [_room_for(leaf) for leaf in leaves if torch.is_tensor(leaf)]
        if len(tensors) != num_tensors:
            raise ExportError(
                f"the model returned {type(outputs).__name__}, in which torch.export sees"
                f" {counted_of(len(tensors), num_tensors, 'tensor')}: return a tensor, tuple or"
                " dict, or"
                " register the class with torch.utils._pytree"
            )
        rest = iter(tensors)
        filled = [next(rest) if torch.is_tensor(leaf) else leaf for leaf in leaves]
        self._outputs = tree_unflatten(filled, structure)
        return self.load(
            Export(
                model=self.model,
                inputs=inputs,
                outputs=tensors,
                dtype=self.dtype,
                device=self.device,
            )
        )

    def _bind(self, session: Session, inputs: Mapping[str, torch.Tensor]) -> None:
        """Bind the inputs if an address has changed since the last call."""
        contiguous = {name: tensor.contiguous() for name, tensor in inputs.items()}
        if _addresses(contiguous) == _addresses(self._bound):
            return
        session.bind(contiguous)
        # The reference keeps the tensors alive: the runtime has only their addresses.
        self._bound = contiguous


def check_outputs(num_outputs: int, *, export: Export) -> None:
    """Raise ExportError where a runtime has another number of outputs than the model."""
    if num_outputs != len(export.outputs):
        raise ExportError(
            f"the exported model has {counted(num_outputs, 'output')}, the model"
            f" {len(export.outputs)}"
        )


def _room_for(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(tensor, memory_format=torch.contiguous_format, requires_grad=False)


def _addresses(tensors: Mapping[str, torch.Tensor]) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors.values()]

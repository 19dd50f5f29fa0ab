"""A model as a CUDA graph of its eager kernels, by `torch.cuda.make_graphed_callables`.

This backend compiles nothing. Inference is one graph. In training, forward and backward are one
each, and loss and optimizer stay outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from compile_hud.db.records.results import Case
from compile_hud.runner.measure.device import Device

BACKEND = "cuda_graph"


def is_graphed(case: Case) -> bool:
    """Return whether the variant of `case` replays a graph that we record."""
    return case.backend == BACKEND


class _InOrder(torch.nn.Module):
    """A model that takes its keyword arguments in a fixed order.

    Recording replaces `forward` of the module that it gets: of this wrapper, not of the model.
    """

    def __init__(self, model: torch.nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)
        # `train` would also change modules that are permanently in another mode.
        self.training = model.training

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.model(**dict(zip(self.names, tensors, strict=True)))


@dataclass(slots=True, kw_only=True)
class GraphedModel:
    """`model` as a CUDA graph, recorded by the first call.

    Each call copies its inputs to the graph's buffers, as a loop with fresh batches does. It
    returns the same tensors with new numbers in them.
    """

    model: torch.nn.Module
    device: Device
    _replay: Callable[..., Any] | None = field(default=None, init=False)
    _names: tuple[str, ...] = field(default=(), init=False)

    def __call__(self, **inputs: torch.Tensor) -> Any:
        """Return the model's outputs for `inputs`, with the names and shapes of the first call."""
        if self._replay is None:
            self._names = tuple(inputs)
            self._replay = self._record(tuple(inputs.values()))
        return self._replay(*(inputs[name] for name in self._names))

    def _record(self, tensors: Sequence[torch.Tensor]) -> Callable[..., Any]:
        kind = self.device.kind
        with torch.autocast(
            kind,
            dtype=torch.get_autocast_dtype(kind),
            enabled=torch.is_autocast_enabled(kind),
            # The graph would miss a cast that the cache had already.
            cache_enabled=False,
        ):
            graphed: Callable[..., Any] = torch.cuda.make_graphed_callables(
                _InOrder(self.model, self._names),
                tuple(tensor.clone() for tensor in tensors),
                # A weight that no output depends on has no gradient in eager either.
                allow_unused_input=True,
            )
        return graphed

"""Reference case: many tiny operators in sequence. Never changed, see reference_cases.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal


class ReferenceChain(nn.Module):
    """Additions of a step to a few numbers, each waiting for the one before."""

    step: Tensor

    def __init__(self, *, length: int, width: int) -> None:
        super().__init__()
        self.length = length
        self.register_buffer("step", torch.full((width,), 1 / length))

    def forward(self, start: Tensor) -> Tensor:
        """Return `start` plus one, in `length` steps."""
        value = start
        for _ in range(self.length):
            value = value + self.step
        return value


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the module with its step."""
    return ReferenceChain(length=config["length"], width=config["width"])


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the first values of the chain."""
    return {"start": normal(config["width"], seed=seed)}

"""Reference case: one product of two square matrices. Never changed, see reference_cases.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal


class ReferenceGemm(nn.Module):
    """The product of its two inputs."""

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Return left @ right."""
        return torch.mm(left, right)


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the module; it has no weights."""
    del config
    return ReferenceGemm()


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return two square matrices."""
    width = config["width"]
    return {
        "left": normal(width, width, seed=seed),
        "right": normal(width, width, seed=seed + 1),
    }

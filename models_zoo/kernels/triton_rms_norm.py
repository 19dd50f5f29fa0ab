"""RMSNorm as a kernel in Triton; `rms_norm` is its twin without Triton."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal, seeded_weights
from compile_hud.models_zoo.kernels import triton_kernels

EPS = 1e-5


class TritonRmsNorm(nn.Module):
    """Each row over its root mean square, times a weight; (batch, width) in and out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, rows: Tensor) -> Tensor:
        result: Tensor = triton_kernels.rms_norm(rows, self.weight, EPS)
        return result


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32, to be moved to a GPU."""
    triton_kernels.check_available()
    return seeded_weights(lambda: TritonRmsNorm(config["width"]))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"rows": normal(config["batch"], config["width"], seed=seed)}

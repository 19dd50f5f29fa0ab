"""RMSNorm as a model's code writes it: the twin of the Triton kernel `triton_rms_norm`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal, seeded_weights

EPS = 1e-5


class RmsNorm(nn.Module):
    """Each row over its root mean square, times a weight; (batch, width) in and out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, rows: Tensor) -> Tensor:
        exact = rows.to(torch.promote_types(rows.dtype, torch.float32))
        mean_square = exact.square().mean(dim=-1, keepdim=True)
        return (exact * torch.rsqrt(mean_square + EPS) * self.weight).to(rows.dtype)


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: RmsNorm(config["width"]))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"rows": normal(config["batch"], config["width"], seed=seed)}

"""Softmax over long rows as one kernel in Triton; `softmax` is its twin without Triton."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal
from compile_hud.models_zoo.kernels import triton_kernels


class TritonSoftmax(nn.Module):
    """The softmax of each row; (batch, width) in and out."""

    def forward(self, rows: Tensor) -> Tensor:
        result: Tensor = triton_kernels.softmax(rows)
        return result


def build(_config: Mapping[str, Any]) -> nn.Module:
    """Return the model, which has no weights, to be moved to a GPU."""
    triton_kernels.check_available()
    return TritonSoftmax()


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"rows": normal(config["batch"], config["width"], seed=seed)}

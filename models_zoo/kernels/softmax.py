"""Softmax over long rows: the twin of the Triton kernel `triton_softmax`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal


class Softmax(nn.Module):
    """The softmax of each row; (batch, width) in and out."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows.softmax(dim=-1)


def build(_config: Mapping[str, Any]) -> nn.Module:
    """Return the model, which has no weights."""
    return Softmax()


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"rows": normal(config["batch"], config["width"], seed=seed)}

"""One model twice: as it is, and doing 15 % more of the same work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 256
BATCH = 64
# 23 passes through blocks are 15 % more than 20, with the very same weights: time alone tells.
NUM_BLOCKS = 20
NUM_SLOW_PASSES = 23


class Blocks(nn.Module):
    """A chain of equal blocks, so that its time grows with the number of passes."""

    def __init__(self, num_passes: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(NUM_BLOCKS))
        self.num_passes = num_passes

    def forward(self, x: Tensor) -> Tensor:
        for number in range(self.num_passes):
            x = x + torch.nn.functional.gelu(self.blocks[number % NUM_BLOCKS](x))
        return x


def baseline(config: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return the model as it is, with its inputs."""
    del config
    return Blocks(NUM_BLOCKS), {"x": torch.randn(BATCH, WIDTH)}


def slower(config: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return the model with 15 % more passes, with its inputs."""
    del config
    return Blocks(NUM_SLOW_PASSES), {"x": torch.randn(BATCH, WIDTH)}

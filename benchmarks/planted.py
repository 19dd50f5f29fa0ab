"""One model twice: as it is, and doing 15 % more of the same work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 256
BATCH = 64
# 23 blocks are 15 % more than 20.
NUM_BLOCKS = 20
NUM_SLOW_BLOCKS = 23


class Blocks(nn.Module):
    """A chain of equal blocks, so that its time grows with their number."""

    def __init__(self, num_blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(num_blocks))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + torch.nn.functional.gelu(block(x))
        return x


def baseline(config: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return the model as it is, with its inputs."""
    del config
    return Blocks(NUM_BLOCKS), {"x": torch.randn(BATCH, WIDTH)}


def slower(config: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return the model with 15 % more blocks, with its inputs."""
    del config
    return Blocks(NUM_SLOW_BLOCKS), {"x": torch.randn(BATCH, WIDTH)}

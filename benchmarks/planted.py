"""Models in two versions: unchanged, and with a little more of the same work and weights.

Each is a chain of equal blocks. An extra pass goes through the first block again, so that only time
distinguishes the two: 21 passes of 20 blocks are 5 % more work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

# benchmarks/compare_trials.py plants 15 % more work.
NUM_BLOCKS = 20
NUM_SLOW_PASSES = 23


class Block(nn.Module):
    """A part that a chain repeats; `INPUT` is the shape of its input and output."""

    INPUT: tuple[int, ...]


class Linear(Block):
    """A matrix product: bound by arithmetic."""

    INPUT = (64, 256)

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(256, 256)

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(self.layer(x))


class Convolution(Block):
    """A convolution with batch norm, as in an image model."""

    INPUT = (2, 16, 24, 24)

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(16, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.layer(x)))


class Attention(Block):
    """Self-attention over a short sequence, as in a language model."""

    INPUT = (2, 32, 128)

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(128, 3 * 128)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.projection(x).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads)
        return mixed.transpose(1, 2).reshape(batch, length, width)


class PointwiseOperators(Block):
    """Operators so small that their launches take all the time."""

    INPUT = (16,)

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(4):
            x = torch.tanh(x * self.scale)
        return x


KINDS: dict[str, type[Block]] = {
    "linear": Linear,
    "convolution": Convolution,
    "attention": Attention,
    "chain": PointwiseOperators,
}


class Blocks(nn.Module):
    """Blocks of one kind in a row, so that time grows with the number of passes."""

    def __init__(self, kind: type[Block], *, num_blocks: int, num_passes: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(kind() for _ in range(num_blocks))
        self.num_passes = num_passes

    def forward(self, x: Tensor) -> Tensor:
        for number in range(self.num_passes):
            x = x + self.blocks[number % len(self.blocks)](x)
        return x


def blocks(config: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return `num_passes` passes through `num_blocks` blocks of `kind`, with the inputs."""
    kind = KINDS[config["kind"]]
    model = Blocks(kind, num_blocks=config["num_blocks"], num_passes=config["num_passes"])
    return model, {"x": torch.randn(*kind.INPUT)}


def baseline(config: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return the unchanged model, with its inputs."""
    del config
    return blocks({"kind": "linear", "num_blocks": NUM_BLOCKS, "num_passes": NUM_BLOCKS})


def slower(config: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return the model with 15 % more passes, with its inputs."""
    del config
    return blocks({"kind": "linear", "num_blocks": NUM_BLOCKS, "num_passes": NUM_SLOW_PASSES})

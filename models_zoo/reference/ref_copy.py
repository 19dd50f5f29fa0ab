"""Reference case: one copy that no cache holds. Never changed, see reference_cases.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

# A short slice suffices for the accuracy check, and reading it costs hardly anything.
NUM_CHECKED = 1024


class ReferenceCopy(nn.Module):
    """A buffer that its input is copied into: a new allocation would measure page faults.

    The values are integers, which the fp64 oracle leaves unchanged.
    """

    target: Tensor

    def __init__(self, num_values: int) -> None:
        super().__init__()
        self.register_buffer("target", torch.zeros(num_values, dtype=torch.int32))

    def forward(self, source: Tensor) -> Tensor:
        """Copy `source` and return the beginning of the copy."""
        return self.target.copy_(source)[:NUM_CHECKED].float()


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the module with its buffer."""
    return ReferenceCopy(_num_values(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the values to copy."""
    return {"source": torch.arange(seed, seed + _num_values(config), dtype=torch.int32)}


def _num_values(config: Mapping[str, Any]) -> int:
    return int(config["num_bytes"]) // torch.int32.itemsize

"""The optimizer of a training launch as one fused operator, for iterations in the same process.

torch.optim steps the weights by many operators unless it is constructed with `fused=True`. A fused
step has the same state, so the present optimizer can take such steps: it needs no memory, and what
the option saves is measured instead of guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_STEP = "step"


def can_be_fused(optimizer: torch.optim.Optimizer | None) -> bool:
    """Return whether `optimizer` has fused steps and does not use them."""
    if optimizer is None:
        return False
    groups = optimizer.param_groups
    return all("fused" in group and not group["fused"] for group in groups) and all(
        parameter.is_floating_point() and not parameter.is_sparse
        for group in groups
        for parameter in group["params"]
    )


@contextmanager
def fused(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Let `optimizer` take fused steps during the block."""
    options = [(group["fused"], group["foreach"]) for group in optimizer.param_groups]
    _move_counts(optimizer, is_fused=True)
    for group in optimizer.param_groups:
        group["fused"], group["foreach"] = True, False
    try:
        yield
    finally:
        for group, (is_fused, is_foreach) in zip(optimizer.param_groups, options, strict=True):
            group["fused"], group["foreach"] = is_fused, is_foreach
        _move_counts(optimizer, is_fused=False)


def _move_counts(optimizer: torch.optim.Optimizer, *, is_fused: bool) -> None:
    """Move the count of steps of each weight: a fused operator needs it next to the weight."""
    for parameter, state in optimizer.state.items():
        if torch.is_tensor(state.get(_STEP)):
            state[_STEP] = state[_STEP].to(parameter.device if is_fused else "cpu")

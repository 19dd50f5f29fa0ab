"""What a generated kernel was called with, without the numbers in it: enough to call it alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch


def describe_arguments(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments of one call in their order, as JSON values.

    A tensor is its `dtype`, `sizes` and `strides`, or `same_as` with the place of the argument that
    starts at the same address; a number is itself; of anything else it is the `type`.
    """
    places: dict[int, int] = {}
    found: list[Any] = []
    for place, argument in enumerate(arguments):
        if isinstance(argument, torch.Tensor):
            # An empty tensor has no address, which many share.
            first = places.setdefault(argument.data_ptr(), place) if argument.numel() else place
            found.append(_tensor(argument) if first == place else {"same_as": first})
        elif isinstance(argument, (bool, int)) or _is_finite(argument):
            found.append(argument)
        else:
            found.append({"type": type(argument).__name__})
    return found


def _tensor(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "sizes": list(tensor.shape),
        "strides": list(tensor.stride()),
    }


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)

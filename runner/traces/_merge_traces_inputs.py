"""The inputs of an operator, as the profiler's record_shapes writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

# No memory holds more: sizes beyond are not of a tensor, and no product of them shall overflow.
_MAX_ELEMENTS = 2**60
# As many as an operator of torch takes.
_MAX_DIMENSIONS = 64
# How c10 names its types (c10/core/ScalarType.h), how torch does, and the bytes of an element.
DTYPES = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "c10::Half": ("float16", 2),
    "c10::BFloat16": ("bfloat16", 2),
    "c10::Float8_e4m3fn": ("float8_e4m3fn", 1),
    "c10::Float8_e5m2": ("float8_e5m2", 1),
    "c10::Float8_e4m3fnuz": ("float8_e4m3fnuz", 1),
    "c10::Float8_e5m2fnuz": ("float8_e5m2fnuz", 1),
    "long int": ("int64", 8),
    "long": ("int64", 8),
    "int": ("int32", 4),
    "short int": ("int16", 2),
    "short": ("int16", 2),
    "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "bool": ("bool", 1),
    "c10::complex<float>": ("complex64", 8),
    "c10::complex<double>": ("complex128", 16),
}
_LIST = "TensorList"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input that is a tensor: its sizes, the name of its type and the bytes of an element.

    `num_stored` is how many numbers lie in memory where it is spread over a dimension (stride 0).
    """

    sizes: tuple[int, ...]
    dtype: str
    element_bytes: int
    num_stored: int | None = None

    @property
    def num_elements(self) -> int:
        """Return how many numbers it holds."""
        return math.prod(self.sizes)

    @property
    def num_bytes(self) -> int:
        """Return how much of the memory it takes, whatever part of it is read."""
        num = self.num_elements if self.num_stored is None else self.num_stored
        return num * self.element_bytes


def tensors_of(
    dims: Sequence[Any], types: Sequence[Any], strides: Sequence[Any] = ()
) -> tuple[Tensor | None, ...]:
    """Return the inputs in order; None for what is no tensor or has an unknown type."""
    found = [_tensor(sizes, kind) for sizes, kind in zip(dims, types, strict=False)]
    for place, (tensor, steps) in enumerate(zip(found, strides, strict=False)):
        if tensor is not None and isinstance(steps, list) and len(steps) == len(tensor.sizes):
            spread = [size for size, step in zip(tensor.sizes, steps, strict=True) if step != 0]
            num_stored = min(math.prod(spread), tensor.num_elements)
            found[place] = replace(tensor, num_stored=num_stored)
    return tuple(found)


def spreading(strides: Any) -> list[Any]:
    """Return `strides` where one of them is 0, so that its input is spread; else nothing."""
    if not isinstance(strides, list):
        return []
    return strides if any(isinstance(steps, list) and 0 in steps for steps in strides) else []


def _tensor(sizes: Any, kind: Any) -> Tensor | None:
    known = DTYPES.get(kind) if isinstance(kind, str) else None
    if known is None or not _are_sizes(sizes) or math.prod(sizes) > _MAX_ELEMENTS:
        return None
    return Tensor(tuple(sizes), *known)


def _are_sizes(sizes: Any) -> bool:
    is_short = isinstance(sizes, list) and len(sizes) <= _MAX_DIMENSIONS
    return is_short and all(type(size) is int and size >= 0 for size in sizes)


def shapes_text(dims: Sequence[Any], types: Sequence[Any], values: Sequence[Any]) -> str:
    """Return the inputs that are tensors as text, and `values` that change what is computed."""
    shapes = [_shape(sizes, kind) for sizes, kind in zip(dims, types, strict=False)]
    given = " ".join(value for value in values if isinstance(value, str) and value)
    text = ", ".join(shape for shape in shapes if shape)
    return f"{text}; {given}" if text and given else text


def _shape(sizes: Any, kind: Any) -> str:
    if kind == _LIST and isinstance(sizes, list):
        return "[" + ", ".join("x".join(map(str, size)) for size in sizes if _are_sizes(size)) + "]"
    tensor = _tensor(sizes, kind)
    if tensor is None:
        return ""
    return " ".join([tensor.dtype, "x".join(map(str, tensor.sizes))]).rstrip()


def numbers_of(value: Any) -> tuple[int, ...] | None:
    """Return the whole numbers of a concrete input such as "[1, 2]", None where it has others."""
    if not isinstance(value, str) or not (value.startswith("[") and value.endswith("]")):
        return None
    try:
        return tuple(int(part) for part in value[1:-1].split(",") if part.strip())
    except ValueError:
        return None

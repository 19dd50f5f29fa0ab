"""Check and split the values of a history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np


def checked_history(values: np.ndarray) -> np.ndarray:
    """Return `values` as numbers; raise ValueError unless all are finite and above 0."""
    numbers = np.asarray(values, dtype=float)
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise ValueError("a history must hold finite numbers above 0 to have relative changes")
    return numbers


def split_history(
    numbers: np.ndarray, *, breaks: Iterable[int]
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield start and values of each segment between `breaks`, the first points of new levels."""
    bounds = [0, *sorted(breaks), numbers.size]
    for first, last in zip(bounds, bounds[1:], strict=False):
        yield first, numbers[first:last]

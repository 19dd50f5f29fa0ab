"""What all rules about one history share: what a history may hold, and how a median errs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

# Standard error of a median of normal values, over that of a mean.
MEDIAN_INEFFICIENCY = math.sqrt(math.pi / 2)


def checked(values: np.ndarray) -> np.ndarray:
    """Return `values` as numbers; raise ValueError unless all are finite and above 0."""
    numbers = np.asarray(values, dtype=float)
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise ValueError("a history must hold finite numbers above 0 to have relative changes")
    return numbers


def parts(numbers: np.ndarray, *, breaks: Iterable[int]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the stretches between `breaks`, the first points of new levels, with their starts."""
    bounds = [0, *sorted(breaks), numbers.size]
    for first, last in zip(bounds, bounds[1:], strict=False):
        yield first, numbers[first:last]

"""Define what all rules about one history share: how much of it they read, and valid values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

# Points before a place that a change there is held against.
BASELINE_POINTS = 14
# Points whose median is the level: more would lag behind a drift, fewer err more.
LEVEL_POINTS = 42
# Fewer points give no usable level or noise.
MIN_BASELINE_POINTS = 6
# One-night and two-night blips are common on shared machines and gone when one looks.
SUSTAINED_POINTS = 3
# A night is back within the floor of a level and nearer to it than this of the change from it.
BACK_SHARE = 0.5
# Of the floor: what comparisons of two sides call a change of that size. Held against the floor
# itself, half of all changes of just 5 % would pass.
TRIGGER_OF_FLOOR = 0.7
# Half of the width of a noise band, in robust sd: about one night in three hundred lies outside.
NOISE_MULTIPLE = 3.0
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


def middle(ordered: Sequence[float]) -> float:
    """Return the median of numbers in order of size: numpy's takes ten times as long on a few."""
    place = len(ordered) // 2
    return (ordered[place] + ordered[~place]) / 2

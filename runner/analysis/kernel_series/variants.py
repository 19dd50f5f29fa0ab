"""Divide out the factor between variants of a kernel that alternate from night to night.

Method: Inductor's autotuning times a few configurations in microseconds and may choose another one
each night; on an H100 they lay 30 % apart. A variant that came and went is compared with the most
frequent one: each of its nights with the nearest night on either side, and the median of these
ratios is the factor. A variant that came to stay has no such night, so a step by another
configuration or another code remains a step.
Assumption: the factor between two variants is constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np


def at_main_variant(seconds: np.ndarray, *, variants: Sequence[str]) -> np.ndarray:
    """Return `seconds` as the most frequent of `variants` would take them, where that is known."""
    if len(set(variants) - {""}) < 2:
        return seconds
    counts = Counter(variant for variant in variants if variant)
    # Of equally frequent ones the first by name, in any order of nights.
    main = min(counts, key=lambda variant: (-counts[variant], variant))
    names = np.array(variants)
    reference = np.flatnonzero(names == main)
    logs = np.log(seconds)
    for other in counts.keys() - {main}:
        nights = np.flatnonzero(names == other)
        after = np.searchsorted(reference, nights)
        is_between = (after > 0) & (after < reference.size)
        if not is_between.any():
            continue
        after, between = after[is_between], nights[is_between]
        level = (logs[reference[after - 1]] + logs[reference[after]]) / 2
        logs[nights] -= np.median(logs[between] - level)
    moved: np.ndarray = np.exp(logs)
    return moved

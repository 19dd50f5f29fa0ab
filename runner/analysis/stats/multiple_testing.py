"""Control the false discovery rate over many comparisons.

Method: Benjamini and Hochberg's step-up rule (Journal of the Royal Statistical Society B 57, 1995).
The q-value of a comparison is the smallest rate at which it is a discovery. With nothing changed
anywhere, any discovery is false: the rate is then the chance of a single one.
Assumptions: p-values are independent or depend positively on each other, as cases of one run do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def q_values(p_values: Sequence[float]) -> list[float]:
    """Return the q-value of each of `p_values`, in their order."""
    numbers = np.asarray(p_values, dtype=float)
    if not numbers.size:
        return []
    order = np.argsort(-numbers, kind="stable")
    ranks = np.arange(numbers.size, 0, -1)
    adjusted = np.empty_like(numbers)
    adjusted[order] = np.minimum.accumulate(np.minimum(1.0, numbers[order] * numbers.size / ranks))
    return [float(value) for value in adjusted]


def discovery_limit(p_values: Sequence[float], *, rate: float) -> float:
    """Return the largest p-value that is a discovery at `rate`; `rate` itself without any.

    Without a discovery it is Bonferroni's limit, below all `p_values`.
    """
    if not p_values:
        return rate
    is_discovery = [q <= rate for q in q_values(p_values)]
    known = [p for p, is_one in zip(p_values, is_discovery, strict=True) if is_one]
    return max([*known, rate / len(p_values)])

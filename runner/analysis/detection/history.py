"""Check the values of a history."""

from __future__ import annotations

import numpy as np


def checked_history(values: np.ndarray) -> np.ndarray:
    """Return `values` as numbers; raise ValueError unless all are finite and above 0."""
    numbers = np.asarray(values, dtype=float)
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise ValueError("a history must hold finite numbers above 0 to have relative changes")
    return numbers

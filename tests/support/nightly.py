"""Parameters of tests that are left to the night."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def daily_first(values: Iterable[Any], *, num_daily: int) -> list[Any]:
    """Return the parameters `values`; those after the first `num_daily` are for the night.

    A tuple has the values of several parameters.
    """
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*row, marks=() if number < num_daily else pytest.mark.nightly)
        for number, row in enumerate(rows)
    ]

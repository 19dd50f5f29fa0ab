"""Parameters of tests that are left to the night."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def daily_first(values: Iterable[Any], *, num_daily: int) -> list[Any]:
    """Return the parameters `values`; those after the first `num_daily` are for the night."""
    return [
        value if number < num_daily else pytest.param(value, marks=pytest.mark.nightly)
        for number, value in enumerate(values)
    ]

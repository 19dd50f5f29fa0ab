"""The sweep of a case result: other shapes through its compiled model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def speedups(row: Mapping[str, Any]) -> list[float]:
    """Return eager over variant of one shape (a row of `details.shapes`), round by round."""
    return [
        eager / variant for eager, variant in zip(row["eager_s"], row["variant_s"], strict=True)
    ]

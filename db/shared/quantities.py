"""The range of the numbers that a measurement can have.

A number beyond it is a bit error or a defect of the tool that wrote it. Squares and reciprocals of
the numbers inside are finite, which the statistics need. Only the standard library is needed.
"""

from __future__ import annotations

from typing import Final

# Imports accept up to 1e+100 in any unit; the rest is room for the factor between two units.
SMALLEST: Final = 1e-120
LARGEST: Final = 1e120
RANGE_TEXT: Final = f"0, or {SMALLEST:g} to {LARGEST:g} with either sign"


def is_quantity(value: float) -> bool:
    """Return whether a measurement can have the number `value`."""
    return value == 0 or SMALLEST <= abs(value) <= LARGEST


def rounded_to_zero(value: float) -> float:
    """Return `value`, 0 for a smaller distance from 0 than any that a measurement can have."""
    return 0.0 if abs(value) < SMALLEST else value

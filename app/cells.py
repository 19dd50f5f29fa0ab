"""Cells that several tables have alike. Pure."""

from __future__ import annotations

from app.format import Scale
from app.markup import Cell

_SINGLE = "one sample has no interval"


def interval_cell(low: float, high: float, *, scale: Scale, num_samples: int) -> Cell:
    """Return an interval in `scale`, `-` where there is none."""
    title = _SINGLE if low == high and num_samples == 1 else ""
    return Cell(text=scale.interval(low, high) or "-", title=title, style="quiet")

"""Cells that several tables have alike. Pure."""

from __future__ import annotations

from compile_hud.app.ui.format import Scale, is_interval
from compile_hud.app.ui.html import Cell, Column, Note
from compile_hud.db.records.summaries import ResultSummary

WARNINGS_COLUMN = Column(label="warnings", is_number=True)
_SINGLE = "one sample has no interval"


def interval_cell(low: float, high: float, *, scale: Scale, num_samples: int) -> Cell:
    """Return an interval in `scale`, `-` where there is none."""
    title = _SINGLE if num_samples == 1 and not is_interval(low, high) else ""
    return Cell(text=scale.interval(low, high) or "-", title=title, style="quiet")


def interval_notes(low: float, high: float, *, scale: Scale) -> tuple[Note, ...]:
    """Return an interval in `scale` as the note below its median; none where there is none."""
    interval = scale.interval(low, high)
    return (Note(text=interval),) if interval else ()


def warnings_cell(result: ResultSummary) -> Cell:
    """Return how many warnings a result has; its tooltip has their texts."""
    number = len(result.warnings)
    return Cell(
        text=str(number) if number else "-",
        style="" if number else "quiet",
        title="\n".join(warning.text for warning in result.warnings),
    )

"""Every model of a group in every mode, as a table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compile_hud.app.components.table.columns import (
    DataTable,
    IntervalColumn,
    Link,
    LinkColumn,
    NumberColumn,
    TextColumn,
    data_table,
)
from compile_hud.app.ui.format import Scale
from compile_hud.app.ui.urls import run_url, series_url
from compile_hud.app.views.modes.tables import NO_COMPILING
from compile_hud.db.records.summaries import LatestCell
from compile_hud.runner.analysis.modes.records import ModeCell, ModeGroup, ModelRow

_RATIO = Scale(1.0, "x")
_NOTES_WIDTH = 320
_CALLS_HELP = "calls that recover the compile time"


def model_table(group: ModeGroup, cells: Mapping[str, LatestCell]) -> DataTable:
    """Return speedup and break-even of each model, by mode; `cells` are by case key.

    A mode without a speedup is named in the notes, with its reason; a mode that the device cannot
    run is in the table of modes instead, and is no failure.
    """
    variants = list(dict.fromkeys(name for row in group.rows for name in row.cells))
    notes = [_notes(row, group) for row in group.rows]
    failures = [_failure_link(row, cells) for row in group.rows]
    has_notes, has_failures = any(notes), any(failures)
    columns = (
        LinkColumn(label="model", help="opens the history of its best mode", is_pinned=True),
        TextColumn(label="best", help="of this model by itself"),
        NumberColumn(label="break-even", help=f"of the best mode: {_CALLS_HELP}"),
        *(column for name in variants for column in _mode_columns(name, group)),
        *([TextColumn(label="notes", width=_NOTES_WIDTH)] if has_notes else []),
        *([LinkColumn(label="first failure", help="opens the case")] if has_failures else []),
    )
    rows = (
        (
            _model_link(row, cells),
            row.best or NO_COMPILING,
            _calls(row.cells.get(row.best)),
            *(value for name in variants for value in _mode_values(row.cells.get(name))),
            *([note or None] if has_notes else []),
            *([failure] if has_failures else []),
        )
        for row, note, failure in zip(group.rows, notes, failures, strict=True)
    )
    return data_table(columns, rows, label="speedup and break-even by model")


def _mode_columns(name: str, group: ModeGroup) -> tuple[TextColumn, ...]:
    return (
        NumberColumn(label=name, help=f"{group.speedup} over eager", unit="x"),
        IntervalColumn(label=f"{name}, 95 %", scale=_RATIO, is_hidden=True),
        NumberColumn(label=f"{name}, break-even", help=_CALLS_HELP, is_hidden=True),
    )


def _mode_values(cell: ModeCell | None) -> tuple[object, ...]:
    if cell is None or cell.cost is None or cell.is_same_code:
        return (None, None, None)
    speedup = cell.cost.speedup
    return (speedup.value, (speedup.low, speedup.high), _calls(cell))


def _calls(cell: ModeCell | None) -> float | None:
    """Return the calls that recover the compile time, with two digits, as the answers have it."""
    if cell is None or cell.break_even is None or cell.is_same_code:
        return None
    return float(f"{cell.break_even.value:.1e}")


def _notes(row: ModelRow, group: ModeGroup) -> str:
    return "; ".join(_note_texts(row, group))


def _note_texts(row: ModelRow, group: ModeGroup) -> Iterator[str]:
    for name, cell in row.cells.items():
        if name in group.unavailable:
            continue
        if cell.cost is None:
            yield f"{name}: {cell.reason}"
        elif cell.is_same_code:
            yield f"{name}: same code as {cell.runs_as}"
        else:
            if cell.break_even is None and cell.cost.speedup.high < 1:
                yield f"{name}: never pays"
            if cell.runs_as:
                yield f"{name}: fell back to {cell.runs_as}"
            yield from (f"{name}: other {changed}" for changed in cell.other_revisions)


def _model_link(row: ModelRow, cells: Mapping[str, LatestCell]) -> Link | None:
    ok = [cell for cell in row.cells.values() if cell.cost is not None]
    best = row.cells.get(row.best) or next(iter(ok or row.cells.values()), None)
    if best is None:
        return None
    latest = cells[best.case.key]
    if best.cost is None:
        return Link(row.model, run_url(latest.run_id, case_key=best.case.key))
    url = series_url(
        best.case.key, metric="speedup", machine=latest.machine, toolchain=latest.toolchain
    )
    return Link(row.model, url)


def _failure_link(row: ModelRow, cells: Mapping[str, LatestCell]) -> Link | None:
    failed = (
        cell
        for cell in row.cells.values()
        if cell.cost is None and not cells[cell.case.key].summary.outcome.is_expected
    )
    cell = next(failed, None)
    if cell is None:
        return None
    return Link(cell.case.variant, run_url(cells[cell.case.key].run_id, case_key=cell.case.key))

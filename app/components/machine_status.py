"""Texts and cells about the machine, from its reference cases. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compile_hud.app.data.page_records import MachineMove, RunPage
from compile_hud.app.ui.format import percent, scale_for
from compile_hud.app.ui.html import (
    WARNINGS_COLUMN,
    Cell,
    HtmlColumn,
    Note,
    interval_cell,
    table,
    warnings_cell,
)
from compile_hud.app.ui.urls import run_url, series_url
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.shared.text import percent_interval

MOVED = "moved"
_CAUTION = (
    "Absolute times are not comparable with earlier runs; speedups are. After an upgrade of torch,"
    " its eager operators may have changed instead."
)
_TIME = HtmlColumn(label="time", is_number=True)
_COLUMNS = (
    HtmlColumn(label="reference case"),
    HtmlColumn(label="bound by"),
    _TIME,
    HtmlColumn(label="95 % interval", is_number=True),
    HtmlColumn(label="change", title="against earlier runs on this machine", is_number=True),
    HtmlColumn(label="interval of the change", is_number=True),
    HtmlColumn(label="machine"),
    WARNINGS_COLUMN,
)


def machine_notice(moves: Sequence[MachineMove]) -> tuple[str, ...]:
    """Return the lines of the banner of a run with machine drift, none without any."""
    texts = [move_text(move) for move in moves if move.verdict == MOVED]
    return (f"Machine drift: {', '.join(texts)}.", _CAUTION) if texts else ()


def move_text(move: MachineMove) -> str:
    """Return a change in words: `memory +9.0 % [+6.1, +12.0] %`."""
    if move.change_pct is None:
        return move.kind
    interval = f" {percent_interval(move.interval_pct)}" if move.interval_pct else ""
    return f"{move.kind} {percent(move.change_pct)}{interval}"


def moved_cell(moves: Sequence[MachineMove]) -> Cell:
    """Return one cell on the machine: its drift, `steady`, or `-` if it is not known."""
    movers = [move for move in moves if move.verdict == MOVED]
    title = "\n".join(f"{move.model}: {move.verdict}, {move.reason}" for move in moves)
    if movers:
        texts = [
            f"{move.kind} {percent(move.change_pct)}"
            for move in movers
            if move.change_pct is not None
        ]
        return Cell(text=", ".join(texts), style="strong", title=title)
    is_steady = bool(moves) and all(move.verdict == "steady" for move in moves)
    return Cell(text="steady" if is_steady else "-", style="quiet", title=title)


def reference_table(page: RunPage) -> str:
    """Return the reference cases of a run and their changes; "" if it measured none.

    The heading of their times names the clock if it is the same for all, else each time does.
    """
    by_model = {move.model: move for move in page.machine}
    results = [item for item in page.results if item.case.is_reference]
    clocks = {metric_label(_metric(by_model.get(item.case.model))) for item in results}
    rows = [
        _row(item, by_model.get(item.case.model), page=page, has_clock=len(clocks) > 1)
        for item in results
    ]
    time = replace(_TIME, label=clocks.pop()) if len(clocks) == 1 else _TIME
    columns = [time if column is _TIME else column for column in _COLUMNS]
    return table(columns, rows, label="reference cases") if rows else ""


def _metric(move: MachineMove | None) -> str:
    return move.metric if move else "latency_s"


def _row(
    result: ResultSummary, move: MachineMove | None, *, page: RunPage, has_clock: bool
) -> tuple[Cell, ...]:
    case = result.case
    metric = _metric(move)
    name = Cell(
        text=case.model,
        href=run_url(page.run.id, case_key=case.key),
        style="strong",
        title=case.key,
    )
    warnings = warnings_cell(result)
    measured = result.measurements.get(metric)
    if measured is None:
        nothing = [Cell(text="-", style="quiet")] * (len(_COLUMNS) - 3)
        return (name, *nothing, Cell(text=str(result.outcome), title=result.reason), warnings)
    scale = scale_for(measured.unit, [measured.median])
    time = Cell(
        text=scale.text(measured.median),
        href=series_url(
            case.key,
            metric=metric,
            machine=page.run.machine,
            toolchain=page.run.toolchain,
            result=result.id,
        ),
        title=f"{metric_label(metric)}: {measured.method}",
        notes=(Note(text=metric_label(metric)),) if has_clock else (),
    )
    interval = interval_cell(
        measured.low, measured.high, scale=scale, num_samples=measured.num_samples
    )
    if move is None:
        nothing = [Cell(text="-", style="quiet")] * 3
        return (name, nothing[0], time, interval, *nothing, warnings)
    change = "-" if move.change_pct is None else percent(move.change_pct)
    limits = percent_interval(move.interval_pct) if move.interval_pct else ""
    verdict = Cell(
        text=move.verdict,
        style="strong" if move.verdict == MOVED else "quiet",
        title=move.reason,
    )
    return (
        name,
        Cell(text=move.kind),
        time,
        interval,
        Cell(text=change),
        Cell(text=limits, style="quiet"),
        verdict,
        warnings,
    )

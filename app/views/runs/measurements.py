"""The measurements of one case result as a table, group by group. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.app.ui._merge_cells import interval_cell
from compile_hud.app.ui.format import metric_label, scale_for
from compile_hud.app.ui.html import Cell, Column, table
from compile_hud.app.ui.urls import run_url, series_url
from compile_hud.app.views.runs._merge_groups import grouped
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Run
from compile_hud.db.records.summaries import MeasurementSummary, ResultSummary

_COLUMNS = (
    Column(label=""),
    Column(label="metric"),
    Column(label="median", is_number=True),
    Column(label="95 % interval", is_number=True),
    Column(label="samples", title="a click shows them, launch by launch", is_number=True),
    Column(label="how"),
)
# Parts of a result's details that say why something was not measured.
_MISSING = "missing"


def measurement_table(result: ResultSummary, *, run: Run) -> str:
    """Return every measurement with its interval, a link to its series and one to its samples."""
    rows = []
    for name, metrics in grouped(result.measurements):
        for place, metric in enumerate(metrics):
            group = Cell(text=name if place == 0 else "", style="quiet")
            rows.append((group, *_cells(result.measurements[metric], result=result, run=run)))
    return table(_COLUMNS, rows, label="measurements")


def missing_reasons(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was not measured and why, as far as the launches said, each reason once."""
    found: dict[str, list[str]] = {}
    for name, value in details.items():
        for part in value if isinstance(value, list) else [value]:
            reasons = part.get(_MISSING) if isinstance(part, dict) else None
            if isinstance(reasons, dict):
                for metric, reason in reasons.items():
                    _add(found, str(reason), metric_label(str(metric)))
            elif reasons:
                _add(found, str(reasons), name)
    return [(", ".join(names), reason) for reason, names in found.items()]


def missing_table(details: Mapping[str, Any]) -> str:
    """Return what was not measured and why as a table; "" when nothing is known to be missing."""
    reasons = missing_reasons(details)
    columns = (Column(label="not measured"), Column(label="because"))
    rows = [
        (Cell(text=names, style="prose"), Cell(text=reason, style="prose"))
        for names, reason in reasons
    ]
    return table(columns, rows, label="what is missing") if rows else ""


def _add(found: dict[str, list[str]], reason: str, name: str) -> None:
    names = found.setdefault(reason, [])
    if name not in names:
        names.append(name)


def _cells(item: MeasurementSummary, *, result: ResultSummary, run: Run) -> Sequence[Cell]:
    scale = scale_for(item.unit, [item.median])
    series = series_url(
        result.case.key,
        metric=item.metric,
        machine=run.machine,
        toolchain=run.toolchain,
        result=result.id,
    )
    known = METRICS.get(item.metric)
    return (
        Cell(
            text=metric_label(item.metric),
            href=series,
            title=f"{item.metric}: {known.description if known else 'not in the metric table'}",
        ),
        Cell(text=scale.text(item.median)),
        interval_cell(item.low, item.high, scale=scale, num_samples=item.num_samples),
        Cell(
            text=str(item.num_samples),
            href=run_url(run.id, case_key=result.case.key, samples=item.metric),
        ),
        Cell(text=item.method, style="prose quiet"),
    )

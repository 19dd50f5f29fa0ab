"""One case result in full, as HTML. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app.format import duration, metric_label, outcome_label, scale_for
from app.markup import Cell, Column, facts, table
from app.matrix import effective_note
from app.state import series_url
from db.metrics import METRICS
from db.records import Run
from db.summaries import ResultSummary

# Lists of sentences in a result's details, by what they explain.
REASON_LISTS = (
    ("graph_break_reasons", "Graph breaks"),
    ("recompile_reasons", "Recompiles"),
    ("cudagraph_skip_reasons", "CUDA graphs skipped"),
)
_METRIC_COLUMNS = (
    Column(label="metric"),
    Column(label="median", is_number=True),
    Column(label="95 % interval", is_number=True),
    Column(label="samples", is_number=True),
    Column(label="how"),
)
_PROSE_LIMIT = 2000


def result_facts(result: ResultSummary) -> str:
    """Return what was asked for and how it ended."""
    case = result.case
    took_s = (result.finished_at - result.started_at).total_seconds()
    ran = effective_note(case, result.effective_mode)
    pairs = [
        ("outcome", Cell(text=outcome_label(result.outcome))),
        ("phase", Cell(text=str(case.phase))),
        ("shape", Cell(text=case.shape)),
        ("dtype", Cell(text=str(case.dtype))),
        ("device", Cell(text=case.device)),
        ("backend", Cell(text=case.backend or "none")),
        ("mode", Cell(text=f"{case.mode} ({ran})" if ran else case.mode)),
        ("took", Cell(text=duration(took_s))),
    ]
    return facts(pairs)


def measurement_table(result: ResultSummary, *, run: Run) -> str:
    """Return every measurement with its interval and a link to its series."""
    order = {name: place for place, name in enumerate(METRICS)}
    rows = []
    for item in sorted(
        result.measurements.values(), key=lambda item: (order.get(item.metric, 99), item.metric)
    ):
        scale = scale_for(item.unit, [item.median])
        href = series_url(
            result.case.key,
            metric=item.metric,
            machine=run.machine,
            toolchain=run.toolchain,
            result=result.id,
        )
        rows.append(
            (
                Cell(text=metric_label(item.metric), href=href, title=item.metric),
                Cell(text=scale.text(item.median)),
                Cell(text=scale.interval(item.low, item.high) if item.num_samples > 1 else ""),
                Cell(text=str(item.num_samples)),
                Cell(text=item.method, style="quiet"),
            )
        )
    return table(_METRIC_COLUMNS, rows, label="measurements")


def warning_table(result: ResultSummary) -> str:
    """Return the warnings with their hints."""
    columns = (Column(label="warning"), Column(label="what it says"), Column(label="what to do"))
    rows = [
        (
            Cell(text=warning.code, style="strong"),
            Cell(text=warning.text, style="prose"),
            Cell(text=warning.hint, style="prose"),
        )
        for warning in result.warnings
    ]
    return table(columns, rows, label="warnings")


def reasons(result: ResultSummary) -> list[tuple[str, list[str]]]:
    """Return the lists of reasons that are not empty, each with its title."""
    return [
        (title, [str(item) for item in found])
        for name, title in REASON_LISTS
        if (found := result.details.get(name))
    ]


def other_details(result: ResultSummary) -> dict[str, Any]:
    """Return the details that are shown as they are."""
    listed = {name for name, _ in REASON_LISTS}
    return {name: value for name, value in result.details.items() if name not in listed}


def environment_table(environment: Mapping[str, Any]) -> str:
    """Return the facts of an environment, one a row; nested ones as JSON."""
    columns = (Column(label="fact"), Column(label="value"))
    rows = [
        (Cell(text=name), Cell(text=_fact_text(value), style="prose", title=_fact_text(value)))
        for name, value in sorted(environment.items())
    ]
    return table(columns, rows, label="environment")


def _fact_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False)

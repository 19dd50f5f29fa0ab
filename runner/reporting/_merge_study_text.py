"""The cells of a study's tables as words, for the terminal, a page and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compile_hud.db.records.metrics import METRICS
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.study import Study, StudyRun
from compile_hud.runner.analysis.studies.tables import (
    Beside,
    Gap,
    StudyCell,
    StudyTable,
    beside_published,
    gaps,
    study_tables,
)
from compile_hud.runner.format import quantity

# From here on a count is written out, with commas.
_LARGE_COUNT = 1000


def cell_text(cell: StudyCell, *, metric: str) -> str:
    """Return the number of a cell with its interval, or in words why there is none."""
    if cell.estimate is None:
        return cell.why
    text = estimate_text(cell.estimate, metric=metric)
    notes = [f"{number} ran as {mode}" for mode, number in cell.ran_as]
    return f"{text} ({', '.join(notes)})" if notes else text


def estimate_text(estimate: Estimate, *, metric: str) -> str:
    """Return `1.23x [1.20, 1.26]`, or the number alone where it is exact."""
    unit = METRICS[metric].unit
    value = _number(estimate.value, unit=unit)
    if estimate.low == estimate.high:
        return value
    low, high = (_number(side, unit=unit) for side in (estimate.low, estimate.high))
    # A ratio has its `x` once.
    return f"{value} [{low.rstrip('x')}, {high.rstrip('x')}]"


def cohort_text(cell: StudyCell, metric: str) -> str:
    """Return how many models a number is over, `3 of 4, 1.1x to 1.6x`; empty for one alone."""
    if cell.estimate is None or cell.num_subjects < 2:
        return ""
    count = f"{cell.num_common} of {cell.num_subjects}"
    if cell.num_common < 2 or cell.least is None or cell.most is None:
        return count
    unit = METRICS[metric].unit
    return f"{count}, {_number(cell.least, unit=unit)} to {_number(cell.most, unit=unit)}"


def study_json(study: Study, run: StudyRun) -> dict[str, Any]:
    """Return the tables of one run of `study` as a JSON object."""
    return {
        "study": study.name,
        "question": study.question,
        "tables": [_table_json(table) for table in study_tables(study, run.seen)],
        "published": [_beside_json(item) for item in beside_published(study, run.seen)],
        "not_measured": [_gap_json(gap) for gap in gaps(study, run)],
    }


def _number(value: float, *, unit: str) -> str:
    if unit == "1" and value >= _LARGE_COUNT:
        return f"{value:,.0f}"
    return quantity(value, unit=unit)


def _table_json(table: StudyTable) -> dict[str, Any]:
    return {
        "title": table.title,
        "rows_are": table.spec.rows,
        "rows": [
            {
                "name": name,
                "cells": [
                    {"column": column, "metric": metric, **_cell_json(cell)}
                    for column, metric, cell in zip(
                        table.columns, table.metrics, cells, strict=True
                    )
                ],
            }
            for name, cells in table.rows.items()
        ],
    }


def _cell_json(cell: StudyCell) -> dict[str, Any]:
    estimate = cell.estimate
    return {
        "value": None if estimate is None else estimate.value,
        "interval": None if estimate is None else [estimate.low, estimate.high],
        "range": None if estimate is None else [cell.least, cell.most],
        "num_common": cell.num_common,
        "num_subjects": cell.num_subjects,
        "ran_as": dict(cell.ran_as),
        "why": cell.why,
        "cases": [case.key for case in cell.cases],
    }


def _beside_json(item: Beside) -> dict[str, Any]:
    figure = item.published
    ours: Mapping[str, Any] = {name: _cell_json(cell) for name, cell in item.ours.items()}
    return {
        "what": figure.what,
        "low": figure.low,
        "high": figure.high,
        "device": figure.device,
        "source": figure.source,
        "unlike": figure.unlike,
        "ours": ours,
    }


def _gap_json(gap: Gap) -> dict[str, Any]:
    return {
        "variant": gap.variant,
        "outcome": gap.outcome,
        "reason": gap.reason,
        "num_cases": gap.num_cases,
        "models": list(gap.models),
    }

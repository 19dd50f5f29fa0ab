"""Summaries of results without samples, read in the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Row, Subquery, select
from sqlalchemy.engine import Connection

from compile_hud.db.records.results import Outcome
from compile_hud.db.records.summaries import MeasurementSummary, ResultSummary
from compile_hud.db.rows.columns import read_rows
from compile_hud.db.rows.mapping import case_record, warnings_of
from compile_hud.db.schema.tables import MeasurementTable

_SUMMARY_COLUMNS: Final[tuple[Any, ...]] = (
    MeasurementTable.c.result_id,
    MeasurementTable.c.metric,
    MeasurementTable.c.unit,
    MeasurementTable.c.num_samples,
    MeasurementTable.c.median,
    MeasurementTable.c.low,
    MeasurementTable.c.high,
    MeasurementTable.c.method,
)


def read_measurement_summaries(
    connection: Connection, results: Subquery
) -> dict[str, dict[str, MeasurementSummary]]:
    """Return the measurements of `results` without samples, by result and metric."""
    by_result: dict[str, dict[str, MeasurementSummary]] = defaultdict(dict)
    query = select(*_SUMMARY_COLUMNS).where(MeasurementTable.c.result_id.in_(select(results.c.id)))
    for row in read_rows(connection, query.order_by(*_SUMMARY_COLUMNS[:2])):
        by_result[row.result_id][row.metric] = measurement_summary(row)
    return by_result


def measurement_summary(row: Row[Any]) -> MeasurementSummary:
    return MeasurementSummary(
        metric=row.metric,
        unit=row.unit,
        num_samples=row.num_samples,
        median=row.median,
        low=row.low,
        high=row.high,
        method=row.method,
    )


def result_summary(
    row: Row[Any], measurements: Mapping[str, Mapping[str, MeasurementSummary]]
) -> ResultSummary:
    """Return the summary of a row of `with_case`, read by `read_rows`."""
    return ResultSummary(
        **outline_fields(row),
        measurements=measurements.get(row.result_id, {}),
        details=row.details,
        log_tail=row.log_tail,
    )


def outline_fields(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.result_id,
        "run_id": row.run_id,
        "case": case_record(row),
        "outcome": Outcome(row.outcome),
        "reason": row.reason,
        "effective_mode": row.effective_mode,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "warnings": warnings_of(row),
    }

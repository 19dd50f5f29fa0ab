"""Whole case results with their samples, read in the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Select, Subquery, select
from sqlalchemy.engine import Connection

from compile_hud.db.records.results import CaseResult, Measurement
from compile_hud.db.rows.mapping import measurement_record, result_record
from compile_hud.db.rows.sql_expressions import with_case
from compile_hud.db.schema.tables import MeasurementTable, SampleTable


def read_results(
    connection: Connection, results: Subquery, *, has_samples: bool = True
) -> list[CaseResult]:
    """Return `results` with all samples, or the median instead of them, in any order."""
    rows = connection.execute(with_case(results)).all()
    measurements = connection.execute(_select_measurements(results)).all()
    query = (
        select(SampleTable)
        .where(SampleTable.c.result_id.in_(select(results.c.id)))
        .order_by(SampleTable.c.position)
    )
    samples = connection.execute(query).all() if has_samples else ()
    values: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for sample in samples:
        values[sample.result_id, sample.metric, sample.is_warmup].append(sample.value)
    by_result: dict[str, list[Measurement]] = defaultdict(list)
    for row in measurements:
        by_result[row.result_id].append(
            measurement_record(
                row,
                samples=values[row.result_id, row.metric, False],
                warmups=values[row.result_id, row.metric, True],
            )
        )
    return [result_record(row, measurements=by_result[row.result_id]) for row in rows]


def _select_measurements(results: Subquery) -> Select[Any]:
    return (
        select(MeasurementTable)
        .where(MeasurementTable.c.result_id.in_(select(results.c.id)))
        .order_by(MeasurementTable.c.result_id, MeasurementTable.c.metric)
    )

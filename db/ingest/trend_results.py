"""The summary of the results that trends of the modes read, updated with every stored result.

A trend over months needs a few metrics of each case and run. Here they are one row; in
`measurements` they are several rows among those of all other metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import delete
from sqlalchemy.engine import Connection

from compile_hud.db.records.metrics import MODE_METRICS
from compile_hud.db.records.results import MODES, CaseResult, Run
from compile_hud.db.rows.bulk_insert import put_rows
from compile_hud.db.rows.mapping import Values, clean_text, utc
from compile_hud.db.rows.sql_expressions import TREND_COLUMNS
from compile_hud.db.schema.tables import TrendResultTable


def put_trend_results(connection: Connection, results: Iterable[tuple[Run, CaseResult]]) -> None:
    """Write rows of `results`, stored ones that count, whose cases have no row in their runs."""
    some = [
        (run, result)
        for run, result in results
        if result.case.variant in MODES and not result.is_deferred
    ]
    measured = {item.metric for _, result in some for item in result.measurements}
    # Columns that no row needs take most of the time of a long history with one metric.
    metrics = [metric for metric in MODE_METRICS if metric in measured]
    rows = [_values(run, result, metrics=metrics) for run, result in some]
    put_rows(connection, TrendResultTable, rows)


def replace_trend_result(connection: Connection, run: Run, *, result: CaseResult) -> None:
    """Write the row of `result`, which superseded the earlier ones of its case and run."""
    connection.execute(
        delete(TrendResultTable).where(
            TrendResultTable.c.run_id == run.id, TrendResultTable.c.case_key == result.case.key
        )
    )
    put_trend_results(connection, [(run, result)])


def _values(run: Run, result: CaseResult, *, metrics: Sequence[str]) -> Values:
    values: Values = {
        "run_id": run.id,
        "case_key": result.case.key,
        "run_started_at": utc(run.started_at),
        "outcome": str(result.outcome),
        "effective_mode": result.effective_mode,
        "same_code_as": clean_text(result.same_code_as),
    }
    for metric in metrics:
        item = result.measurement(metric)
        numbers = (None, None, None) if item is None else (item.median, *item.interval)
        values |= zip(TREND_COLUMNS[metric], numbers, strict=True)
    return values

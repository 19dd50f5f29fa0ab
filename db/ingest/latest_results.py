"""Summaries of the newest results, updated with every stored result.

The overview reads these summaries. Else it would search three and a half million results for the
newest of each case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, insert, select, tuple_
from sqlalchemy.engine import Connection

from compile_hud.db.records.results import CaseResult, Run
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.bulk_insert import put_rows
from compile_hud.db.rows.mapping import Values, measurement_values, result_values, utc
from compile_hud.db.rows.sql_expressions import LAST_RESULT
from compile_hud.db.schema.tables import (
    CaseResultTable,
    LatestMeasurementTable,
    LatestResultTable,
    SupersededTable,
)

_RESULT_COLUMNS: Final = (
    "case_key",
    "run_id",
    "outcome",
    "reason",
    "effective_mode",
    "started_at",
    "finished_at",
    "warnings",
)
_MEASUREMENT_COLUMNS: Final = ("metric", "unit", "num_samples", "median", "low", "high", "method")
# Machine, toolchain and key of the case.
_LatestKey = tuple[str, str, str]


def put_latest(connection: Connection, results: Iterable[tuple[Run, CaseResult]]) -> None:
    """Write summaries of those `results`, stored ones, that are the newest of their case.

    A deferred result measured nothing, so the previous one stays.
    """
    newest: dict[_LatestKey, tuple[Run, CaseResult]] = {}
    for run, result in results:
        key = (run.machine, run.toolchain, result.case.key)
        if not result.is_deferred and (
            key not in newest or _order(run, result) > _order(*newest[key])
        ):
            newest[key] = (run, result)
    known = _stored_order(connection, newest)
    moved = {
        key: newest_result
        for key, newest_result in newest.items()
        if key not in known or _order(*newest_result) > known[key]
    }
    if not moved:
        return
    _delete(connection, list(moved.keys() & known.keys()))
    put_rows(
        connection,
        LatestResultTable,
        [_result_row(*newest_result) for newest_result in moved.values()],
    )
    put_rows(
        connection,
        LatestMeasurementTable,
        [row for newest_result in moved.values() for row in _measurement_rows(*newest_result)],
    )


def supersede(connection: Connection, result: CaseResult) -> str:
    """Mark the results of the case and run of the stored `result` as superseded, but the last one.

    They no longer count. Return the id of the last one, which does.
    """
    same = select(CaseResultTable.c.id).where(
        CaseResultTable.c.run_id == result.run_id, CaseResultTable.c.case_key == result.case.key
    )
    last, *ids = connection.execute(same.order_by(*LAST_RESULT)).scalars().all()
    marked = select(SupersededTable.c.result_id).where(SupersededTable.c.result_id.in_(ids))
    known = set(connection.execute(marked).scalars())
    rows = [{"result_id": result_id} for result_id in ids if result_id not in known]
    if rows:
        connection.execute(insert(SupersededTable), rows)
    return last


def _order(run: Run, result: CaseResult) -> tuple[datetime, datetime, str]:
    return (utc(run.started_at), utc(result.finished_at), result.id)


def _stored_order(
    connection: Connection, keys_of_results: Iterable[_LatestKey]
) -> dict[_LatestKey, tuple[Any, ...]]:
    requested = set(keys_of_results)
    return {
        (row.machine, row.toolchain, row.case_key): (
            utc(row.run_started_at),
            utc(row.finished_at),
            row.result_id,
        )
        for keys in batches(sorted({key for _, _, key in requested}))
        for row in connection.execute(
            select(LatestResultTable).where(LatestResultTable.c.case_key.in_(keys))
        )
        if (row.machine, row.toolchain, row.case_key) in requested
    }


def _delete(connection: Connection, keys: Sequence[_LatestKey]) -> None:
    for table in (LatestResultTable, LatestMeasurementTable):
        columns = tuple_(table.c.machine, table.c.toolchain, table.c.case_key)
        for start in range(0, len(keys), 100):
            connection.execute(delete(table).where(columns.in_(keys[start : start + 100])))


def _result_row(run: Run, result: CaseResult) -> Values:
    values = result_values(result)
    return {
        **_scope_values(run),
        "result_id": result.id,
        "run_started_at": utc(run.started_at),
        "revision": run.revision,
        "fingerprint": run.fingerprint,
        **{name: values[name] for name in _RESULT_COLUMNS},
    }


def _measurement_rows(run: Run, result: CaseResult) -> list[Values]:
    return [
        {
            **_scope_values(run),
            "case_key": result.case.key,
            **{name: row[name] for name in _MEASUREMENT_COLUMNS},
        }
        for row in measurement_values(result, run=run)
    ]


def _scope_values(run: Run) -> Values:
    return {"machine": run.machine, "toolchain": run.toolchain}

"""Put whole runs into the tables: a history that comes at once, not as it is measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import Row, select, update
from sqlalchemy.orm import Session

from db.batches import put_rows
from db.imported import Statement, newest_statement
from db.ingest import put_run, put_samples
from db.kernel_rows import put_kernels
from db.latest import put_latest
from db.records import CaseResult, RunDocument
from db.rows import (
    Values,
    case_values,
    measurement_values,
    result_values,
    sample_columns,
    statement_record,
    statement_values,
    statements,
    utc,
)
from db.tables import CaseResultTable, CaseTable, MeasurementTable, RunTable, SeriesTable

# What a series tells of its latest point.
_LATEST_COLUMNS: Final = ("last_at", "last_run_id", "last_value", "machine", "unit")


def put_documents(session: Session, documents: Sequence[RunDocument], *, at: datetime) -> int:
    """Insert the runs that are not in yet with all their results; return how many results.

    Each case at most once in a run. Raises MixedStoreError when the store has runs of the other
    kind, real or synthetic.
    """
    ids = [document.run.id for document in documents]
    known = set(session.execute(select(RunTable.id).where(RunTable.id.in_(ids))).scalars())
    new = [document for document in documents if document.run.id not in known]
    for document in new:
        put_run(session, document.run, at=at)
    results = [result for document in new for result in document.results]
    if not results:
        return 0
    _put_cases(session, results)
    put_rows(session, CaseResultTable, [result_values(result) for result in results])
    put_kernels(session, results)
    put_latest(session, [(document.run, result) for document in new for result in document.results])
    measurements = [
        row
        for document in new
        for result in document.results
        for row in measurement_values(result, run=document.run)
    ]
    if measurements:
        put_rows(session, MeasurementTable, measurements)
        columns: dict[str, list[Any]] = defaultdict(list)
        for result in results:
            for name, values_of in sample_columns(result).items():
                columns[name].extend(values_of)
        put_samples(session, columns)
        _put_series(session, measurements, machines=_machines(new), stated=_statements(new))
    return len(results)


def _put_cases(session: Session, results: Sequence[CaseResult]) -> None:
    cases = {result.case.key: result.case for result in results}
    known = session.execute(select(CaseTable.key).where(CaseTable.key.in_(cases))).scalars()
    fresh = cases.keys() - set(known)
    put_rows(session, CaseTable, [case_values(cases[key]) for key in sorted(fresh)])


def _machines(documents: Sequence[RunDocument]) -> dict[str, tuple[str, str]]:
    return {
        document.run.id: (document.run.machine, document.run.fingerprint) for document in documents
    }


def _statements(documents: Sequence[RunDocument]) -> dict[str, Statement]:
    found: dict[str, Statement] = {}
    for document in documents:
        for result in document.results:
            for key, statement in statements(result, run=document.run).items():
                newest = newest_statement(found.get(key), statement)
                found |= {} if newest is None else {key: newest}
    return found


def _put_series(
    session: Session,
    rows: Sequence[Values],
    *,
    machines: dict[str, tuple[str, str]],
    stated: Mapping[str, Statement],
) -> None:
    by_key: dict[str, list[Values]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["run_started_at"]):
        by_key[row["series_key"]].append(row)
    wanted = select(SeriesTable.__table__).where(SeriesTable.key.in_(by_key))
    known = {row.key: row for row in session.execute(wanted)}
    fresh, moved = [], []
    for key, points in by_key.items():
        summary = _summary(key, points, machines=machines)
        said = stated.get(key)
        if key in known:
            newest = newest_statement(statement_record(known[key]), said)
            moved.append(_joined(known[key], summary) | statement_values(newest))
        else:
            fresh.append(summary | statement_values(said))
    put_rows(session, SeriesTable, fresh)
    _update_series(session, moved)


def _joined(header: Row[Any], summary: Values) -> Values:
    """Return the row of a series of which `summary` tells the new points."""
    latest = summary if summary["last_at"] >= utc(header.last_at) else header._mapping
    moved = {name: latest[name] for name in _LATEST_COLUMNS}
    return {
        **moved,
        "last_at": utc(moved["last_at"]),
        "key": header.key,
        "num_points": header.num_points + summary["num_points"],
        "first_at": min(utc(header.first_at), summary["first_at"]),
    }


def _update_series(session: Session, rows: Sequence[Values]) -> None:
    if not rows:
        return
    connection = session.connection()
    if connection.dialect.name != "duckdb":
        session.execute(update(SeriesTable), rows)
        return
    # One statement over all rows: row by row DuckDB takes two milliseconds each.
    names = [name for name in rows[0] if name != "key"]
    moves = ", ".join(f"{name} = series_batch.{name}" for name in names)
    cursor = connection.connection.cursor()
    try:
        cursor.register("series_batch", pa.Table.from_pylist(rows))
        cursor.execute(
            f"UPDATE series SET {moves} FROM series_batch WHERE series.key = series_batch.key"
        )
        cursor.unregister("series_batch")
    finally:
        cursor.close()


def _summary(key: str, points: Sequence[Values], *, machines: dict[str, tuple[str, str]]) -> Values:
    first, last = points[0], points[-1]
    machine, fingerprint = machines[last["run_id"]]
    return {
        "key": key,
        "case_key": last["case_key"],
        "metric": last["metric"],
        "unit": last["unit"],
        "machine": machine,
        "fingerprint": fingerprint,
        "num_points": len(points),
        "first_at": first["run_started_at"],
        "last_at": last["run_started_at"],
        "last_run_id": last["run_id"],
        "last_value": last["median"],
    }

"""Put whole runs into the tables: a history that comes at once, not as it is measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import Row, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from compile_hud.db.ingest._merge_ingest import check_is_of, put_result, put_run, put_samples
from compile_hud.db.ingest.latest_results import put_latest
from compile_hud.db.queries.common import batches
from compile_hud.db.records.imported import Statement, newest_statement
from compile_hud.db.records.results import CaseResult, Run, RunDocument
from compile_hud.db.rows.bulk_insert import put_rows
from compile_hud.db.rows.kernels import put_kernels
from compile_hud.db.rows.mapping import (
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
from compile_hud.db.schema.tables import (
    CaseResultTable,
    CaseTable,
    IngestedTable,
    MeasurementTable,
    RunTable,
    SeriesTable,
)

# What a series tells of its latest point.
_LATEST_COLUMNS: Final = ("last_at", "last_run_id", "last_value", "machine", "unit")

# A result behind its spool id.
_Spooled = tuple[str, CaseResult]


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
    return _put_new(session, new)


def put_results(session: Session, run: Run, *, results: Sequence[_Spooled], at: datetime) -> int:
    """Insert `results`, each behind its spool id, of `run`, which is in; return how many were new.

    What is in already, by its id or its spool id, is left as it is. Raises RecordError when a
    result is of another run. Needs a transaction that no other writer runs beside.
    """
    for _, result in results:
        check_is_of(run, result)
    fresh = _not_in(session, results)
    measured = select(CaseResultTable.case_key).where(CaseResultTable.run_id == run.id)
    seen = set(session.execute(measured).scalars())
    first: list[_Spooled] = []
    again: list[_Spooled] = []
    for spool_id, result in fresh:
        (again if result.case.key in seen else first).append((spool_id, result))
        seen.add(result.case.key)
    results_of = tuple(result for _, result in first)
    _put_new(session, [RunDocument(run=run, results=results_of)])
    ingested = [{"spool_id": spool_id, "ingested_at": at} for spool_id, _ in first]
    put_rows(session, IngestedTable, ingested)
    # A case that is measured again takes the place of its result before, which is seldom.
    for spool_id, result in again:
        put_result(session, run, result=result, spool_id=spool_id, at=at)
    return len(fresh)


def _not_in(session: Session, results: Sequence[_Spooled]) -> list[_Spooled]:
    """Return those of `results` that are not in by either id, each once."""
    spool_ids = _found(session, IngestedTable.spool_id, [spool_id for spool_id, _ in results])
    ids = _found(session, CaseResultTable.id, [result.id for _, result in results])
    fresh = []
    for spool_id, result in results:
        if spool_id not in spool_ids and result.id not in ids:
            fresh.append((spool_id, result))
        spool_ids.add(spool_id)
        ids.add(result.id)
    return fresh


def _found(session: Session, column: InstrumentedAttribute[str], values: Sequence[str]) -> set[str]:
    return {
        value
        for some in batches(values)
        for value in session.execute(select(column).where(column.in_(some))).scalars()
    }


def _put_new(session: Session, documents: Sequence[RunDocument]) -> int:
    """Insert all results of `documents`, whose runs are in and have no result of these cases."""
    results = [result for document in documents for result in document.results]
    if not results:
        return 0
    _put_cases(session, results)
    put_rows(session, CaseResultTable, [result_values(result) for result in results])
    put_kernels(session, results)
    put_latest(
        session, [(document.run, result) for document in documents for result in document.results]
    )
    measurements = [
        row
        for document in documents
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
        _put_series(
            session, measurements, machines=_machines(documents), stated=_statements(documents)
        )
    return len(results)


def _put_cases(session: Session, results: Sequence[CaseResult]) -> None:
    cases = {result.case.key: result.case for result in results}
    fresh = cases.keys() - _found(session, CaseTable.key, list(cases))
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
    wanted = select(SeriesTable.__table__)
    known = {
        row.key: row
        for some in batches(by_key)
        for row in session.execute(wanted.where(SeriesTable.key.in_(some)))
    }
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

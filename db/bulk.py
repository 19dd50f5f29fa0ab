"""Put whole runs into the tables: a history that comes at once, not as it is measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from db.ingest import put_run, put_samples
from db.records import RunDocument
from db.rows import Values, case_values, measurement_values, result_values, sample_columns, utc
from db.tables import CaseResultTable, CaseTable, MeasurementTable, RunTable, SeriesTable


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
    cases = {result.case.key: case_values(result.case) for result in results}
    for values in cases.values():
        row = upsert(CaseTable).values(**values)
        session.execute(row.on_conflict_do_nothing(index_elements=["key"]))
    session.execute(insert(CaseResultTable), [result_values(result) for result in results])
    measurements = [
        row
        for document in new
        for result in document.results
        for row in measurement_values(result, run=document.run)
    ]
    if measurements:
        session.execute(insert(MeasurementTable), measurements)
        columns: dict[str, list[Any]] = defaultdict(list)
        for result in results:
            for name, values_of in sample_columns(result).items():
                columns[name].extend(values_of)
        put_samples(session, columns)
        _put_series(session, measurements, machines=_machines(new))
    return len(results)


def _machines(documents: Sequence[RunDocument]) -> dict[str, tuple[str, str]]:
    return {
        document.run.id: (document.run.machine, document.run.fingerprint) for document in documents
    }


def _put_series(
    session: Session, rows: Sequence[Values], *, machines: dict[str, tuple[str, str]]
) -> None:
    by_key: dict[str, list[Values]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["run_started_at"]):
        by_key[row["series_key"]].append(row)
    found = session.execute(select(SeriesTable).where(SeriesTable.key.in_(by_key))).scalars()
    known = {item.key: item for item in found}
    fresh = []
    for key, points in by_key.items():
        summary = _summary(key, points, machines=machines)
        header = known.get(key)
        if header is None:
            fresh.append(summary)
            continue
        header.num_points += len(points)
        header.first_at = min(utc(header.first_at), summary["first_at"])
        if summary["last_at"] >= utc(header.last_at):
            for name in ("last_at", "last_run_id", "last_value", "machine", "unit"):
                setattr(header, name, summary[name])
    if fresh:
        session.execute(insert(SeriesTable), fresh)
    session.flush()


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

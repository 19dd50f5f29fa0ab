"""Put runs and case results into the tables, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import exists, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from compile_hud.db.errors import MixedStoreError, RecordError
from compile_hud.db.ingest.latest_results import put_latest, supersede
from compile_hud.db.records.imported import Statement, newest_statement
from compile_hud.db.records.results import CaseResult, Run, RunState
from compile_hud.db.rows.bulk_insert import put_batch
from compile_hud.db.rows.kernels import put_kernels
from compile_hud.db.rows.mapping import (
    Values,
    case_values,
    measurement_values,
    result_values,
    run_values,
    sample_columns,
    statement_record,
    statement_values,
    statements,
    utc,
)
from compile_hud.db.rows.plans import put_plan, remove_unused_plan
from compile_hud.db.schema.tables import (
    CaseResultTable,
    CaseTable,
    IngestedTable,
    MeasurementTable,
    RunTable,
    SampleTable,
    SeriesTable,
)

# What to do about runs of a kind that the store does not take.
_ADVICE: Final = {
    "synthetic": "Leave --store out, and `hud demo` makes a store of its own, or name a new one",
    "real": "Those are of `hud demo`: name another store with --store",
}
# What may change after a run began; its environment and identity are facts of the start.
_MOVING_COLUMNS: Final = ("state", "finished_at")
# What a run leaves to others is known at its end.
_ENDING_COLUMNS: Final = (*_MOVING_COLUMNS, "plan_hash", "num_planned")
_SAMPLE_SCHEMA: Final = pa.schema(
    {
        "result_id": pa.string(),
        "metric": pa.string(),
        "is_warmup": pa.bool_(),
        "position": pa.int32(),
        "launch": pa.int32(),
        "value": pa.float64(),
    }
)


def put_run(session: Session, run: Run, *, at: datetime) -> None:
    """Insert `run` or move its state; a finished run stays finished.

    An interrupted run may run again (it was resumed). Its plan may be another one at its end: that
    of one machine among many is what it was given. Raises MixedStoreError when the store has
    runs of the other kind.
    """
    state = session.execute(select(RunTable.state).where(RunTable.id == run.id)).scalar()
    if state is None:
        check_not_mixed(
            session.connection(), f"run {run.id}", is_synthetic=run.is_synthetic, store="this store"
        )
        put_plan(session, run.plan)
        session.execute(insert(RunTable).values(**run_values(run), heartbeat_at=at))
    elif state != RunState.FINISHED or run.state is RunState.FINISHED:
        values = run_values(run)
        names = _MOVING_COLUMNS if run.state is RunState.RUNNING else _ENDING_COLUMNS
        moved = {name: values[name] for name in names}
        row = session.execute(select(RunTable.plan_hash).where(RunTable.id == run.id)).one()
        session.execute(
            update(RunTable).where(RunTable.id == run.id).values(**moved, heartbeat_at=at)
        )
        if moved.get("plan_hash", row.plan_hash) != row.plan_hash:
            put_plan(session, run.plan)
            remove_unused_plan(session, row.plan_hash)


def put_result(
    session: Session,
    run: Run,
    *,
    result: CaseResult,
    spool_id: str,
    at: datetime,
) -> bool:
    """Insert `result` with all its rows; return False when it or `spool_id` is in already.

    Raises RecordError when the result is of another run. Needs a transaction that no other writer
    runs beside, which `Database.write` gives. A case that was measured twice in one run keeps both
    results; readers take the one that finished last.
    """
    check_is_of(run, result)
    if _is_in(session, result, spool_id=spool_id):
        return False
    if not session.execute(select(exists().where(RunTable.id == run.id))).scalar():
        put_run(session, run, at=at)
    was_seen = _is_case_in_run(session, result)
    case = upsert(CaseTable).values(**case_values(result.case))
    session.execute(case.on_conflict_do_nothing(index_elements=["key"]))
    session.execute(insert(CaseResultTable).values(**result_values(result)))
    measurements = measurement_values(result, run=run)
    _put_series(
        session, measurements, run=run, stated=statements(result, run=run), was_seen=was_seen
    )
    if measurements:
        session.execute(insert(MeasurementTable), measurements)
        put_samples(session, sample_columns(result))
    put_kernels(session, [result])
    if was_seen:
        supersede(session, result)
    put_latest(session, [(run, result)])
    session.execute(insert(IngestedTable).values(spool_id=spool_id, ingested_at=at))
    return True


def check_is_of(run: Run, result: CaseResult) -> None:
    """Raise RecordError when `result` is of another run than `run`."""
    if result.run_id != run.id:
        raise RecordError(f"result {result.id} is of run {result.run_id}, not of run {run.id}")


def check_not_mixed(connection: Connection, what: str, *, is_synthetic: bool, store: str) -> None:
    """Raise MixedStoreError when there are runs of the other kind than `what`.

    `what` and `store` are words for the message.
    """
    other = select(RunTable.id).where(RunTable.is_synthetic != is_synthetic).limit(1)
    if connection.execute(other).scalar() is None:
        return
    here, kind = ("real", "synthetic") if is_synthetic else ("synthetic", "real")
    raise MixedStoreError(
        f"{what} is {kind}, but {store} holds {here} runs, and the two never mix. {_ADVICE[kind]}"
    )


def _is_in(session: Session, result: CaseResult, *, spool_id: str) -> bool:
    was_ingested = exists().where(IngestedTable.spool_id == spool_id)
    is_known = exists().where(CaseResultTable.id == result.id)
    return bool(session.execute(select(was_ingested | is_known)).scalar())


def _is_case_in_run(session: Session, result: CaseResult) -> bool:
    here = exists().where(
        CaseResultTable.run_id == result.run_id, CaseResultTable.case_key == result.case.key
    )
    return bool(session.execute(select(here)).scalar())


def _put_series(
    session: Session,
    rows: list[Values],
    *,
    run: Run,
    stated: Mapping[str, Statement],
    was_seen: bool,
) -> None:
    keys = [row["series_key"] for row in rows]
    found = session.execute(select(SeriesTable).where(SeriesTable.key.in_(keys))).scalars()
    known = {item.key: item for item in found}
    counted = _points_of_run(session, rows, run=run) if was_seen else set()
    for row in rows:
        point = _point(row, run=run)
        said = stated.get(row["series_key"])
        header = known.get(row["series_key"])
        if header is None:
            session.add(SeriesTable(**point, **statement_values(said), num_points=1))
            continue
        newest = statement_values(newest_statement(statement_record(header), said))
        header.direction, header.direction_at = newest["direction"], newest["direction_at"]
        header.num_points += row["series_key"] not in counted
        header.first_at = min(utc(header.first_at), point["first_at"])
        if point["last_at"] >= utc(header.last_at):
            for name in ("last_at", "last_run_id", "last_value", "machine", "unit"):
                setattr(header, name, point[name])
    session.flush()


def _points_of_run(session: Session, rows: list[Values], *, run: Run) -> set[str]:
    keys = [row["series_key"] for row in rows]
    points = select(MeasurementTable.series_key).where(
        MeasurementTable.run_id == run.id, MeasurementTable.series_key.in_(keys)
    )
    return set(session.execute(points).scalars())


def _point(row: Values, *, run: Run) -> Values:
    return {
        "key": row["series_key"],
        "case_key": row["case_key"],
        "metric": row["metric"],
        "unit": row["unit"],
        "machine": run.machine,
        "fingerprint": run.fingerprint,
        "first_at": row["run_started_at"],
        "last_at": row["run_started_at"],
        "last_run_id": run.id,
        "last_value": row["median"],
    }


def put_samples(session: Session, columns: Mapping[str, list[Any]]) -> None:
    """Insert rows of `samples`, given by column."""
    connection = session.connection()
    if connection.dialect.name != "duckdb":
        names = list(columns)
        rows: list[dict[str, Any]] = [
            dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)
        ]
        session.execute(insert(SampleTable), rows)
        return
    put_batch(connection, SampleTable.__tablename__, pa.table(dict(columns), schema=_SAMPLE_SCHEMA))

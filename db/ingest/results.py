"""Insert runs and case results inside the caller's transaction, one by one or whole runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Column, Row, bindparam, exists, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.engine import Connection

from compile_hud.db.errors import MixedStoreError, RecordError
from compile_hud.db.ingest.latest_results import put_latest, supersede
from compile_hud.db.ingest.trend_results import put_trend_results, replace_trend_result
from compile_hud.db.records.imported import Statement, newest_statement
from compile_hud.db.records.results import CaseResult, Run, RunDocument, RunState
from compile_hud.db.rows.batches import IDS_PER_READ, batches
from compile_hud.db.rows.bulk_insert import put_batch, put_rows
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
from compile_hud.db.rows.plans import put_plan, put_plans, remove_unused_plan
from compile_hud.db.schema.tables import (
    CaseResultTable,
    CaseTable,
    IngestedTable,
    MeasurementTable,
    RunTable,
    SampleTable,
    SeriesTable,
)

# The columns of a series about its latest point.
_LATEST_COLUMNS: Final = ("last_at", "last_run_id", "last_value", "machine", "unit")

# A result behind its spool id.
_Spooled = tuple[str, CaseResult]
# The remedy for runs of a kind that the store does not take.
_ADVICE: Final = {
    "synthetic": "Leave --store out, and `hud demo` makes a store of its own, or name a new one",
    "real": "Those are of `hud demo`: name another store with --store",
}
# These columns may change after a run began; its environment and identity are fixed at the start.
_MOVING_COLUMNS: Final = ("state", "finished_at")
# The part of the plan that a node leaves to others is known only at the end of its run.
_ENDING_COLUMNS: Final = (*_MOVING_COLUMNS, "plan_hash", "num_planned")


def put_documents(connection: Connection, documents: Sequence[RunDocument], *, at: datetime) -> int:
    """Insert the new runs with all their results; return the number of new results.

    A case occurs at most once in a run. Raises MixedStoreError if the store has runs of the other
    kind, real or synthetic.
    """
    known = stored_runs(connection, [document.run.id for document in documents])
    new = [document for document in documents if document.run.id not in known]
    _put_runs(connection, [document.run for document in new], at=at)
    return _put_new(connection, new)


def stored_runs(connection: Connection, run_ids: Sequence[str]) -> set[str]:
    """Return those of `run_ids` that are runs of the store."""
    if len(run_ids) <= IDS_PER_READ:
        return _existing(connection, RunTable.c.id, run_ids)
    # A parameter costs DuckDB more than a row, and a history has thousands of runs.
    query = select(RunTable.c.id).where(RunTable.c.id.between(min(run_ids), max(run_ids)))
    return set(connection.execute(query).scalars()) & set(run_ids)


def _put_runs(connection: Connection, runs: Sequence[Run], *, at: datetime) -> None:
    """Insert `runs`, which are not stored, with their plans."""
    for is_synthetic in (False, True):
        kind = [run for run in runs if run.is_synthetic is is_synthetic]
        if not kind:
            continue
        check_not_mixed(
            connection, f"run {kind[0].id}", is_synthetic=is_synthetic, store="this store"
        )
        put_plans(connection, [run.plan for run in kind])
        # A statement for each run of a history would take longer than everything else.
        put_rows(connection, RunTable, [{**run_values(run), "heartbeat_at": at} for run in kind])


def put_results(
    connection: Connection, run: Run, *, results: Sequence[_Spooled], at: datetime
) -> int:
    """Insert `results`, each behind its spool id, of the stored `run`; return the number of new
    ones.

    A result that is stored already, by its id or its spool id, stays unchanged. Raises RecordError
    for a result of another run. Needs the transaction of the only writer.
    """
    for _, result in results:
        check_is_of(run, result)
    fresh = _not_in(connection, results)
    measured = select(CaseResultTable.c.case_key).where(CaseResultTable.c.run_id == run.id)
    measured_keys = set(connection.execute(measured).scalars())
    first: list[_Spooled] = []
    again: list[_Spooled] = []
    for spool_id, result in fresh:
        (again if result.case.key in measured_keys else first).append((spool_id, result))
        measured_keys.add(result.case.key)
    results_of = tuple(result for _, result in first)
    _put_new(connection, [RunDocument(run=run, results=results_of)])
    ingested = [{"spool_id": spool_id, "ingested_at": at} for spool_id, _ in first]
    put_rows(connection, IngestedTable, ingested)
    # Only a repeated case supersedes an earlier result, which is rare.
    for spool_id, result in again:
        put_result(connection, run, result=result, spool_id=spool_id, at=at)
    return len(fresh)


def _not_in(connection: Connection, results: Sequence[_Spooled]) -> list[_Spooled]:
    """Return those of `results` that are not stored under either id, each once."""
    spool_ids = _existing(
        connection, IngestedTable.c.spool_id, [spool_id for spool_id, _ in results]
    )
    ids = _existing(connection, CaseResultTable.c.id, [result.id for _, result in results])
    fresh = []
    for spool_id, result in results:
        if spool_id not in spool_ids and result.id not in ids:
            fresh.append((spool_id, result))
        spool_ids.add(spool_id)
        ids.add(result.id)
    return fresh


def _existing(connection: Connection, column: Column[str], values: Sequence[str]) -> set[str]:
    return {
        value
        for some in batches(values)
        for value in connection.execute(select(column).where(column.in_(some))).scalars()
    }


def _put_new(connection: Connection, documents: Sequence[RunDocument]) -> int:
    """Insert all results of `documents`, whose runs are stored without results of these cases."""
    results = [result for document in documents for result in document.results]
    if not results:
        return 0
    _put_cases(connection, results)
    put_rows(connection, CaseResultTable, [result_values(result) for result in results])
    put_kernels(connection, results)
    results_of_runs = [
        (document.run, result) for document in documents for result in document.results
    ]
    put_latest(connection, results_of_runs)
    put_trend_results(connection, results_of_runs)
    measurements = [
        row for run, result in results_of_runs for row in measurement_values(result, run=run)
    ]
    if measurements:
        put_rows(connection, MeasurementTable, measurements)
        columns: dict[str, list[Any]] = defaultdict(list)
        for result in results:
            for name, values_of in sample_columns(result).items():
                columns[name].extend(values_of)
        put_samples(connection, columns)
        _put_series(
            connection,
            measurements,
            machines=_machines(documents),
            statements_by_series=_statements(documents),
        )
    return len(results)


def _put_cases(connection: Connection, results: Sequence[CaseResult]) -> None:
    cases = {result.case.key: result.case for result in results}
    fresh = cases.keys() - _existing(connection, CaseTable.c.key, list(cases))
    put_rows(connection, CaseTable, [case_values(cases[key]) for key in sorted(fresh)])


def _machines(documents: Sequence[RunDocument]) -> dict[str, tuple[str, str]]:
    return {
        document.run.id: (document.run.machine, document.run.fingerprint) for document in documents
    }


def _statements(documents: Sequence[RunDocument]) -> dict[str, Statement]:
    newest_by_series: dict[str, Statement] = {}
    for document in documents:
        for result in document.results:
            for key, statement in statements(result, run=document.run).items():
                newest = newest_statement(newest_by_series.get(key), statement)
                newest_by_series |= {} if newest is None else {key: newest}
    return newest_by_series


def _put_series(
    connection: Connection,
    rows: Sequence[Values],
    *,
    machines: dict[str, tuple[str, str]],
    statements_by_series: Mapping[str, Statement],
    counted: Set[str] = frozenset(),
) -> None:
    """Insert or update the series of `rows`; a point of those in `counted` is there already."""
    by_key: dict[str, list[Values]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["run_started_at"]):
        by_key[row["series_key"]].append(row)
    query = select(SeriesTable)
    known = {
        row.key: row
        for some in batches(by_key)
        for row in connection.execute(query.where(SeriesTable.c.key.in_(some)))
    }
    fresh, moved = [], []
    for key, points in by_key.items():
        summary = _summary(key, points, machines=machines)
        statement = statements_by_series.get(key)
        if key in known:
            summary["num_points"] *= key not in counted
            newest = newest_statement(statement_record(known[key]), statement)
            moved.append(_joined(known[key], summary) | statement_values(newest))
        else:
            fresh.append(summary | statement_values(statement))
    put_rows(connection, SeriesTable, fresh)
    _update_series(connection, moved)


def _joined(header: Row[Any], summary: Values) -> Values:
    """Return the row of a series with the new points of `summary`."""
    latest = summary if summary["last_at"] >= utc(header.last_at) else header._mapping
    moved = {name: latest[name] for name in _LATEST_COLUMNS}
    return {
        **moved,
        "last_at": utc(moved["last_at"]),
        "key": header.key,
        "num_points": header.num_points + summary["num_points"],
        "first_at": min(utc(header.first_at), summary["first_at"]),
    }


def _update_series(connection: Connection, rows: Sequence[Values]) -> None:
    if not rows:
        return
    if connection.dialect.name != "duckdb":
        # A parameter may not have the name of a column that is set.
        here = SeriesTable.c.key == bindparam("series")
        connection.execute(
            update(SeriesTable).where(here), [{**row, "series": row["key"]} for row in rows]
        )
        return
    # One statement for all rows: DuckDB takes two milliseconds for each separate one.
    import pyarrow as pa

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


def put_run(connection: Connection, run: Run, *, at: datetime) -> None:
    """Insert `run` or move its state; a finished run stays finished.

    An interrupted run may run again (it was resumed). Its plan may change until its end: that of
    one node of a cluster is the part that the node was assigned. Raises MixedStoreError if the
    store has runs of the other kind.
    """
    state = connection.execute(select(RunTable.c.state).where(RunTable.c.id == run.id)).scalar()
    if state is None:
        check_not_mixed(
            connection, f"run {run.id}", is_synthetic=run.is_synthetic, store="this store"
        )
        put_plan(connection, run.plan)
        connection.execute(insert(RunTable).values(**run_values(run), heartbeat_at=at))
    elif state != RunState.FINISHED or run.state is RunState.FINISHED:
        values = run_values(run)
        names = _MOVING_COLUMNS if run.state is RunState.RUNNING else _ENDING_COLUMNS
        moved = {name: values[name] for name in names}
        row = connection.execute(select(RunTable.c.plan_hash).where(RunTable.c.id == run.id)).one()
        connection.execute(
            update(RunTable).where(RunTable.c.id == run.id).values(**moved, heartbeat_at=at)
        )
        if moved.get("plan_hash", row.plan_hash) != row.plan_hash:
            put_plan(connection, run.plan)
            remove_unused_plan(connection, row.plan_hash)


def put_result(
    connection: Connection,
    run: Run,
    *,
    result: CaseResult,
    spool_id: str,
    at: datetime,
) -> bool:
    """Insert `result` with all its rows; return False if it or `spool_id` is stored already.

    Raises RecordError for a result of another run. Needs the transaction of the only writer, which
    `Database.write` gives. A case that was measured twice in one run has two results; readers take
    the one that finished last.
    """
    check_is_of(run, result)
    if _is_in(connection, result, spool_id=spool_id):
        return False
    if not connection.execute(select(exists().where(RunTable.c.id == run.id))).scalar():
        put_run(connection, run, at=at)
    is_repeat = _is_case_in_run(connection, result)
    case = upsert(CaseTable).values(**case_values(result.case))
    connection.execute(case.on_conflict_do_nothing(index_elements=["key"]))
    connection.execute(insert(CaseResultTable).values(**result_values(result)))
    measurements = measurement_values(result, run=run)
    _put_series(
        connection,
        measurements,
        machines=_machines([RunDocument(run=run, results=())]),
        statements_by_series=statements(result, run=run),
        counted=_points_of_run(connection, measurements, run=run) if is_repeat else frozenset(),
    )
    if measurements:
        connection.execute(insert(MeasurementTable), measurements)
        put_samples(connection, sample_columns(result))
    put_kernels(connection, [result])
    if not is_repeat:
        put_trend_results(connection, [(run, result)])
    elif supersede(connection, result) == result.id:
        replace_trend_result(connection, run, result=result)
    put_latest(connection, [(run, result)])
    connection.execute(insert(IngestedTable).values(spool_id=spool_id, ingested_at=at))
    return True


def check_is_of(run: Run, result: CaseResult) -> None:
    """Raise RecordError if `result` is of another run than `run`."""
    if result.run_id != run.id:
        raise RecordError(
            f"result {result.id} is of run {result.run_id}, not of run {run.id}",
            result=result.id,
            run=result.run_id,
            expected=run.id,
        )


def check_not_mixed(connection: Connection, what: str, *, is_synthetic: bool, store: str) -> None:
    """Raise MixedStoreError if there are runs of the other kind than `what`.

    `what` and `store` are words for the message.
    """
    other = select(RunTable.c.id).where(RunTable.c.is_synthetic != is_synthetic).limit(1)
    if connection.execute(other).scalar() is None:
        return
    here, kind = ("real", "synthetic") if is_synthetic else ("synthetic", "real")
    raise MixedStoreError(
        f"{what} is {kind}, but {store} holds {here} runs, and the two never mix. {_ADVICE[kind]}",
        subject=what,
        kind=kind,
        store=store,
    )


def _is_in(connection: Connection, result: CaseResult, *, spool_id: str) -> bool:
    was_ingested = exists().where(IngestedTable.c.spool_id == spool_id)
    is_known = exists().where(CaseResultTable.c.id == result.id)
    return bool(connection.execute(select(was_ingested | is_known)).scalar())


def _is_case_in_run(connection: Connection, result: CaseResult) -> bool:
    here = exists().where(
        CaseResultTable.c.run_id == result.run_id, CaseResultTable.c.case_key == result.case.key
    )
    return bool(connection.execute(select(here)).scalar())


def _points_of_run(connection: Connection, rows: list[Values], *, run: Run) -> set[str]:
    keys = [row["series_key"] for row in rows]
    points = select(MeasurementTable.c.series_key).where(
        MeasurementTable.c.run_id == run.id, MeasurementTable.c.series_key.in_(keys)
    )
    return set(connection.execute(points).scalars())


def put_samples(connection: Connection, columns: Mapping[str, list[Any]]) -> None:
    """Insert rows of `samples`, given by column."""
    if connection.dialect.name != "duckdb":
        names = list(columns)
        rows: list[dict[str, Any]] = [
            dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)
        ]
        connection.execute(insert(SampleTable), rows)
        return
    import pyarrow as pa

    schema = pa.schema(
        {
            "result_id": pa.string(),
            "metric": pa.string(),
            "is_warmup": pa.bool_(),
            "position": pa.int32(),
            "launch": pa.int32(),
            "value": pa.float64(),
        }
    )
    put_batch(connection, SampleTable.name, pa.table(dict(columns), schema=schema))

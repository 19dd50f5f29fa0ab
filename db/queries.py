"""What is read from the store: one short transaction a call, frozen records out.

Where a case was measured more than once in a run (the run was resumed), the result that finished
last counts everywhere. All functions raise StoreLocked, StoreTooNew and StoreUnavailable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, Subquery, func, select
from sqlalchemy.engine import Connection

from db.errors import NotFoundError
from db.records import (
    Alert,
    AlertState,
    Case,
    CaseResult,
    Measurement,
    Outcome,
    Run,
    RunDocument,
    RunState,
)
from db.rows import (
    alert_record,
    case_record,
    measurement_record,
    result_record,
    run_record,
    utc,
    utc_or_none,
    warnings_of,
)
from db.store import Store
from db.summaries import (
    LatestCell,
    MeasurementSummary,
    OutcomeHistory,
    OutcomePoint,
    Point,
    ResultSummary,
    RunSummary,
    Sample,
    Series,
    SeriesHeader,
)
from db.tables import (
    AlertTable,
    CaseResultTable,
    CaseTable,
    MeasurementTable,
    RunTable,
    SampleTable,
    SeriesTable,
)

# Series read in one transaction by `load_histories`: a two-year history of these is about 100 MB.
_SERIES_PER_READ: Final = 200


def load_runs(store: Store, *, limit: int = 50) -> list[RunSummary]:
    """Return the newest `limit` runs, newest first."""
    newest = select(RunTable.__table__).order_by(*_NEWEST_RUN).limit(limit)
    with store.read() as connection:
        rows = connection.execute(newest).all()
        last = _last_results(CaseResultTable.run_id.in_([row.id for row in rows]))
        counts = connection.execute(
            select(last.c.run_id, last.c.outcome, func.count().label("num")).group_by(
                last.c.run_id, last.c.outcome
            )
        ).all()
    by_run: dict[str, dict[Outcome, int]] = defaultdict(dict)
    for count in counts:
        by_run[count.run_id][Outcome(count.outcome)] = count.num
    return [
        RunSummary(
            run=run_record(row),
            num_by_outcome=by_run.get(row.id, {}),
            heartbeat_at=utc_or_none(row.heartbeat_at),
        )
        for row in rows
    ]


def load_run(store: Store, run_id: str) -> Run:
    """Return the run with this id or unique start of an id, or the newest for `latest`.

    Raises NotFoundError when there is none, or more than one.
    """
    with store.read() as connection:
        return _run(connection, run_id)


def load_results(store: Store, run_id: str) -> tuple[CaseResult, ...]:
    """Return the results of a run with all samples, in plan order; `run_id` as in `load_run`."""
    return load_document(store, run_id).results


def load_document(store: Store, run_id: str) -> RunDocument:
    """Return a run with its results and all samples, in plan order; `run_id` as in `load_run`."""
    with store.read() as connection:
        run = _run(connection, run_id)
        results = _full_results(connection, _last_results(CaseResultTable.run_id == run.id))
    return RunDocument(run=run, results=tuple(sorted(results, key=_plan_order(run))))


def load_result(store: Store, result_id: str) -> CaseResult:
    """Return one result with all samples; raise NotFoundError when it is not in the store."""
    with store.read() as connection:
        wanted = select(CaseResultTable.__table__).where(CaseResultTable.id == result_id)
        results = _full_results(connection, wanted.subquery())
    if not results:
        raise NotFoundError(f"no case result {result_id!r} in {store.name}")
    return results[0]


def load_result_summaries(store: Store, run_id: str) -> tuple[ResultSummary, ...]:
    """Return the results of a run without samples, in plan order; `run_id` as in `load_run`."""
    with store.read() as connection:
        run = _run(connection, run_id)
        last = _last_results(CaseResultTable.run_id == run.id)
        rows = connection.execute(_with_case(last)).all()
        measurements = _summaries(connection, last)
    summaries = [_summary(row, measurements) for row in rows]
    return tuple(sorted(summaries, key=_plan_order(run)))


def load_latest(store: Store, *, machine: str | None = None) -> tuple[LatestCell, ...]:
    """Return the newest result of every case on every machine (or on `machine`)."""
    rank = func.row_number().over(
        partition_by=(RunTable.machine, CaseResultTable.case_key),
        order_by=(RunTable.started_at.desc(), *_LAST_RESULT),
    )
    ranked = (
        select(CaseResultTable.__table__, *_RUN_COLUMNS, rank.label("rank"))
        .join(RunTable, RunTable.id == CaseResultTable.run_id)
        .where(*([] if machine is None else [RunTable.machine == machine]))
        .subquery()
    )
    latest = select(ranked).where(ranked.c.rank == 1).subquery()
    with store.read() as connection:
        rows = connection.execute(_with_case(latest)).all()
        measurements = _summaries(connection, latest)
    cells = [_cell(row, measurements) for row in rows]
    return tuple(sorted(cells, key=lambda cell: (cell.machine, cell.summary.case.key)))


def find_series(
    store: Store,
    *,
    model: str | None = None,
    mode: str | None = None,
    metric: str | None = None,
    machine: str | None = None,
    case_key: str | None = None,
) -> tuple[SeriesHeader, ...]:
    """Return the series that fit all given values, in the order of their keys."""
    wanted = {
        CaseTable.model: model,
        CaseTable.mode: mode,
        SeriesTable.metric: metric,
        SeriesTable.machine: machine,
        SeriesTable.case_key: case_key,
    }
    with store.read() as connection:
        return _headers(
            connection,
            *(column == value for column, value in wanted.items() if value is not None),
        )


def load_series(store: Store, key: str) -> Series | None:
    """Return a series with its points, None when it is not in the store."""
    with store.read() as connection:
        headers = _headers(connection, SeriesTable.key == key)
        return next(iter(_with_points(connection, headers)), None)


def load_trend(store: Store, *, case_key: str, metric: str, machine: str) -> tuple[Point, ...]:
    """Return every point of a metric of a case on a machine, oldest first.

    The environment may change on the way: `fingerprint` and `series_key` then differ.
    """
    points = _points(CaseResultTable.case_key == case_key).where(
        MeasurementTable.metric == metric, RunTable.machine == machine
    )
    with store.read() as connection:
        rows = connection.execute(points.order_by(*_OLDEST_POINT)).all()
    return tuple(_point(row) for row in rows)


def load_histories(store: Store, *, metrics: Sequence[str]) -> Iterator[Series]:
    """Yield every series of `metrics` with its points, in the order of their keys.

    A generator that reads some series at a time, each in its own short transaction, so that a
    writer can come in between; series that appear meanwhile are left out.
    """
    with store.read() as connection:
        headers = _headers(connection, SeriesTable.metric.in_(metrics))
    for start in range(0, len(headers), _SERIES_PER_READ):
        with store.read() as connection:
            found = _with_points(connection, headers[start : start + _SERIES_PER_READ])
        yield from found


def load_outcomes(store: Store, *, limit_runs: int | None = None) -> tuple[OutcomeHistory, ...]:
    """Return how every planned case ended, by machine and case, over the newest `limit_runs`."""
    newest = select(RunTable.__table__).order_by(*_NEWEST_RUN).limit(limit_runs)
    with store.read() as connection:
        runs = connection.execute(newest).all()
        last = _last_results(CaseResultTable.run_id.in_([run.id for run in runs]))
        results = connection.execute(
            select(last.c.id, last.c.run_id, last.c.case_key, last.c.outcome)
        )
        ended = {(row.run_id, row.case_key): row for row in results}
    cases: dict[str, Case] = {}
    points: dict[tuple[str, str], list[OutcomePoint]] = defaultdict(list)
    for run in reversed(runs):
        for case in run_record(run).plan:
            cases[case.key] = case
            result = ended.get((run.id, case.key))
            points[run.machine, case.key].append(_outcome_point(run, result))
    return tuple(
        OutcomeHistory(case=cases[key], machine=machine, points=tuple(points[machine, key]))
        for machine, key in sorted(points)
    )


def load_alerts(store: Store, *, states: Sequence[AlertState] | None = None) -> tuple[Alert, ...]:
    """Return the alerts in `states` (default: all), the last seen first."""
    with store.read() as connection:
        if states is None:
            return _alerts(connection)
        return _alerts(connection, AlertTable.state.in_([str(state) for state in states]))


def load_alert(store: Store, alert_id: str) -> Alert:
    """Return one alert; raise NotFoundError when it is not in the store."""
    with store.read() as connection:
        alerts = _alerts(connection, AlertTable.id == alert_id)
    if not alerts:
        raise NotFoundError(f"no alert {alert_id!r} in {store.name}")
    return alerts[0]


def load_samples(store: Store, result_id: str, metric: str) -> tuple[Sample, ...]:
    """Return the samples of a measurement, warm-ups first, in the order they were taken."""
    wanted = (
        select(SampleTable.__table__)
        .where(SampleTable.result_id == result_id, SampleTable.metric == metric)
        .order_by(SampleTable.is_warmup.desc(), SampleTable.position)
    )
    with store.read() as connection:
        rows = connection.execute(wanted).all()
    return tuple(
        Sample(value=row.value, launch=row.launch, is_warmup=row.is_warmup) for row in rows
    )


_NEWEST_RUN: Final = (RunTable.started_at.desc(), RunTable.id.desc())
_LAST_RESULT: Final = (CaseResultTable.finished_at.desc(), CaseResultTable.id.desc())
_OLDEST_POINT: Final = (MeasurementTable.run_started_at, MeasurementTable.run_id)
_RUN_COLUMNS: Final = (
    RunTable.started_at.label("run_started_at"),
    RunTable.revision,
    RunTable.toolchain,
    RunTable.machine,
    RunTable.fingerprint,
)


def _run(connection: Connection, run_id: str) -> Run:
    runs = select(RunTable.__table__).order_by(*_NEWEST_RUN)
    if run_id == "latest":
        row = connection.execute(runs.limit(1)).first()
        if row is None:
            raise NotFoundError("no run in this store yet. `hud run` makes one")
        return run_record(row)
    found = connection.execute(
        runs.where(RunTable.id.startswith(run_id, autoescape=True)).limit(3)
    ).all()
    exact = [row for row in found if row.id == run_id] or found
    if len(exact) == 1:
        return run_record(exact[0])
    if exact:
        ids = ", ".join(row.id for row in exact)
        raise NotFoundError(f"more than one run starts with {run_id!r}: {ids}, ... Name one whole")
    raise NotFoundError(f"no run {run_id!r} in this store. `hud runs` lists them")


def _last_results(*where: ColumnElement[bool]) -> Subquery:
    rank = func.row_number().over(
        partition_by=(CaseResultTable.run_id, CaseResultTable.case_key), order_by=_LAST_RESULT
    )
    ranked = select(CaseResultTable.__table__, rank.label("rank")).where(*where).subquery()
    return select(ranked).where(ranked.c.rank == 1).subquery()


def _with_case(results: Subquery) -> Select[Any]:
    columns = [column for column in results.c if column.name not in ("id", "rank")]
    return select(results.c.id.label("result_id"), *columns, *_CASE_COLUMNS).join(
        CaseTable, CaseTable.key == results.c.case_key
    )


_CASE_COLUMNS: Final = tuple(column for column in CaseTable.__table__.c if column.name != "key")


def _full_results(connection: Connection, results: Subquery) -> list[CaseResult]:
    rows = connection.execute(_with_case(results)).all()
    measurements = connection.execute(_measurements(results)).all()
    samples = connection.execute(
        select(SampleTable.__table__)
        .where(SampleTable.result_id.in_(select(results.c.id)))
        .order_by(SampleTable.position)
    ).all()
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


def _measurements(results: Subquery) -> Select[Any]:
    return (
        select(MeasurementTable.__table__)
        .where(MeasurementTable.result_id.in_(select(results.c.id)))
        .order_by(MeasurementTable.result_id, MeasurementTable.metric)
    )


def _summaries(
    connection: Connection, results: Subquery
) -> dict[str, dict[str, MeasurementSummary]]:
    summaries: dict[str, dict[str, MeasurementSummary]] = defaultdict(dict)
    for row in connection.execute(_measurements(results)):
        summaries[row.result_id][row.metric] = MeasurementSummary(
            metric=row.metric,
            unit=row.unit,
            num_samples=row.num_samples,
            median=row.median,
            low=row.low,
            high=row.high,
            method=row.method,
        )
    return summaries


def _summary(
    row: Row[Any], measurements: Mapping[str, Mapping[str, MeasurementSummary]]
) -> ResultSummary:
    return ResultSummary(
        id=row.result_id,
        run_id=row.run_id,
        case=case_record(row),
        outcome=Outcome(row.outcome),
        reason=row.reason,
        effective_mode=row.effective_mode,
        started_at=utc(row.started_at),
        finished_at=utc(row.finished_at),
        warnings=warnings_of(row),
        details=row.details,
        log_tail=row.log_tail,
        measurements=measurements.get(row.result_id, {}),
    )


def _cell(
    row: Row[Any], measurements: Mapping[str, Mapping[str, MeasurementSummary]]
) -> LatestCell:
    return LatestCell(
        summary=_summary(row, measurements),
        run_id=row.run_id,
        run_started_at=utc(row.run_started_at),
        revision=row.revision,
        toolchain=row.toolchain,
        machine=row.machine,
        fingerprint=row.fingerprint,
    )


def _plan_order(run: Run) -> Any:
    places = {case.key: place for place, case in enumerate(run.plan)}

    def order(result: CaseResult | ResultSummary) -> tuple[int, str]:
        return (places.get(result.case.key, len(places)), result.case.key)

    return order


def _headers(connection: Connection, *where: ColumnElement[bool]) -> tuple[SeriesHeader, ...]:
    wanted = (
        select(SeriesTable.__table__, *_CASE_COLUMNS)
        .join(CaseTable, CaseTable.key == SeriesTable.case_key)
        .where(*where)
        .order_by(SeriesTable.key)
    )
    return tuple(
        SeriesHeader(
            key=row.key,
            case=case_record(row),
            metric=row.metric,
            unit=row.unit,
            machine=row.machine,
            fingerprint=row.fingerprint,
            num_points=row.num_points,
            first_at=utc(row.first_at),
            last_at=utc(row.last_at),
            last_run_id=row.last_run_id,
            last_value=row.last_value,
        )
        for row in connection.execute(wanted)
    )


def _with_points(connection: Connection, headers: Sequence[SeriesHeader]) -> list[Series]:
    case_keys = {header.case.key for header in headers}
    keys = [header.key for header in headers]
    points = _points(CaseResultTable.case_key.in_(case_keys)).where(
        MeasurementTable.series_key.in_(keys)
    )
    rows = connection.execute(points.order_by(MeasurementTable.series_key, *_OLDEST_POINT))
    by_key = {
        key: tuple(_point(row) for row in group)
        for key, group in groupby(rows, key=lambda row: row.series_key)
    }
    return [Series(header=header, points=by_key.get(header.key, ())) for header in headers]


def _points(where: ColumnElement[bool]) -> Select[Any]:
    last = _last_results(where)
    return (
        select(MeasurementTable.__table__, *_RUN_COLUMNS[1:])
        .join(last, last.c.id == MeasurementTable.result_id)
        .join(RunTable, RunTable.id == MeasurementTable.run_id)
    )


def _point(row: Row[Any]) -> Point:
    return Point(
        series_key=row.series_key,
        run_id=row.run_id,
        result_id=row.result_id,
        revision=row.revision,
        at=utc(row.run_started_at),
        machine=row.machine,
        fingerprint=row.fingerprint,
        median=row.median,
        low=row.low,
        high=row.high,
        num_samples=row.num_samples,
    )


def _outcome_point(run: Row[Any], result: Any) -> OutcomePoint:
    return OutcomePoint(
        run_id=run.id,
        result_id=None if result is None else result.id,
        revision=run.revision,
        at=utc(run.started_at),
        suite=run.suite,
        run_state=RunState(run.state),
        fingerprint=run.fingerprint,
        outcome=None if result is None else Outcome(result.outcome),
    )


def _alerts(connection: Connection, *where: ColumnElement[bool]) -> tuple[Alert, ...]:
    wanted = (
        select(AlertTable.__table__, *_CASE_COLUMNS)
        .join(CaseTable, CaseTable.key == AlertTable.case_key)
        .where(*where)
        .order_by(AlertTable.last_seen.desc(), AlertTable.id)
    )
    return tuple(alert_record(row) for row in connection.execute(wanted))

"""Queries of series: their headers, points and whole histories.

One short transaction a read. All functions raise StoreLocked, StoreTooNew and StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from sqlalchemy import ColumnElement, Row, func, select
from sqlalchemy.engine import Connection

from compile_hud.db.records.metrics import METRICS, Direction, metric_of
from compile_hud.db.records.point_columns import PointColumns, PointRun, point_runs
from compile_hud.db.records.results import Run
from compile_hud.db.records.summaries import Series, SeriesHeader, TrendPoint
from compile_hud.db.rows.columns import numpy_columns, read_rows
from compile_hud.db.rows.mapping import case_record, series_hash
from compile_hud.db.rows.sql_expressions import CASE_COLUMNS, OLDEST_RUN, RUN_COLUMNS, does_count
from compile_hud.db.schema.tables import (
    CaseTable,
    MeasurementTable,
    RunTable,
    SeriesTable,
    SupersededTable,
)
from compile_hud.db.store import Store

# A few series are looked up one by one; for more, all rows are read once.
_FEW_SERIES: Final = 100
_POINT_COLUMNS: Final[tuple[Any, ...]] = (
    MeasurementTable.c.series_key,
    MeasurementTable.c.run_id,
    MeasurementTable.c.result_id,
    MeasurementTable.c.median,
    MeasurementTable.c.low,
    MeasurementTable.c.high,
    MeasurementTable.c.num_samples,
)
# `load_histories` reads so many points in one transaction: about 150 MB while they are sorted.
_POINTS_PER_READ: Final = 2_000_000
# Each series is a parameter of the statement, and every driver limits these.
_SERIES_PER_READ: Final = 10_000


def load_histories_of(store: Store, run: Run, *, metrics: Sequence[str]) -> tuple[Series, ...]:
    """Return the series of `metrics` that `run` has or could have a point in, whole."""
    planned = {case.key for case in run.plan}
    with store.read() as connection:
        headers = read_series_headers(
            connection,
            SeriesTable.c.metric.in_(metrics),
            SeriesTable.c.fingerprint == run.fingerprint,
        )
        ours = [header for header in headers if header.case.key in planned]
        return tuple(read_series(connection, ours))


def load_recent_histories(
    store: Store, run: Run, *, metrics: Collection[str], num_runs: int
) -> tuple[Series, ...]:
    """Return the series of `metrics` of the cases of `run`, with the points of the runs near it.

    These are `num_runs` of its machine, toolchain and environment: itself and those before it, and
    where they are too few those after it. The newest ones where `run` is not stored.
    """
    with store.read() as connection:
        ids = connection.execute(
            select(RunTable.c.id)
            .where(
                RunTable.c.machine == run.machine,
                RunTable.c.toolchain == run.toolchain,
                RunTable.c.fingerprint == run.fingerprint,
            )
            .order_by(*OLDEST_RUN)
        ).scalars()
        known = list(ids)
        end = known.index(run.id) + 1 if run.id in known else len(known)
        near = known[: max(end, num_runs)][-num_runs:]
        if not near:
            return ()
        planned = {case.key for case in run.plan}
        headers = read_series_headers(
            connection,
            SeriesTable.c.metric.in_(metrics),
            SeriesTable.c.fingerprint == run.fingerprint,
        )
        ours = [header for header in headers if header.case.key in planned]
        return tuple(read_series(connection, ours, run_ids=near))


def find_series(
    store: Store,
    *,
    model: str | None = None,
    mode: str | None = None,
    metric: str | None = None,
    machine: str | None = None,
    case_key: str | None = None,
) -> tuple[SeriesHeader, ...]:
    """Return the series that match all given values, in the order of their keys."""
    filters = {
        CaseTable.c.model: model,
        CaseTable.c.mode: mode,
        SeriesTable.c.metric: metric,
        SeriesTable.c.machine: machine,
        SeriesTable.c.case_key: case_key,
    }
    with store.read() as connection:
        return read_series_headers(
            connection,
            *(column == value for column, value in filters.items() if value is not None),
        )


def load_trend(
    store: Store, *, case_key: str, metric: str, machine: str, toolchain: str | None = None
) -> tuple[TrendPoint, ...]:
    """Return every point of a metric of a case on a machine, oldest first.

    Without `toolchain` the points are of all toolchains, in the order of their runs. If the
    environment changes, `fingerprint` and `series_key` change with it.
    """
    with store.read() as connection:
        runs = read_run_fields(connection, machine=machine, toolchain=toolchain)
        fingerprints = {facts["fingerprint"] for facts in runs.values()}
        rows = read_point_rows(connection, case_key, metric=metric, fingerprints=fingerprints)
    points = (trend_point(row, runs) for row in rows if row.run_id in runs)
    return tuple(sorted(points, key=lambda point: (point.at, point.run_id)))


def load_histories(
    store: Store,
    *,
    metrics: Sequence[str],
    family: str | None = None,
    case_keys: Collection[str] | None = None,
) -> Iterator[Series]:
    """Yield every series of `metrics` with its points, in the order of their keys.

    `family` and `case_keys` select cases.

    The generator reads some series at a time, each in its own short transaction, so that a writer
    can come in between. Series that appear meanwhile are left out.
    """
    with store.read() as connection:
        of_family = [] if family is None else [CaseTable.c.family == family]
        headers = read_series_headers(connection, SeriesTable.c.metric.in_(metrics), *of_family)
    if case_keys is not None:
        headers = tuple(header for header in headers if header.case.key in case_keys)
    for batch in _batches_of_headers(headers):
        with store.read() as connection:
            batch_series = read_series(connection, batch)
        yield from batch_series


def _batches_of_headers(headers: Sequence[SeriesHeader]) -> Iterator[list[SeriesHeader]]:
    batch: list[SeriesHeader] = []
    num_points = 0
    for header in headers:
        if batch and (
            num_points + header.num_points > _POINTS_PER_READ or len(batch) == _SERIES_PER_READ
        ):
            yield batch
            batch, num_points = [], 0
        batch.append(header)
        num_points += header.num_points
    if batch:
        yield batch


def load_imported_metrics(store: Store) -> list[str]:
    """Return the names of all imported metrics that can be judged."""
    query = select(SeriesTable.c.metric, SeriesTable.c.unit, SeriesTable.c.direction).distinct()
    with store.read() as connection:
        rows = connection.execute(query).all()
    names = {
        row.metric
        for row in rows
        if metric_of(
            row.metric,
            unit=row.unit,
            stated=None if row.direction is None else Direction(row.direction),
        )
    }
    return sorted(names - METRICS.keys())


def count_judged_series(store: Store) -> dict[str, int]:
    """Return the number of series in which each run has a point that a verdict with noise uses."""
    noisy = [name for name, row in METRICS.items() if row.is_judged and not row.is_exact]
    noisy += load_imported_metrics(store)
    counts = (
        select(MeasurementTable.c.run_id, func.count().label("num"))
        .where(MeasurementTable.c.metric.in_(noisy))
        .group_by(MeasurementTable.c.run_id)
    )
    with store.read() as connection:
        return {row.run_id: row.num for row in connection.execute(counts)}


def read_series_headers(
    connection: Connection, *where: ColumnElement[bool]
) -> tuple[SeriesHeader, ...]:
    """Return the series that match `where`, in the order of their keys."""
    query = (
        select(SeriesTable, *CASE_COLUMNS)
        .join(CaseTable, CaseTable.c.key == SeriesTable.c.case_key)
        .where(*where)
        .order_by(SeriesTable.c.key)
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
            first_at=row.first_at,
            last_at=row.last_at,
            last_run_id=row.last_run_id,
            last_value=row.last_value,
            direction=None if row.direction is None else Direction(row.direction),
        )
        for row in read_rows(connection, query)
    )


def read_series(
    connection: Connection, headers: Sequence[SeriesHeader], *, run_ids: Collection[str] = ()
) -> list[Series]:
    """Return the series of `headers` with their points, oldest first; of `run_ids` where given."""
    if not headers:
        return []
    rows = read_rows(connection, select(RunTable.c.id, *RUN_COLUMNS).order_by(*OLDEST_RUN))
    runs = point_runs([PointRun(run_id=row.id, **_run_fields(row)) for row in rows])
    columns = _columns(connection, [header.key for header in headers], run_ids=run_ids)
    return [
        Series(header=header, points=PointColumns(header.key, runs, columns=columns[header.key]))
        for header in headers
    ]


def _columns(
    connection: Connection, keys: Sequence[str], *, run_ids: Collection[str] = ()
) -> dict[str, list[np.ndarray]]:
    """Return run numbers, medians, lower and upper bounds of each series, oldest point first."""
    series = select(
        SeriesTable.c.key, (func.row_number().over(order_by=SeriesTable.c.key) - 1).label("number")
    ).where(SeriesTable.c.key.in_(keys))
    ordered = connection.execute(series.order_by(SeriesTable.c.key)).scalars().all()
    numbers = series.subquery()
    run = select(
        RunTable.c.id, (func.row_number().over(order_by=OLDEST_RUN) - 1).label("number")
    ).subquery()
    query = (
        select(
            numbers.c.number,
            run.c.number.label("run_number"),
            MeasurementTable.c.median,
            MeasurementTable.c.low,
            MeasurementTable.c.high,
        )
        .join(numbers, numbers.c.key == MeasurementTable.c.series_key)
        .join(run, run.c.id == MeasurementTable.c.run_id)
    )
    query = query.where(does_count(MeasurementTable.c.result_id))
    if run_ids:
        query = query.where(MeasurementTable.c.run_id.in_(run_ids))
    if len(keys) <= _FEW_SERIES:
        # As in `read_point_rows`: DuckDB finds one number, and reads everything for a list of them.
        each = [query.where(MeasurementTable.c.series_hash == series_hash(key)) for key in keys]
        parts = [numpy_columns(connection, one) for one in each]
        number, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    else:
        number, *columns = numpy_columns(connection, query)
    order = _order(columns[0])
    order = order[_order(number[order])]
    bounds = np.searchsorted(number[order], np.arange(len(ordered) + 1))
    columns = [columns[0].astype(np.int32)[order], *(column[order] for column in columns[1:])]
    return {
        key: [column[start:end] for column in columns]
        for key, start, end in zip(ordered, bounds, bounds[1:], strict=False)
    }


def _order(numbers: np.ndarray) -> np.ndarray:
    """Return the indices that sort `numbers`, none below 0; equal ones stay in their order."""
    # Numbers of 16 bits are sorted by radix, ten times as fast as longer ones.
    small = np.min_scalar_type(int(numbers.max(initial=0)))
    return np.argsort(numbers.astype(small), kind="stable")


def read_point_rows(
    connection: Connection, case_key: str, *, metric: str, fingerprints: Collection[str]
) -> list[Any]:
    """Return the rows of the points of a metric of a case that count, in any order.

    They are of runs with one of `fingerprints`.
    """
    series = select(SeriesTable.c.key).where(
        SeriesTable.c.case_key == case_key,
        SeriesTable.c.metric == metric,
        SeriesTable.c.fingerprint.in_(fingerprints),
    )
    keys = set(connection.execute(series).scalars())
    rows: list[Any] = []
    for number in {series_hash(key) for key in keys}:
        # The number is the only condition: DuckDB skips blocks of rows for one number. For a list
        # of numbers, for text or for a join it reads all.
        points = select(*_POINT_COLUMNS).where(MeasurementTable.c.series_hash == number)
        rows += read_rows(connection, points)
    superseded = set(connection.execute(select(SupersededTable.c.result_id)).scalars())
    return [row for row in rows if row.series_key in keys and row.result_id not in superseded]


def read_run_fields(
    connection: Connection, *, machine: str, toolchain: str | None
) -> dict[str, dict[str, Any]]:
    """Return the fields of a point that describe its run, by run, on `machine` in `toolchain`."""
    # Times are read once and not with every point: a driver spends more on a time than on the rest
    # of a row.
    query = select(RunTable.c.id, *RUN_COLUMNS).where(RunTable.c.machine == machine)
    if toolchain is not None:
        query = query.where(RunTable.c.toolchain == toolchain)
    return {row.id: _run_fields(row) for row in read_rows(connection, query)}


def _run_fields(row: Any) -> dict[str, Any]:
    return {
        "revision": row.revision,
        "at": row.run_started_at,
        "machine": row.machine,
        "toolchain": row.toolchain,
        "fingerprint": row.fingerprint,
    }


def trend_point(row: Row[Any], runs: Mapping[str, Mapping[str, Any]]) -> TrendPoint:
    """Return the point of a row of `read_point_rows`."""
    return TrendPoint(
        series_key=row.series_key,
        run_id=row.run_id,
        result_id=row.result_id,
        median=row.median,
        low=row.low,
        high=row.high,
        num_samples=row.num_samples,
        **runs[row.run_id],
    )

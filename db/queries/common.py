"""What queries share: rows read in the caller's transaction, and the records made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
from sqlalchemy import ColumnElement, Row, Select, Subquery, and_, case, false, func, select
from sqlalchemy.engine import Connection
from sqlalchemy.orm import InstrumentedAttribute

from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.point_columns import PointColumns, PointRun, point_runs
from compile_hud.db.records.results import DEFERRED, CaseResult, Measurement, Outcome, Run
from compile_hud.db.records.summaries import (
    LatestCell,
    MeasurementSummary,
    Outline,
    ResultSummary,
    Series,
    SeriesHeader,
    TrendPoint,
)
from compile_hud.db.records.triage import AlertChange, SeriesSettings, with_settings
from compile_hud.db.rows.columns import numpy_columns, read_rows
from compile_hud.db.rows.mapping import (
    alert_record,
    case_record,
    change_record,
    measurement_record,
    result_record,
    series_hash,
    settings_record,
    warnings_of,
)
from compile_hud.db.rows.plans import read_runs
from compile_hud.db.schema.tables import (
    AlertChangeTable,
    AlertTable,
    CaseResultTable,
    CaseTable,
    LatestMeasurementTable,
    LatestResultTable,
    MeasurementTable,
    RunTable,
    SampleTable,
    SeriesSettingsTable,
    SeriesTable,
    SupersededTable,
)

# So few rows are looked for one by one.
FEW: Final = 8
# So few are looked for one by one; for more, all rows are read once.
_FEW_SERIES: Final = 100
_PLACE: Final = ("machine", "toolchain", "case_key")
OLDEST_RUN: Final = (RunTable.started_at, RunTable.id)
NEWEST_RUN: Final = (RunTable.started_at.desc(), RunTable.id.desc())
LAST_RESULT: Final = (CaseResultTable.finished_at.desc(), CaseResultTable.id.desc())
_POINT_COLUMNS: Final[tuple[Any, ...]] = (
    MeasurementTable.series_key,
    MeasurementTable.run_id,
    MeasurementTable.result_id,
    MeasurementTable.median,
    MeasurementTable.low,
    MeasurementTable.high,
    MeasurementTable.num_samples,
)
_SUMMARY_COLUMNS: Final[tuple[Any, ...]] = (
    MeasurementTable.result_id,
    MeasurementTable.metric,
    MeasurementTable.unit,
    MeasurementTable.num_samples,
    MeasurementTable.median,
    MeasurementTable.low,
    MeasurementTable.high,
    MeasurementTable.method,
)
_CASE_COLUMNS: Final = tuple(column for column in CaseTable.__table__.c if column.name != "key")
RUN_COLUMNS: Final = (
    RunTable.started_at.label("run_started_at"),
    RunTable.revision,
    RunTable.toolchain,
    RunTable.machine,
    RunTable.fingerprint,
)


def one_run(connection: Connection, run_id: str, *, store: str) -> Run:
    """Return the run with this id or unique start of an id, or the newest for `latest`."""
    runs = select(RunTable.__table__)
    if run_id == "latest":
        newest = read_runs(connection, runs.order_by(*NEWEST_RUN).limit(1))
        if not newest:
            raise NotFoundError(f"no run in the store {store} yet. `hud run` makes one")
        return newest[0]
    is_other = case((RunTable.id == run_id, 0), else_=1)
    fits = select(RunTable.id).where(RunTable.id.startswith(run_id, autoescape=True))
    ids = connection.execute(fits.order_by(is_other, *NEWEST_RUN).limit(3)).scalars().all()
    if len(ids) == 1 or (ids and ids[0] == run_id):
        return read_runs(connection, runs.where(RunTable.id == ids[0]))[0]
    if ids:
        names = ", ".join(ids)
        raise NotFoundError(
            f"more than one run starts with {run_id!r}: {names}, ... Name one whole"
        )
    raise NotFoundError(f"no run {run_id!r} in the store {store}. `hud runs` lists them")


def is_deferred(results: Subquery | type[CaseResultTable]) -> ColumnElement[bool]:
    """Return the condition that the run of a result had no time left for its case."""
    columns = results.c if isinstance(results, Subquery) else results
    return and_(columns.outcome == str(Outcome.SKIPPED), columns.reason.startswith(DEFERRED))


def last_results(*where: ColumnElement[bool]) -> Subquery:
    """Return the results that count: the last of each case in each run."""
    counts = does_count(CaseResultTable.id)
    return select(CaseResultTable.__table__).where(*where, counts).subquery()


def is_of_runs(runs: Sequence[tuple[str, datetime]]) -> ColumnElement[bool]:
    """Return the condition that a result is of one of `runs`, given by id and start."""
    if not runs:
        return false()
    # No result ends before its run begins: whatever is older need not be looked at.
    return and_(
        CaseResultTable.run_id.in_([run_id for run_id, _ in runs]),
        CaseResultTable.finished_at >= min(start for _, start in runs),
    )


def each_of(column: InstrumentedAttribute[str], values: Sequence[str]) -> list[ColumnElement[bool]]:
    """Return the conditions that `column` is one of `values`: one for each while they are few."""
    # DuckDB skips the blocks that one value cannot be in; for a list it reads all.
    return [column == value for value in values] if len(values) <= FEW else [column.in_(values)]


def does_count(result_id: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Return the condition that the case was not measured again in the run of a result."""
    return result_id.not_in(select(SupersededTable.result_id))


def with_case(results: Subquery) -> Select[Any]:
    """Return the query of `results` with the parts of their cases."""
    columns = [column for column in results.c if column.name != "id"]
    return select(results.c.id.label("result_id"), *columns, *_CASE_COLUMNS).join(
        CaseTable, CaseTable.key == results.c.case_key
    )


def full_results(connection: Connection, results: Subquery) -> list[CaseResult]:
    """Return `results` with all samples, in any order."""
    rows = connection.execute(with_case(results)).all()
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


def summaries(
    connection: Connection, results: Subquery
) -> dict[str, dict[str, MeasurementSummary]]:
    """Return the measurements of `results` without samples, by result and metric."""
    found: dict[str, dict[str, MeasurementSummary]] = defaultdict(dict)
    wanted = select(*_SUMMARY_COLUMNS).where(MeasurementTable.result_id.in_(select(results.c.id)))
    for row in read_rows(connection, wanted.order_by(*_SUMMARY_COLUMNS[:2])):
        found[row.result_id][row.metric] = _measurement_summary(row)
    return found


def _measurement_summary(row: Row[Any]) -> MeasurementSummary:
    return MeasurementSummary(
        metric=row.metric,
        unit=row.unit,
        num_samples=row.num_samples,
        median=row.median,
        low=row.low,
        high=row.high,
        method=row.method,
    )


def result_summary(
    row: Row[Any], measurements: Mapping[str, Mapping[str, MeasurementSummary]]
) -> ResultSummary:
    """Return the summary of a row of `with_case`, read by `read_rows`."""
    return ResultSummary(
        **_outline_facts(row),
        measurements=measurements.get(row.result_id, {}),
        details=row.details,
        log_tail=row.log_tail,
    )


def _outline_facts(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.result_id,
        "run_id": row.run_id,
        "case": case_record(row),
        "outcome": Outcome(row.outcome),
        "reason": row.reason,
        "effective_mode": row.effective_mode,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "warnings": warnings_of(row),
    }


def latest_cells(
    connection: Connection, wanted: Mapping[str, str], *, metrics: Collection[str] | None
) -> tuple[LatestCell, ...]:
    """Return the newest results in the order of machine, toolchain and case.

    `wanted` are values that their columns must have; `metrics` leaves out other measurements.
    """
    results, measured = LatestResultTable.__table__.c, LatestMeasurementTable.__table__.c
    cells = (
        select(*results, *_CASE_COLUMNS)
        .join(CaseTable, CaseTable.key == results.case_key)
        .where(*(results[name] == value for name, value in wanted.items()))
        .order_by(*(results[name] for name in _PLACE))
    )
    numbers = select(*measured).where(*(measured[name] == value for name, value in wanted.items()))
    if metrics is not None:
        numbers = numbers.where(measured.metric.in_(metrics))
    found: dict[tuple[str, ...], dict[str, MeasurementSummary]] = defaultdict(dict)
    for row in read_rows(connection, numbers):
        found[row.machine, row.toolchain, row.case_key][row.metric] = _measurement_summary(row)
    return tuple(
        LatestCell(
            summary=Outline(
                **_outline_facts(row),
                measurements=found.get((row.machine, row.toolchain, row.case_key), {}),
            ),
            run_id=row.run_id,
            run_started_at=row.run_started_at,
            revision=row.revision,
            toolchain=row.toolchain,
            machine=row.machine,
            fingerprint=row.fingerprint,
        )
        for row in read_rows(connection, cells)
    )


def plan_order(run: Run) -> Any:
    """Return the sort key that puts results into the order of the plan, the unplanned last."""
    places = {case.key: place for place, case in enumerate(run.plan)}

    def order(result: CaseResult | ResultSummary) -> tuple[int, str]:
        return (places.get(result.case.key, len(places)), result.case.key)

    return order


def headers(connection: Connection, *where: ColumnElement[bool]) -> tuple[SeriesHeader, ...]:
    """Return the series that fit `where`, in the order of their keys."""
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
            first_at=row.first_at,
            last_at=row.last_at,
            last_run_id=row.last_run_id,
            last_value=row.last_value,
            direction=None if row.direction is None else Direction(row.direction),
        )
        for row in read_rows(connection, wanted)
    )


def with_points(connection: Connection, headers: Sequence[SeriesHeader]) -> list[Series]:
    """Return the series of `headers` with their points, oldest first."""
    if not headers:
        return []
    rows = read_rows(connection, select(RunTable.id, *RUN_COLUMNS).order_by(*OLDEST_RUN))
    runs = point_runs([PointRun(run_id=row.id, **_run_facts(row)) for row in rows])
    found = _columns(connection, [header.key for header in headers])
    return [
        Series(header=header, points=PointColumns(header.key, runs, columns=found[header.key]))
        for header in headers
    ]


def _columns(connection: Connection, keys: Sequence[str]) -> dict[str, list[np.ndarray]]:
    """Return run numbers, medians, lows and highs of each series, oldest point first."""
    series = select(
        SeriesTable.key, (func.row_number().over(order_by=SeriesTable.key) - 1).label("number")
    ).where(SeriesTable.key.in_(keys))
    ordered = connection.execute(series.order_by(SeriesTable.key)).scalars().all()
    numbers = series.subquery()
    run = select(
        RunTable.id, (func.row_number().over(order_by=OLDEST_RUN) - 1).label("number")
    ).subquery()
    wanted = (
        select(
            numbers.c.number,
            run.c.number.label("run_number"),
            MeasurementTable.median,
            MeasurementTable.low,
            MeasurementTable.high,
        )
        .join(numbers, numbers.c.key == MeasurementTable.series_key)
        .join(run, run.c.id == MeasurementTable.run_id)
    )
    wanted = wanted.where(does_count(MeasurementTable.result_id))
    if len(keys) <= _FEW_SERIES:
        # As in `points`: DuckDB finds one number, and reads everything for a list of them.
        each = [wanted.where(MeasurementTable.series_hash == series_hash(key)) for key in keys]
        parts = [numpy_columns(connection, one) for one in each]
        number, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    else:
        number, *columns = numpy_columns(connection, wanted)
    order = _order(columns[0])
    order = order[_order(number[order])]
    bounds = np.searchsorted(number[order], np.arange(len(ordered) + 1))
    columns = [columns[0].astype(np.int32)[order], *(column[order] for column in columns[1:])]
    return {
        key: [column[start:end] for column in columns]
        for key, start, end in zip(ordered, bounds, bounds[1:], strict=False)
    }


def _order(numbers: np.ndarray) -> np.ndarray:
    """Return the places of `numbers`, none below 0, in their order; equal ones as they stand."""
    # Numbers of 16 bits are sorted by radix, ten times as fast as longer ones.
    small = np.min_scalar_type(int(numbers.max(initial=0)))
    return np.argsort(numbers.astype(small), kind="stable")


def points(
    connection: Connection, case_key: str, *, metric: str, fingerprints: Collection[str]
) -> list[Any]:
    """Return the rows of the points of a metric of a case that count, in any order.

    They are of runs with one of `fingerprints`.
    """
    series = select(SeriesTable.key).where(
        SeriesTable.case_key == case_key,
        SeriesTable.metric == metric,
        SeriesTable.fingerprint.in_(fingerprints),
    )
    keys = set(connection.execute(series).scalars())
    found: list[Any] = []
    for number in {series_hash(key) for key in keys}:
        # By this alone: DuckDB skips the blocks of rows that cannot have one number, but for a list
        # of numbers, for text or for a join it reads all.
        points = select(*_POINT_COLUMNS).where(MeasurementTable.series_hash == number)
        found += read_rows(connection, points)
    superseded = set(connection.execute(select(SupersededTable.result_id)).scalars())
    return [row for row in found if row.series_key in keys and row.result_id not in superseded]


def run_facts(
    connection: Connection, *, machine: str, toolchain: str | None
) -> dict[str, dict[str, Any]]:
    """Return what a point says about its run, by run, of those on `machine` in `toolchain`."""
    # Read once and not with every point: a driver spends more on a time than on the rest of a row.
    wanted = select(RunTable.id, *RUN_COLUMNS).where(RunTable.machine == machine)
    if toolchain is not None:
        wanted = wanted.where(RunTable.toolchain == toolchain)
    return {row.id: _run_facts(row) for row in read_rows(connection, wanted)}


def _run_facts(row: Any) -> dict[str, Any]:
    return {
        "revision": row.revision,
        "at": row.run_started_at,
        "machine": row.machine,
        "toolchain": row.toolchain,
        "fingerprint": row.fingerprint,
    }


def point(row: Row[Any], runs: Mapping[str, Mapping[str, Any]]) -> TrendPoint:
    """Return the point of a row of `points`."""
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


def outcome_facts(run: Run) -> dict[str, Any]:
    """Return what an outcome point says about its run."""
    return {
        "run_id": run.id,
        "revision": run.revision,
        "at": run.started_at,
        "suite": run.suite,
        "run_state": run.state,
        "fingerprint": run.fingerprint,
    }


def alerts(connection: Connection, *where: ColumnElement[bool]) -> tuple[Alert, ...]:
    """Return the alerts that fit `where`, the last seen first.

    Where an alert has no owner or mute of its own, it has that of its series.
    """
    settings = series_settings(connection)
    wanted = (
        select(AlertTable.__table__, *_CASE_COLUMNS)
        .join(CaseTable, CaseTable.key == AlertTable.case_key)
        .where(*where)
        .order_by(AlertTable.last_seen.desc(), AlertTable.id)
    )
    return tuple(with_settings(alert_record(row), settings) for row in connection.execute(wanted))


def one_alert(connection: Connection, alert_id: str) -> Alert:
    """Return the alert with this id or unique start of an id."""
    fits = AlertTable.id.startswith(alert_id, autoescape=True)
    found = alerts(connection, fits)
    exact = [alert for alert in found if alert.id == alert_id]
    if not found or not alert_id:
        raise NotFoundError(f"no alert {alert_id!r} in this store. `hud alerts list` shows them")
    if len(found) > 1 and not exact:
        ids = ", ".join(sorted(alert.id for alert in found)[:3])
        raise NotFoundError(
            f"{len(found)} alerts start with {alert_id!r}: {ids}, ... Give more of the id"
        )
    return (exact or found)[0]


def series_settings(
    connection: Connection, *where: ColumnElement[bool]
) -> tuple[SeriesSettings, ...]:
    """Return the settings that fit `where`, in the order of their patterns."""
    wanted = select(SeriesSettingsTable.__table__).where(*where)
    rows = connection.execute(wanted.order_by(SeriesSettingsTable.pattern))
    return tuple(settings_record(row) for row in rows)


def changes(connection: Connection, *where: ColumnElement[bool]) -> tuple[AlertChange, ...]:
    """Return the changes that fit `where`, oldest first."""
    wanted = select(AlertChangeTable.__table__).where(*where)
    rows = connection.execute(wanted.order_by(AlertChangeTable.at, AlertChangeTable.number))
    return tuple(change_record(row) for row in rows)

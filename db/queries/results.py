"""What is read from the store: one short transaction a call, frozen records out.

Where a case was measured more than once in a run (the run was resumed), the result that finished
last counts everywhere. All functions raise StoreLocked, StoreTooNew and StoreUnavailable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from sqlalchemy import extract, func, select

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries import common as fetch
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.metrics import METRICS, Direction, metric_of
from compile_hud.db.records.results import Case, CaseResult, Outcome, Run, RunDocument
from compile_hud.db.records.summaries import (
    LatestCell,
    OutcomeHistory,
    OutcomePoint,
    ResultSummary,
    RunSummary,
    Sample,
    Series,
    SeriesHeader,
    TrendPoint,
)
from compile_hud.db.records.triage import AlertChange, SeriesSettings
from compile_hud.db.rows.columns import read_rows
from compile_hud.db.rows.kernels import with_kernels
from compile_hud.db.rows.mapping import run_record, utc_or_none
from compile_hud.db.rows.plans import read_plans, read_runs
from compile_hud.db.schema.tables import (
    AlertChangeTable,
    AlertTable,
    CaseResultTable,
    CaseTable,
    MeasurementTable,
    RunTable,
    SampleTable,
    SeriesTable,
)
from compile_hud.db.store import Store

# Points read in one transaction by `load_histories`: about 150 MB while they are put in order.
_POINTS_PER_READ: Final = 2_000_000
# Each series is a parameter of the statement, and every driver takes so many.
_SERIES_PER_READ: Final = 10_000


def load_runs(store: Store, *, limit: int = 50) -> list[RunSummary]:
    """Return the newest `limit` runs, newest first."""
    newest = select(RunTable.__table__).order_by(*fetch.NEWEST_RUN).limit(limit)
    with store.read() as connection:
        rows = connection.execute(newest).all()
        plans = read_plans(connection, {row.plan_hash for row in rows})
        last = fetch.last_results(fetch.is_of_runs([(row.id, row.started_at) for row in rows]))
        took_s = extract("epoch", last.c.finished_at) - extract("epoch", last.c.started_at)
        counts = connection.execute(
            select(
                last.c.run_id,
                last.c.outcome,
                func.count().label("num"),
                func.sum(took_s).label("worked_s"),
            ).group_by(last.c.run_id, last.c.outcome)
        ).all()
    by_run: dict[str, dict[Outcome, int]] = defaultdict(dict)
    worked_s: dict[str, float] = defaultdict(float)
    for count in counts:
        by_run[count.run_id][Outcome(count.outcome)] = count.num
        worked_s[count.run_id] += float(count.worked_s)
    return [
        RunSummary(
            run=run_record(row, plan=plans[row.plan_hash]),
            num_by_outcome=by_run.get(row.id, {}),
            worked_s=worked_s[row.id],
            heartbeat_at=utc_or_none(row.heartbeat_at),
        )
        for row in rows
    ]


def load_suite_runs(store: Store, suite: str) -> tuple[Run, ...]:
    """Return all runs of the suite called `suite`, newest first."""
    wanted = select(RunTable.__table__).where(RunTable.suite == suite)
    with store.read() as connection:
        return tuple(read_runs(connection, wanted.order_by(*fetch.NEWEST_RUN)))


def load_run(store: Store, run_id: str) -> Run:
    """Return the run with this id or unique start of an id, or the newest for `latest`.

    Raises NotFoundError when there is none, or more than one.
    """
    with store.read() as connection:
        return fetch.one_run(connection, run_id, store=store.name)


def load_document(store: Store, run_id: str, *, has_kernels: bool = False) -> RunDocument:
    """Return a run with its results and all samples, in plan order; `run_id` as in `load_run`.

    The kernels and their code, most of what is stored, are left out unless `has_kernels`.
    """
    with store.read() as connection:
        run = fetch.one_run(connection, run_id, store=store.name)
        last = fetch.last_results(CaseResultTable.run_id == run.id)
        results = fetch.full_results(connection, last)
        if has_kernels:
            results = with_kernels(connection, results, stored=last)
    return RunDocument(run=run, results=tuple(sorted(results, key=fetch.plan_order(run))))


def load_result(store: Store, result_id: str) -> CaseResult:
    """Return one whole result; raise NotFoundError when it is not in the store."""
    with store.read() as connection:
        wanted = select(CaseResultTable.__table__).where(CaseResultTable.id == result_id).subquery()
        results = fetch.full_results(connection, wanted)
        results = with_kernels(connection, results, stored=wanted)
    if not results:
        raise NotFoundError(f"no case result {result_id!r} in {store.name}")
    return results[0]


def load_result_summaries(store: Store, run_id: str) -> tuple[ResultSummary, ...]:
    """Return the results of a run without samples, in plan order; `run_id` as in `load_run`."""
    with store.read() as connection:
        run = fetch.one_run(connection, run_id, store=store.name)
        last = fetch.last_results(CaseResultTable.run_id == run.id)
        rows = read_rows(connection, fetch.with_case(last))
        measurements = fetch.summaries(connection, last)
    summaries = [fetch.result_summary(row, measurements) for row in rows]
    return tuple(sorted(summaries, key=fetch.plan_order(run)))


def load_latest(
    store: Store,
    *,
    machine: str | None = None,
    toolchain: str | None = None,
    metrics: Collection[str] | None = None,
) -> tuple[LatestCell, ...]:
    """Return the newest result of every case on every machine in every toolchain.

    A case that was only put off is not there, and one that was put off lately as it was before.

    `machine` and `toolchain` leave out those on others, `metrics` the other measurements.
    """
    given = {"machine": machine, "toolchain": toolchain}
    wanted = {name: value for name, value in given.items() if value is not None}
    with store.read() as connection:
        return fetch.latest_cells(connection, wanted, metrics=metrics)


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
        return fetch.headers(
            connection,
            *(column == value for column, value in wanted.items() if value is not None),
        )


def load_trend(
    store: Store, *, case_key: str, metric: str, machine: str, toolchain: str | None = None
) -> tuple[TrendPoint, ...]:
    """Return every point of a metric of a case on a machine, oldest first.

    Without `toolchain` the points of all toolchains are there, in the order of their runs. The
    environment may change on the way: `fingerprint` and `series_key` then differ.
    """
    with store.read() as connection:
        runs = fetch.run_facts(connection, machine=machine, toolchain=toolchain)
        fingerprints = {facts["fingerprint"] for facts in runs.values()}
        rows = fetch.points(connection, case_key, metric=metric, fingerprints=fingerprints)
    points = (fetch.point(row, runs) for row in rows if row.run_id in runs)
    return tuple(sorted(points, key=lambda point: (point.at, point.run_id)))


def load_histories(
    store: Store,
    *,
    metrics: Sequence[str],
    family: str | None = None,
    case_keys: Collection[str] | None = None,
) -> Iterator[Series]:
    """Yield every series of `metrics` with its points, in the order of their keys.

    `family` leaves out the models of others, `case_keys` the other cases.

    A generator that reads some series at a time, each in its own short transaction, so that a
    writer can come in between; series that appear meanwhile are left out.
    """
    with store.read() as connection:
        of_family = [] if family is None else [CaseTable.family == family]
        headers = fetch.headers(connection, SeriesTable.metric.in_(metrics), *of_family)
    if case_keys is not None:
        headers = tuple(header for header in headers if header.case.key in case_keys)
    for batch in _batches(headers):
        with store.read() as connection:
            found = fetch.with_points(connection, batch)
        yield from found


def _batches(headers: Sequence[SeriesHeader]) -> Iterator[list[SeriesHeader]]:
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


def load_foreign_metrics(store: Store) -> list[str]:
    """Return the names of all metrics that others named and that can be judged."""
    wanted = select(SeriesTable.metric, SeriesTable.unit, SeriesTable.direction).distinct()
    with store.read() as connection:
        found = connection.execute(wanted).all()
    names = {
        row.metric
        for row in found
        if metric_of(
            row.metric,
            unit=row.unit,
            stated=None if row.direction is None else Direction(row.direction),
        )
    }
    return sorted(names - METRICS.keys())


def count_judged_series(store: Store) -> dict[str, int]:
    """Return how many series each run has a point in that a verdict with noise rests on."""
    noisy = [name for name, row in METRICS.items() if row.is_judged and not row.is_exact]
    noisy += load_foreign_metrics(store)
    counts = (
        select(MeasurementTable.run_id, func.count().label("num"))
        .where(MeasurementTable.metric.in_(noisy))
        .group_by(MeasurementTable.run_id)
    )
    with store.read() as connection:
        return {row.run_id: row.num for row in connection.execute(counts)}


def load_outcomes(
    store: Store, *, limit_runs: int | None = None, case_key: str | None = None
) -> tuple[OutcomeHistory, ...]:
    """Return how every planned case, or the one named, ended over the newest `limit_runs`.

    Histories are apart by machine, toolchain and case.
    """
    newest = select(RunTable.__table__).order_by(*fetch.NEWEST_RUN).limit(limit_runs)
    with store.read() as connection:
        runs = read_runs(connection, newest)
        is_wanted = [fetch.is_of_runs([(run.id, run.started_at) for run in runs])]
        if case_key is not None:
            is_wanted.append(CaseResultTable.case_key == case_key)
        last = fetch.last_results(*is_wanted)
        ended = {
            (row.run_id, row.case_key): (row.id, Outcome(row.outcome), row.is_deferred)
            for row in connection.execute(
                select(
                    last.c.id,
                    last.c.run_id,
                    last.c.case_key,
                    last.c.outcome,
                    fetch.is_deferred(last).label("is_deferred"),
                )
            )
        }
    cases: dict[str, Case] = {}
    points: dict[tuple[str, str, str], list[OutcomePoint]] = defaultdict(list)
    # Hundreds of runs share a plan of a thousand cases.
    plans = {id(run.plan): run.plan for run in runs}
    planned = {
        number: {case.key: case for case in plan if case_key in (None, case.key)}
        for number, plan in plans.items()
    }
    for run in reversed(runs):
        facts = fetch.outcome_facts(run)
        for key, case in planned[id(run.plan)].items():
            cases[key] = case
            result_id, outcome, deferred = ended.get((run.id, key), (None, None, False))
            points[run.machine, run.toolchain, key].append(
                OutcomePoint(**facts, result_id=result_id, outcome=outcome, is_deferred=deferred)
            )
    return tuple(
        OutcomeHistory(
            case=cases[key],
            machine=machine,
            toolchain=toolchain,
            points=tuple(points[machine, toolchain, key]),
        )
        for machine, toolchain, key in sorted(points)
    )


def load_alerts(store: Store, *, states: Sequence[AlertState] | None = None) -> tuple[Alert, ...]:
    """Return the alerts in `states` (default: all), the last seen first."""
    with store.read() as connection:
        if states is None:
            return fetch.alerts(connection)
        return fetch.alerts(connection, AlertTable.state.in_([str(state) for state in states]))


def load_alert(store: Store, alert_id: str) -> Alert:
    """Return the alert with this id or unique start of an id.

    Raises NotFoundError when there is none, or more than one.
    """
    with store.read() as connection:
        return fetch.one_alert(connection, alert_id)


def load_changes(store: Store, *, alert_id: str | None = None) -> tuple[AlertChange, ...]:
    """Return the changes of one alert (default: of all, and of settings), oldest first."""
    of_alert = [] if alert_id is None else [AlertChangeTable.alert_id == alert_id]
    with store.read() as connection:
        return fetch.changes(connection, *of_alert)


def load_series_settings(store: Store) -> tuple[SeriesSettings, ...]:
    """Return what people set for series, in the order of the patterns."""
    with store.read() as connection:
        return fetch.series_settings(connection)


def load_samples(store: Store, result_id: str, metric: str) -> tuple[Sample, ...]:
    """Return the samples of a measurement, warm-ups first, in the order they were taken."""
    return load_samples_of(store, [result_id], metric).get(result_id, ())


def load_samples_of(
    store: Store, result_ids: Collection[str], metric: str
) -> dict[str, tuple[Sample, ...]]:
    """Return the samples of a metric by result, as `load_samples` does; without any, no result."""
    wanted = (
        select(SampleTable.__table__)
        .where(SampleTable.result_id.in_(result_ids), SampleTable.metric == metric)
        .order_by(SampleTable.is_warmup.desc(), SampleTable.position)
    )
    found: dict[str, list[Sample]] = defaultdict(list)
    with store.read() as connection:
        for row in connection.execute(wanted):
            sample = Sample(value=row.value, launch=row.launch, is_warmup=row.is_warmup)
            found[row.result_id].append(sample)
    return {result_id: tuple(samples) for result_id, samples in found.items()}

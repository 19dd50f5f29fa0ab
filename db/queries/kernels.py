"""Queries of kernels: of one result, of many, of one kernel over the runs, of stored traces.

DuckDB skips blocks of rows for a single value; for a list of values or a join it reads all. So the
rows of a few results are looked up one by one. The ids of results begin with the time, as those of
runs do.

One short transaction a call. All functions raise StoreLocked, StoreTooNew and StoreUnavailable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import and_, func, select, tuple_
from sqlalchemy.engine import Connection

from compile_hud.db.records.kernels import (
    Kernel,
    KernelPoint,
    KernelRun,
    KernelSource,
    KernelTotals,
    ProfiledResult,
)
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.columns import read_rows, read_rows_of_each
from compile_hud.db.rows.kernels import read_kernels, read_sources, read_with_sources
from compile_hud.db.rows.mapping import series_hash, utc, warnings_of
from compile_hud.db.rows.sql_expressions import (
    FEW,
    OLDEST_RUN,
    RUN_COLUMNS,
    does_count,
    each_of,
    last_results,
)
from compile_hud.db.schema.tables import (
    AlertTable,
    CaseResultTable,
    KernelTable,
    MeasurementTable,
    RunTable,
    SampleTable,
    SeriesTable,
)
from compile_hud.db.store import Store

# The id of a run and the key of a case.
ResultName = tuple[str, str]
_METRIC: Final = "latency_s"
_COLUMNS: Final[tuple[Any, ...]] = (
    CaseResultTable.c.id,
    CaseResultTable.c.run_id,
    CaseResultTable.c.case_key,
    CaseResultTable.c.details,
    CaseResultTable.c.warnings,
)
_LATENCY_COLUMNS: Final[tuple[Any, ...]] = (MeasurementTable.c.result_id, MeasurementTable.c.median)
_SAMPLE_COLUMNS: Final[tuple[Any, ...]] = (
    SampleTable.c.result_id,
    SampleTable.c.position,
    SampleTable.c.value,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLocation:
    """The run of a case result, and the start of that run."""

    run_id: str
    run_started_at: datetime


def load_kernels(store: Store, result_id: str) -> tuple[Kernel, ...]:
    """Return the kernels of one result, the longest first; empty without any."""
    with store.read() as connection:
        kernels_by_result = read_kernels(connection, [KernelTable.c.result_id == result_id])
    kernels = kernels_by_result.get(result_id, ())
    return tuple(sorted(kernels, key=lambda kernel: kernel.total_s, reverse=True))


def load_sources(store: Store, hashes: Collection[str]) -> Mapping[str, KernelSource]:
    """Return the code with these hashes, by hash, without unknown ones."""
    with store.read() as connection:
        return read_sources(connection, hashes)


def load_results_with_kernels(store: Store, run_id: str) -> frozenset[str]:
    """Return the ids of the results of a run that have kernels; `run_id` is a whole id."""
    last = last_results(CaseResultTable.c.run_id == run_id)
    query = select(KernelTable.c.result_id).where(KernelTable.c.result_id.in_(select(last.c.id)))
    with store.read() as connection:
        return frozenset(connection.execute(query.distinct()).scalars())


def load_kernel_totals(store: Store, run_id: str) -> Mapping[str, KernelTotals]:
    """Return the sums of the kernels of each result by its id, for results that have kernels.

    `run_id` is a whole id.
    """
    last = last_results(CaseResultTable.c.run_id == run_id)
    sums = (
        select(
            KernelTable.c.result_id,
            func.count().label("num_kernels"),
            func.sum(KernelTable.c.count).label("num_calls"),
            func.sum(KernelTable.c.total_s).label("total_s"),
            func.max(KernelTable.c.total_s).label("longest_s"),
        )
        .where(KernelTable.c.result_id.in_(select(last.c.id)))
        .group_by(KernelTable.c.result_id)
        .subquery()
    )
    is_longest = and_(
        KernelTable.c.result_id == sums.c.result_id, KernelTable.c.total_s == sums.c.longest_s
    )
    # Of equally long kernels the first by name stands for all.
    query = (
        select(sums, func.min(KernelTable.c.label).label("longest"))
        .join(KernelTable, is_longest)
        .group_by(*sums.c)
    )
    with store.read() as connection:
        return {
            row.result_id: KernelTotals(
                num_kernels=row.num_kernels,
                num_calls=row.num_calls,
                total_s=row.total_s,
                longest=row.longest,
                longest_s=row.longest_s,
            )
            for row in connection.execute(query)
        }


def find_kernels(
    store: Store, words: Sequence[str], *, result_ids: Iterable[str]
) -> tuple[tuple[str, str], ...]:
    """Return the kernels of the results whose label or name has all `words` of lower case.

    Each label comes once, with the id of the result in which it takes longest; the longest first.
    """
    text = func.lower(KernelTable.c.label + " " + KernelTable.c.name)
    longest: dict[str, tuple[float, str]] = {}
    with store.read() as connection:
        for ids in batches(result_ids):
            query = select(
                KernelTable.c.label, KernelTable.c.result_id, KernelTable.c.total_s
            ).where(
                KernelTable.c.result_id.in_(ids),
                *(text.contains(word, autoescape=True) for word in words),
            )
            for row in connection.execute(query):
                longest[row.label] = max(
                    longest.get(row.label, (0.0, "")), (row.total_s, row.result_id)
                )
    ordered = sorted(longest.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple((label, id) for label, (_, id) in ordered)


def load_kernel_runs(store: Store, case_key: str) -> tuple[KernelRun, ...]:
    """Return the runs that have kernels of a case, the oldest first."""
    last = last_results(CaseResultTable.c.case_key == case_key)
    query = (
        select(last.c.run_id, *RUN_COLUMNS)
        .join(RunTable, RunTable.c.id == last.c.run_id)
        .where(last.c.id.in_(select(KernelTable.c.result_id)))
        .order_by(*OLDEST_RUN)
    )
    with store.read() as connection:
        rows = connection.execute(query).all()
    return tuple(
        KernelRun(
            run_id=row.run_id,
            at=utc(row.run_started_at),
            machine=row.machine,
            toolchain=row.toolchain,
        )
        for row in rows
    )


def load_kernel_points(
    store: Store, case_key: str, *, label: str, library: str, shapes: str
) -> tuple[KernelPoint, ...]:
    """Return one kernel in each run of a case that has it, the oldest run first."""
    last = last_results(CaseResultTable.c.case_key == case_key)
    named = func.nullif(KernelTable.c.source_hash, "")
    per_result = (
        select(
            KernelTable.c.result_id,
            func.sum(KernelTable.c.count).label("num_calls"),
            func.sum(KernelTable.c.total_s).label("total_s"),
            func.min(KernelTable.c.min_s).label("min_s"),
            func.sum(KernelTable.c.share).label("share"),
            func.count(named.distinct()).label("num_sources"),
        )
        .where(
            KernelTable.c.result_id.in_(select(last.c.id)),
            KernelTable.c.label == label,
            KernelTable.c.library == library,
            KernelTable.c.shapes == shapes,
        )
        .group_by(KernelTable.c.result_id)
        .subquery()
    )
    query = (
        select(per_result, last.c.run_id, *RUN_COLUMNS)
        .join(last, last.c.id == per_result.c.result_id)
        .join(RunTable, RunTable.c.id == last.c.run_id)
        .order_by(*OLDEST_RUN)
    )
    with store.read() as connection:
        rows = connection.execute(query).all()
    return tuple(
        KernelPoint(
            run_id=row.run_id,
            result_id=row.result_id,
            at=utc(row.run_started_at),
            revision=row.revision,
            machine=row.machine,
            toolchain=row.toolchain,
            fingerprint=row.fingerprint,
            count=row.num_calls,
            total_s=row.total_s,
            min_s=row.min_s,
            share=row.share,
            num_sources=row.num_sources,
        )
        for row in rows
    )


def load_locations(store: Store, result_ids: Collection[str]) -> Mapping[str, ResultLocation]:
    """Return the runs of these results, by result, without unknown ones."""
    query = select(CaseResultTable.c.id, RunTable.c.id.label("run_id"), RunTable.c.started_at).join(
        RunTable, RunTable.c.id == CaseResultTable.c.run_id
    )
    with store.read() as connection:
        return {
            row.id: ResultLocation(run_id=row.run_id, run_started_at=utc(row.started_at))
            for some in batches(result_ids)
            for row in connection.execute(query.where(CaseResultTable.c.id.in_(some)))
        }


def load_watched_runs(store: Store) -> frozenset[str]:
    """Return the first bad and the last good run of each open or acknowledged alert."""
    ends = select(AlertTable.c.first_bad_run_id, AlertTable.c.last_good_run_id)
    with store.read() as connection:
        rows = connection.execute(ends.where(AlertTable.c.state.in_(ONGOING))).all()
    return frozenset(run_id for row in rows for run_id in row if run_id is not None)


def load_profiled(store: Store, names: Collection[ResultName]) -> dict[ResultName, ProfiledResult]:
    """Return the results with these names that have kernels, in one transaction.

    Raises StoreLocked, StoreTooNew and StoreUnavailable.
    """
    if not names:
        return {}
    with store.read() as connection:
        run_query = select(RunTable.c.id, RunTable.c.started_at, RunTable.c.fingerprint).where(
            RunTable.c.id.in_([run_id for run_id, _ in names])
        )
        runs = {row.id: row for row in read_rows(connection, run_query)}
        if not runs:
            return {}
        rows = _results(connection, names, since=min(run.started_at for run in runs.values()))
        ids = [row.id for row in rows]
        kernels_by_result = read_with_sources(connection, each_of(KernelTable.c.result_id, ids))
        latencies = _latencies(connection, rows, runs=runs)
        samples = _samples(connection, ids)
    return {
        (row.run_id, row.case_key): ProfiledResult(
            kernels=kernels_by_result[row.id][0],
            sources=kernels_by_result[row.id][1],
            details=row.details,
            latency_s=latencies.get(row.id),
            samples=tuple(samples[row.id]),
            warnings=warnings_of(row),
        )
        for row in rows
        if row.id in kernels_by_result
    }


def _results(
    connection: Connection, names: Collection[ResultName], *, since: datetime
) -> list[Any]:
    each = sorted(set(names))
    if len(each) <= FEW:
        conditions = [
            and_(CaseResultTable.c.run_id == run_id, CaseResultTable.c.case_key == case_key)
            for run_id, case_key in each
        ]
    else:
        is_one = tuple_(CaseResultTable.c.run_id, CaseResultTable.c.case_key).in_(each)
        conditions = [and_(is_one, CaseResultTable.c.finished_at >= since)]
    counts = does_count(CaseResultTable.c.id)
    return read_rows_of_each(connection, select(*_COLUMNS).where(counts), conditions)


def _latencies(
    connection: Connection, rows: Sequence[Any], *, runs: Mapping[str, Any]
) -> dict[str, float]:
    if len(rows) <= FEW:
        hashes = _hashes(connection, {row.case_key for row in rows})
        conditions = [
            and_(
                MeasurementTable.c.series_hash == hashes[series],
                MeasurementTable.c.run_started_at == runs[row.run_id].started_at,
                MeasurementTable.c.result_id == row.id,
            )
            for row in rows
            if (series := (row.case_key, runs[row.run_id].fingerprint)) in hashes
        ]
    else:
        conditions = [
            and_(
                MeasurementTable.c.run_started_at.in_({run.started_at for run in runs.values()}),
                MeasurementTable.c.result_id.in_([row.id for row in rows]),
            )
        ]
    query = select(*_LATENCY_COLUMNS).where(MeasurementTable.c.metric == _METRIC)
    latency_rows = read_rows_of_each(connection, query, conditions)
    return {row.result_id: row.median for row in latency_rows}


def _hashes(connection: Connection, case_keys: Collection[str]) -> dict[tuple[str, str], int]:
    """Return the number of each series of latencies by its case and fingerprint."""
    query = select(SeriesTable.c.case_key, SeriesTable.c.fingerprint, SeriesTable.c.key).where(
        SeriesTable.c.metric == _METRIC, SeriesTable.c.case_key.in_(case_keys)
    )
    return {
        (row.case_key, row.fingerprint): series_hash(row.key) for row in connection.execute(query)
    }


def _samples(connection: Connection, ids: Sequence[str]) -> dict[str, list[float]]:
    query = select(*_SAMPLE_COLUMNS).where(
        SampleTable.c.metric == _METRIC, SampleTable.c.is_warmup.is_(False)
    )
    rows = read_rows_of_each(connection, query, each_of(SampleTable.c.result_id, ids))
    samples: dict[str, list[float]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.position):
        samples[row.result_id].append(row.value)
    return samples

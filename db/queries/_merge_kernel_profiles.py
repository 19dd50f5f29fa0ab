"""The kernels of several results at once, with their profiles and the samples of the latency.

DuckDB skips the blocks that one value cannot be in; for a list of values or a join it reads all.
So a few results are looked for one by one. Their ids begin with the time, as those of runs do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import and_, select, tuple_
from sqlalchemy.engine import Connection

from compile_hud.db.queries import common as fetch
from compile_hud.db.records.kernels import ProfiledResult
from compile_hud.db.rows.columns import read_rows, read_rows_of_each
from compile_hud.db.rows.kernels import read_with_sources
from compile_hud.db.rows.mapping import series_hash, warnings_of
from compile_hud.db.schema.tables import (
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
    CaseResultTable.id,
    CaseResultTable.run_id,
    CaseResultTable.case_key,
    CaseResultTable.details,
    CaseResultTable.warnings,
)
_LATENCY_COLUMNS: Final[tuple[Any, ...]] = (MeasurementTable.result_id, MeasurementTable.median)
_SAMPLE_COLUMNS: Final[tuple[Any, ...]] = (
    SampleTable.result_id,
    SampleTable.position,
    SampleTable.value,
)


def load_profiled(store: Store, names: Collection[ResultName]) -> dict[ResultName, ProfiledResult]:
    """Return the results with these names that have kernels, in one transaction.

    Raises StoreLocked, StoreTooNew and StoreUnavailable.
    """
    if not names:
        return {}
    with store.read() as connection:
        wanted = select(RunTable.id, RunTable.started_at, RunTable.fingerprint).where(
            RunTable.id.in_([run_id for run_id, _ in names])
        )
        runs = {row.id: row for row in read_rows(connection, wanted)}
        if not runs:
            return {}
        rows = _results(connection, names, since=min(run.started_at for run in runs.values()))
        ids = [row.id for row in rows]
        found = read_with_sources(connection, fetch.each_of(KernelTable.result_id, ids))
        latencies = _latencies(connection, rows, runs=runs)
        samples = _samples(connection, ids)
    return {
        (row.run_id, row.case_key): ProfiledResult(
            kernels=found[row.id][0],
            sources=found[row.id][1],
            details=row.details,
            latency_s=latencies.get(row.id),
            samples=tuple(samples[row.id]),
            warnings=warnings_of(row),
        )
        for row in rows
        if row.id in found
    }


def _results(
    connection: Connection, names: Collection[ResultName], *, since: datetime
) -> list[Any]:
    each = sorted(set(names))
    if len(each) <= fetch.FEW:
        conditions = [
            and_(CaseResultTable.run_id == run_id, CaseResultTable.case_key == case_key)
            for run_id, case_key in each
        ]
    else:
        is_one = tuple_(CaseResultTable.run_id, CaseResultTable.case_key).in_(each)
        conditions = [and_(is_one, CaseResultTable.finished_at >= since)]
    counts = fetch.does_count(CaseResultTable.id)
    return read_rows_of_each(connection, select(*_COLUMNS).where(counts), conditions)


def _latencies(
    connection: Connection, rows: Sequence[Any], *, runs: Mapping[str, Any]
) -> dict[str, float]:
    if len(rows) <= fetch.FEW:
        hashes = _hashes(connection, {row.case_key for row in rows})
        conditions = [
            and_(
                MeasurementTable.series_hash == hashes[place],
                MeasurementTable.run_started_at == runs[row.run_id].started_at,
                MeasurementTable.result_id == row.id,
            )
            for row in rows
            if (place := (row.case_key, runs[row.run_id].fingerprint)) in hashes
        ]
    else:
        conditions = [
            and_(
                MeasurementTable.run_started_at.in_({run.started_at for run in runs.values()}),
                MeasurementTable.result_id.in_([row.id for row in rows]),
            )
        ]
    wanted = select(*_LATENCY_COLUMNS).where(MeasurementTable.metric == _METRIC)
    found = read_rows_of_each(connection, wanted, conditions)
    return {row.result_id: row.median for row in found}


def _hashes(connection: Connection, case_keys: Collection[str]) -> dict[tuple[str, str], int]:
    """Return the number of each series of latencies by its case and fingerprint."""
    wanted = select(SeriesTable.case_key, SeriesTable.fingerprint, SeriesTable.key).where(
        SeriesTable.metric == _METRIC, SeriesTable.case_key.in_(case_keys)
    )
    return {
        (row.case_key, row.fingerprint): series_hash(row.key) for row in connection.execute(wanted)
    }


def _samples(connection: Connection, ids: Sequence[str]) -> dict[str, list[float]]:
    wanted = select(*_SAMPLE_COLUMNS).where(
        SampleTable.metric == _METRIC, SampleTable.is_warmup.is_(False)
    )
    rows = read_rows_of_each(connection, wanted, fetch.each_of(SampleTable.result_id, ids))
    found: dict[str, list[float]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.position):
        found[row.result_id].append(row.value)
    return found

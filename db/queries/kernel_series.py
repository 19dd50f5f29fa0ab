"""The newest kernels of cases, result by result.

All functions raise StoreLocked, StoreTooNew and StoreUnavailable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from compile_hud.db.records.results import REFERENCE_FAMILY, Case, Outcome, RunRef
from compile_hud.db.records.summaries import KernelHistory, KernelNight
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.columns import read_rows
from compile_hud.db.rows.kernels import read_kernels
from compile_hud.db.rows.mapping import case_record, utc
from compile_hud.db.rows.sql_expressions import CASE_COLUMNS, OLDEST_RUN, RUN_COLUMNS, does_count
from compile_hud.db.schema.tables import (
    CaseResultTable,
    CaseTable,
    KernelTable,
    MeasurementTable,
    RunTable,
)
from compile_hud.db.store import Store

_METRIC = "latency_s"
_OK = str(Outcome.OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NightResult:
    """A result with its run."""

    id: str
    run: RunRef
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _KernelScope:
    case: Case
    machine: str
    toolchain: str
    fingerprint: str
    results: Sequence[_NightResult]


def load_kernel_histories(
    store: Store, case_keys: Collection[str], *, num_results: int
) -> Iterator[KernelHistory]:
    """Yield the newest `num_results` results of each case, machine and toolchain with kernels.

    Only those in the environment of the newest one count. Reference cases are left out. Each
    history is read when it is its turn, so that only one is in memory.
    """
    for some in batches(sorted(case_keys)):
        with store.read() as connection:
            scopes = _scopes(connection, some, num_results=num_results)
            profiled = _with_kernels(connection, [scope.results[-1].id for scope in scopes])
        for scope in scopes:
            if scope.results[-1].id not in profiled:
                continue
            with store.read() as connection:
                nights = _nights(connection, scope.results)
            yield KernelHistory(
                case=scope.case,
                machine=scope.machine,
                toolchain=scope.toolchain,
                fingerprint=scope.fingerprint,
                nights=nights,
            )


def count_ok_results(store: Store) -> dict[str, int]:
    """Return the number of ok results of each run that has any."""
    query = (
        select(CaseResultTable.c.run_id, func.count().label("num"))
        .where(CaseResultTable.c.outcome == _OK)
        .group_by(CaseResultTable.c.run_id)
    )
    with store.read() as connection:
        return {row.run_id: row.num for row in connection.execute(query)}


def _scopes(
    connection: Connection, case_keys: Sequence[str], *, num_results: int
) -> list[_KernelScope]:
    query = (
        select(
            CaseResultTable.c.id.label("result_id"),
            CaseResultTable.c.run_id,
            *RUN_COLUMNS,
            *CASE_COLUMNS,
        )
        .join(RunTable, RunTable.c.id == CaseResultTable.c.run_id)
        .join(CaseTable, CaseTable.c.key == CaseResultTable.c.case_key)
        .where(
            CaseResultTable.c.case_key.in_(case_keys),
            CaseTable.c.family != REFERENCE_FAMILY,
            CaseResultTable.c.outcome == _OK,
            does_count(CaseResultTable.c.id),
        )
        .order_by(*OLDEST_RUN)
    )
    by_scope = defaultdict(list)
    for row in read_rows(connection, query):
        by_scope[case_record(row), row.machine, row.toolchain].append(row)
    return [
        _KernelScope(
            case=case,
            machine=machine,
            toolchain=toolchain,
            fingerprint=rows[-1].fingerprint,
            results=[
                _NightResult(
                    id=row.result_id,
                    run=RunRef(
                        run_id=row.run_id, revision=row.revision, at=utc(row.run_started_at)
                    ),
                    started_at=row.run_started_at,
                )
                for row in rows
                if row.fingerprint == rows[-1].fingerprint
            ][-num_results:],
        )
        for (case, machine, toolchain), rows in by_scope.items()
    ]


def _with_kernels(connection: Connection, result_ids: Sequence[str]) -> frozenset[str]:
    if not result_ids:
        return frozenset()
    # Ids begin with the time: DuckDB skips the blocks of older rows for the range alone.
    query = select(KernelTable.c.result_id).where(
        KernelTable.c.result_id >= min(result_ids), KernelTable.c.result_id.in_(result_ids)
    )
    return frozenset(connection.execute(query.distinct()).scalars())


def _nights(connection: Connection, results: Sequence[_NightResult]) -> tuple[KernelNight, ...]:
    """Return the results with kernels and a latency."""
    ids = [result.id for result in results]
    kernels = read_kernels(
        connection,
        [(KernelTable.c.result_id >= min(ids)) & KernelTable.c.result_id.in_(ids)],
    )
    query = select(MeasurementTable.c.result_id, MeasurementTable.c.median).where(
        MeasurementTable.c.metric == _METRIC,
        MeasurementTable.c.run_started_at >= results[0].started_at,
        MeasurementTable.c.result_id.in_(ids),
    )
    latencies = {row.result_id: row.median for row in connection.execute(query)}
    return tuple(
        KernelNight(
            run=result.run,
            result_id=result.id,
            latency_s=latencies[result.id],
            kernels=kernels[result.id],
        )
        for result in results
        if result.id in kernels and latencies.get(result.id, 0.0) > 0
    )

"""What is read of kernels: of one result, of one kernel over the runs, of kept traces.

One short transaction a call. All functions raise StoreLocked, StoreTooNew and StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from compile_hud.db.queries import common as fetch
from compile_hud.db.records.kernels import Kernel, KernelSource
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.rows.kernels import read_kernels, read_sources
from compile_hud.db.rows.mapping import utc
from compile_hud.db.schema.tables import AlertTable, CaseResultTable, KernelTable, RunTable
from compile_hud.db.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPoint:
    """One kernel in one run: all its rows of the result together, in seconds an iteration.

    `num_sources` is how many different codes it was generated as, 0 for a kernel of a library.
    """

    run_id: str
    result_id: str
    at: datetime
    revision: str
    machine: str
    toolchain: str
    fingerprint: str
    count: float
    total_s: float
    min_s: float
    share: float
    num_sources: int

    @property
    def mean_s(self) -> float:
        """Return the time of one call; that of an iteration where calls are not known."""
        return self.total_s / self.count if self.count else self.total_s


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRun:
    """A run that has kernels of some case."""

    run_id: str
    at: datetime
    machine: str
    toolchain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPlace:
    """The run that a case result is of, and when that run began."""

    run_id: str
    run_started_at: datetime


def load_kernels(store: Store, result_id: str) -> tuple[Kernel, ...]:
    """Return the kernels of one result, those that take longest first; none where it has none."""
    with store.read() as connection:
        found = read_kernels(connection, [KernelTable.result_id == result_id])
    kernels = found.get(result_id, ())
    return tuple(sorted(kernels, key=lambda kernel: kernel.total_s, reverse=True))


def load_sources(store: Store, hashes: Collection[str]) -> Mapping[str, KernelSource]:
    """Return the code with these hashes, by hash; what is not in the store is left out."""
    with store.read() as connection:
        return read_sources(connection, hashes)


def load_results_with_kernels(store: Store, run_id: str) -> frozenset[str]:
    """Return the ids of the results of a run, whose whole id this is, that have kernels."""
    last = fetch.last_results(CaseResultTable.run_id == run_id)
    wanted = select(KernelTable.result_id).where(KernelTable.result_id.in_(select(last.c.id)))
    with store.read() as connection:
        return frozenset(connection.execute(wanted.distinct()).scalars())


def load_kernel_runs(store: Store, case_key: str) -> tuple[KernelRun, ...]:
    """Return the runs that have kernels of a case, the oldest first."""
    last = fetch.last_results(CaseResultTable.case_key == case_key)
    wanted = (
        select(last.c.run_id, *fetch.RUN_COLUMNS)
        .join(RunTable, RunTable.id == last.c.run_id)
        .where(last.c.id.in_(select(KernelTable.result_id)))
        .order_by(*fetch.OLDEST_RUN)
    )
    with store.read() as connection:
        rows = connection.execute(wanted).all()
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
    last = fetch.last_results(CaseResultTable.case_key == case_key)
    named = func.nullif(KernelTable.source_hash, "")
    per_result = (
        select(
            KernelTable.result_id,
            func.sum(KernelTable.count).label("num_calls"),
            func.sum(KernelTable.total_s).label("total_s"),
            func.min(KernelTable.min_s).label("min_s"),
            func.sum(KernelTable.share).label("share"),
            func.count(named.distinct()).label("num_sources"),
        )
        .where(
            KernelTable.result_id.in_(select(last.c.id)),
            KernelTable.label == label,
            KernelTable.library == library,
            KernelTable.shapes == shapes,
        )
        .group_by(KernelTable.result_id)
        .subquery()
    )
    wanted = (
        select(per_result, last.c.run_id, *fetch.RUN_COLUMNS)
        .join(last, last.c.id == per_result.c.result_id)
        .join(RunTable, RunTable.id == last.c.run_id)
        .order_by(*fetch.OLDEST_RUN)
    )
    with store.read() as connection:
        rows = connection.execute(wanted).all()
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


def load_places(store: Store, result_ids: Collection[str]) -> Mapping[str, ResultPlace]:
    """Return the runs of these results, by result; what is not in the store is left out."""
    places = select(CaseResultTable.id, RunTable.id.label("run_id"), RunTable.started_at).join(
        RunTable, RunTable.id == CaseResultTable.run_id
    )
    with store.read() as connection:
        return {
            row.id: ResultPlace(run_id=row.run_id, run_started_at=utc(row.started_at))
            for some in fetch.batches(result_ids)
            for row in connection.execute(places.where(CaseResultTable.id.in_(some)))
        }


def load_watched_runs(store: Store) -> frozenset[str]:
    """Return the first bad and the last good run of each open or acknowledged alert."""
    ends = select(AlertTable.first_bad_run_id, AlertTable.last_good_run_id)
    with store.read() as connection:
        rows = connection.execute(ends.where(AlertTable.state.in_(ONGOING))).all()
    return frozenset(run_id for row in rows for run_id in row if run_id is not None)

"""The kernels of several results at once, with their profiles and without their samples."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select, tuple_

from db import fetch
from db.kernel_rows import read_kernels, read_sources
from db.kernels import Kernel, KernelSource, Profile, profile_of
from db.store import Store
from db.tables import CaseResultTable, KernelTable, MeasurementTable

# The id of a run and the key of a case.
ResultName = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledResult:
    """The kernels of a case result, the code of those that were generated, and its latency."""

    kernels: tuple[Kernel, ...]
    sources: tuple[KernelSource, ...]
    profile: Profile | None
    latency_s: float | None


def load_profiled(store: Store, names: Collection[ResultName]) -> dict[ResultName, ProfiledResult]:
    """Return the results with these names that have kernels, in one transaction.

    Raises StoreLocked, StoreTooNew and StoreUnavailable, and RecordError for a damaged profile.
    """
    if not names:
        return {}
    wanted = tuple_(CaseResultTable.run_id, CaseResultTable.case_key).in_(sorted(names))
    with store.read() as connection:
        last = fetch.last_results(wanted)
        columns = (last.c.id, last.c.run_id, last.c.case_key, last.c.details)
        rows = connection.execute(select(*columns)).all()
        kernels = read_kernels(connection, KernelTable.result_id.in_(select(last.c.id)))
        hashes = {item.source_hash for several in kernels.values() for item in several} - {""}
        sources = read_sources(connection, hashes)
        medians = connection.execute(
            select(MeasurementTable.result_id, MeasurementTable.median).where(
                MeasurementTable.metric == "latency_s",
                MeasurementTable.result_id.in_(select(last.c.id)),
            )
        ).all()
    latencies = {row.result_id: row.median for row in medians}
    return {
        (row.run_id, row.case_key): ProfiledResult(
            kernels=kernels[row.id],
            sources=_sources_of(kernels[row.id], sources=sources),
            profile=profile_of(row.details),
            latency_s=latencies.get(row.id),
        )
        for row in rows
        if row.id in kernels
    }


def _sources_of(
    kernels: tuple[Kernel, ...], *, sources: dict[str, KernelSource]
) -> tuple[KernelSource, ...]:
    hashes = dict.fromkeys(kernel.source_hash for kernel in kernels)
    return tuple(sources[name] for name in hashes if name in sources)

"""The kernels of several results at once, with their profiles and the samples of the latency."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import select, tuple_

from db import fetch
from db.kernel_rows import read_with_sources
from db.kernels import ProfiledResult
from db.rows import warnings_of
from db.store import Store
from db.tables import CaseResultTable, KernelTable, MeasurementTable, RunTable, SampleTable

# The id of a run and the key of a case.
ResultName = tuple[str, str]


def load_profiled(store: Store, names: Collection[ResultName]) -> dict[ResultName, ProfiledResult]:
    """Return the results with these names that have kernels, in one transaction.

    Raises StoreLocked, StoreTooNew and StoreUnavailable.
    """
    if not names:
        return {}
    wanted = tuple_(CaseResultTable.run_id, CaseResultTable.case_key).in_(sorted(names))
    with store.read() as connection:
        starts = select(RunTable.started_at).where(RunTable.id.in_([run_id for run_id, _ in names]))
        begun = connection.execute(starts).scalars().all()
        if not begun:
            return {}
        last = fetch.last_results(wanted, CaseResultTable.finished_at >= min(begun))
        columns: tuple[Any, ...] = (
            last.c.id,
            last.c.run_id,
            last.c.case_key,
            last.c.details,
            last.c.warnings,
        )
        rows = connection.execute(select(*columns)).all()
        # By their ids, which begin with the time: DuckDB skips what is older and newer, where it
        # would read everything for a join.
        ids = [row.id for row in rows]
        found = read_with_sources(connection, KernelTable.result_id.in_(ids))
        medians = connection.execute(
            select(MeasurementTable.result_id, MeasurementTable.median).where(
                MeasurementTable.metric == "latency_s",
                MeasurementTable.run_started_at.in_(begun),
                MeasurementTable.result_id.in_(ids),
            )
        ).all()
        taken = connection.execute(
            select(SampleTable.result_id, SampleTable.value)
            .where(
                SampleTable.metric == "latency_s",
                SampleTable.is_warmup.is_(False),
                SampleTable.result_id.in_(ids),
            )
            .order_by(SampleTable.position)
        ).all()
    latencies = {row.result_id: row.median for row in medians}
    samples: dict[str, list[float]] = defaultdict(list)
    for sample in taken:
        samples[sample.result_id].append(sample.value)
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

"""The kernels of several results at once, with their profiles and without their samples."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select, tuple_

from db import fetch
from db.kernel_rows import read_with_sources
from db.kernels import ProfiledResult
from db.store import Store
from db.tables import CaseResultTable, KernelTable, MeasurementTable

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
        last = fetch.last_results(wanted)
        columns = (last.c.id, last.c.run_id, last.c.case_key, last.c.details)
        rows = connection.execute(select(*columns)).all()
        found = read_with_sources(connection, KernelTable.result_id.in_(select(last.c.id)))
        medians = connection.execute(
            select(MeasurementTable.result_id, MeasurementTable.median).where(
                MeasurementTable.metric == "latency_s",
                MeasurementTable.result_id.in_(select(last.c.id)),
            )
        ).all()
    latencies = {row.result_id: row.median for row in medians}
    return {
        (row.run_id, row.case_key): ProfiledResult(
            kernels=found[row.id][0],
            sources=found[row.id][1],
            details=row.details,
            latency_s=latencies.get(row.id),
        )
        for row in rows
        if row.id in found
    }

"""The last points of every case at a place, for small trend lines; reads no sample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import select

from db import fetch
from db.store import Store
from db.tables import MeasurementTable, RunTable

Recent = dict[tuple[str, str], tuple[float, ...]]


def load_recent(
    store: Store, *, metrics: Sequence[str], machine: str, toolchain: str, num_runs: int
) -> Recent:
    """Return the medians of each case by its key and metric, oldest first.

    They are of the newest `num_runs` on `machine` in `toolchain`. Where a case was measured more
    than once in a run there is one of its medians.
    """
    newest = (
        select(RunTable.id, RunTable.started_at)
        .where(RunTable.machine == machine, RunTable.toolchain == toolchain)
        .order_by(*fetch.NEWEST_RUN)
        .limit(num_runs)
    )
    found: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    with store.read() as connection:
        runs = connection.execute(newest).all()
        if not runs:
            return {}
        rows = connection.execute(
            select(
                MeasurementTable.case_key,
                MeasurementTable.metric,
                MeasurementTable.run_id,
                MeasurementTable.median,
            ).where(
                MeasurementTable.metric.in_(metrics),
                # Rows are in the order of time, so that this alone skips nearly all of them.
                MeasurementTable.run_started_at >= min(run.started_at for run in runs),
                MeasurementTable.run_id.in_([run.id for run in runs]),
            )
        )
        for row in rows:
            found[row.case_key, row.metric][row.run_id] = row.median
    order = [run.id for run in reversed(runs)]
    return {
        key: tuple(medians[run_id] for run_id in order if run_id in medians)
        for key, medians in found.items()
    }

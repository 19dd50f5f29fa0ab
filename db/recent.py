"""The last points of every case at a place, and when it was last ok; reads no sample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import func, select

from db import fetch
from db.records import Outcome
from db.rows import utc
from db.store import Store
from db.tables import CaseResultTable, MeasurementTable, RunTable

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


def load_last_ok(store: Store, *, machine: str, toolchain: str) -> dict[str, datetime]:
    """Return when the newest run began in which each case was ok, by case key."""
    wanted = (
        select(CaseResultTable.case_key, func.max(RunTable.started_at).label("at"))
        .join(RunTable, RunTable.id == CaseResultTable.run_id)
        .where(
            RunTable.machine == machine,
            RunTable.toolchain == toolchain,
            CaseResultTable.outcome == Outcome.OK,
        )
        .group_by(CaseResultTable.case_key)
    )
    with store.read() as connection:
        return {row.case_key: utc(row.at) for row in connection.execute(wanted)}


def load_model_summaries(store: Store, result_ids: Iterable[str]) -> dict[str, str]:
    """Return what the catalog said of the model when it was measured, by the ids of results.

    Results of before that was kept, and of models without such a text, are left out.
    """
    # The details hold profiles as well: the store takes out the one text.
    summary = CaseResultTable.details["workload"]["summary"].as_string()
    found: dict[str, str] = {}
    with store.read() as connection:
        for ids in fetch.batches(result_ids):
            wanted = select(CaseResultTable.id, summary.label("summary"))
            rows = connection.execute(wanted.where(CaseResultTable.id.in_(ids)))
            found |= {row.id: row.summary for row in rows if row.summary}
    return found

"""Where there are newest results, the last points of every case there, and when it was last ok.

Reads no sample.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from compile_hud.db.queries import common as fetch
from compile_hud.db.records.results import REFERENCE_FAMILY, Outcome
from compile_hud.db.records.summaries import Place
from compile_hud.db.rows.columns import batches, read_rows
from compile_hud.db.rows.mapping import utc
from compile_hud.db.schema.tables import (
    CaseResultTable,
    CaseTable,
    LatestResultTable,
    MeasurementTable,
    RunTable,
)
from compile_hud.db.store import Store

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


def load_places(store: Store) -> tuple[Place, ...]:
    """Return every machine and toolchain that has newest results, in their order."""
    is_reference = (CaseTable.family == REFERENCE_FAMILY).label("is_reference")
    wanted = (
        select(
            LatestResultTable.machine,
            LatestResultTable.toolchain,
            LatestResultTable.run_started_at,
            LatestResultTable.run_id,
            is_reference,
        )
        .join(CaseTable, CaseTable.key == LatestResultTable.case_key)
        .distinct()
        .order_by(LatestResultTable.run_started_at, LatestResultTable.run_id)
    )
    # The newest of each kind stays.
    runs: defaultdict[tuple[str, str], dict[bool, Any]] = defaultdict(dict)
    with store.read() as connection:
        for row in read_rows(connection, wanted):
            runs[row.machine, row.toolchain][row.is_reference] = row
    return tuple(
        Place(
            machine=machine,
            toolchain=toolchain,
            newest_at=max(row.run_started_at for row in found.values()),
            has_cases=False in found,
            reference_run_id=found[True].run_id if True in found else "",
        )
        for (machine, toolchain), found in sorted(runs.items())
    )


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
        for ids in batches(result_ids):
            wanted = select(CaseResultTable.id, summary.label("summary"))
            rows = connection.execute(wanted.where(CaseResultTable.id.in_(ids)))
            found |= {row.id: row.summary for row in rows if row.summary}
    return found

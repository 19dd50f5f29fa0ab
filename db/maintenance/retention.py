"""The retention of samples. Medians, intervals and counts stay, and the evidence of alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, delete, func, select
from sqlalchemy.engine import Connection

from compile_hud.db.records.triage import ONGOING
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.mapping import utc
from compile_hud.db.schema.tables import (
    AlertTable,
    CaseResultTable,
    RunTable,
    SampleTable,
    SeriesSettingsTable,
    SeriesTable,
)
from compile_hud.db.store import Store

# The transaction of so many runs, a few thousand rows each, is over in a second.
_RUNS_AT_A_TIME: Final = 100
_RUNS: Final = select(RunTable.c.id, RunTable.c.started_at)
_COUNTS: Final = (
    select(CaseResultTable.c.run_id, func.count().label("num_samples"))
    .join(SampleTable, SampleTable.c.result_id == CaseResultTable.c.id)
    .group_by(CaseResultTable.c.run_id)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldSamples:
    """Samples past their retention: their number and their runs."""

    num_samples: int = 0
    run_ids: tuple[str, ...] = ()


def find_old_samples(store: Store, *, num_nights: int) -> OldSamples:
    """Return the samples of all but the newest `num_nights` nights on which a run began (UTC).

    Some samples stay longer:

    - those of the first bad and the last good run of each open or acknowledged alert,
    - those of baselines that people set,
    - those of the run that measured a series last.
    """
    with store.read() as connection:
        newest = newest_nights(connection, num_nights=num_nights)
        protected = newest | _protected_runs(connection)
        run_ids = [row.id for row in connection.execute(_RUNS) if row.id not in protected]
        counts = {
            row.run_id: row.num_samples
            for some in batches(run_ids)
            for row in connection.execute(_COUNTS.where(CaseResultTable.c.run_id.in_(some)))
        }
    return OldSamples(num_samples=sum(counts.values()), run_ids=tuple(sorted(counts)))


def newest_nights(connection: Connection, *, num_nights: int) -> set[str]:
    """Return the runs of the newest `num_nights` nights: days (UTC) on which a run began."""
    begun = [(row.id, utc(row.started_at).date()) for row in connection.execute(_RUNS)]
    nights = sorted({night for _, night in begun}, reverse=True)[:num_nights]
    return {run_id for run_id, night in begun if night in nights}


def remove_samples(store: Store, old: OldSamples) -> None:
    """Remove the samples of the runs in `old`, some runs at a time, so that other writers get a
    turn.
    """
    for start in range(0, len(old.run_ids), _RUNS_AT_A_TIME):
        some = old.run_ids[start : start + _RUNS_AT_A_TIME]
        results = select(CaseResultTable.c.id).where(CaseResultTable.c.run_id.in_(some))
        with store.write() as connection:
            connection.execute(delete(SampleTable).where(SampleTable.c.result_id.in_(results)))


def _protected_runs(connection: Connection) -> set[str]:
    ongoing = AlertTable.c.state.in_(ONGOING)
    queries: tuple[Select[Any], ...] = (
        select(AlertTable.c.first_bad_run_id).where(ongoing),
        select(AlertTable.c.last_good_run_id).where(ongoing),
        select(SeriesSettingsTable.c.baseline_run_id),
        select(SeriesTable.c.last_run_id).distinct(),
    )
    return {
        str(run_id) for one in queries for run_id in connection.execute(one).scalars() if run_id
    }

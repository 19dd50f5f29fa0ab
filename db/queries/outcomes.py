"""How cases ended over all runs: only of those that were not simply ok or put off each time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import func, or_, select

from compile_hud.db.queries import common as fetch
from compile_hud.db.records.results import Case, Outcome
from compile_hud.db.records.summaries import OutcomeHistory, OutcomePoint, PlannedRun
from compile_hud.db.rows.columns import numpy_columns
from compile_hud.db.schema.tables import CaseResultTable, CaseTable, RunTable
from compile_hud.db.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a case ended in a run, and the result that says so."""

    result_id: str
    outcome: Outcome
    is_put_off: bool = False


def load_unusual_outcomes(
    store: Store, *, runs: Sequence[PlannedRun]
) -> tuple[OutcomeHistory, ...]:
    """Return how each case ended that was not planned, and ok or put off, each time since its first
    run.

    Histories are apart by machine, toolchain and case, and have a point for each of `runs` (all
    runs, oldest first) that planned the case. Each run of a suite counts for all cases that the
    suite ever planned there.
    """
    keys, is_ok = _load_ok(store, runs)
    is_planned = _planned(runs, keys)
    found = [
        (place, keys[column], rows[is_planned[rows, column]])
        for place, rows in _rows_by_place(runs)
        for column in _unusual(runs, rows, is_planned=is_planned, is_ok=is_ok)
    ]
    ended = load_ended(store, {key for _, key, _ in found})
    cases = {case.key: case for plan in _plans(runs).values() for case in plan}
    return tuple(
        OutcomeHistory(
            case=cases[key],
            machine=place[0],
            toolchain=place[1],
            points=tuple(_point(runs[row], key, ended) for row in rows),
        )
        for place, key, rows in found
    )


def load_ended(store: Store, case_keys: Collection[str]) -> dict[tuple[str, str], Ending]:
    """Return how these cases ended in each run, by the ids of the runs and the cases' keys."""
    found = {}
    for batch in fetch.batches(case_keys):
        last = fetch.last_results(CaseResultTable.case_key.in_(batch))
        wanted = select(
            last.c.id,
            last.c.run_id,
            last.c.case_key,
            last.c.outcome,
            fetch.is_put_off(last).label("is_put_off"),
        )
        with store.read() as connection:
            for row in connection.execute(wanted):
                ending = Ending(
                    result_id=row.id, outcome=Outcome(row.outcome), is_put_off=row.is_put_off
                )
                found[row.run_id, row.case_key] = ending
    return found


def _load_ok(store: Store, runs: Sequence[PlannedRun]) -> tuple[list[str], np.ndarray]:
    """Return the keys of all cases, and for each run (row) and case (column) if it was ok."""
    places = {run.id: place for place, run in enumerate(runs)}
    with store.read() as connection:
        ids = connection.execute(select(RunTable.id).order_by(*fetch.OLDEST_RUN)).scalars().all()
        keys = list(connection.execute(select(CaseTable.key).order_by(CaseTable.key)).scalars())
        run = select(
            RunTable.id, (func.row_number().over(order_by=fetch.OLDEST_RUN) - 1).label("number")
        ).subquery()
        case = select(
            CaseTable.key, (func.row_number().over(order_by=CaseTable.key) - 1).label("number")
        ).subquery()
        last = fetch.last_results()
        cells = (
            select(run.c.number, case.c.number.label("column"))
            .select_from(last)
            .join(run, run.c.id == last.c.run_id)
            .join(case, case.c.key == last.c.case_key)
            # What its run had no time for says nothing of the case.
            .where(or_(last.c.outcome == str(Outcome.OK), fetch.is_put_off(last)))
        )
        rows, columns = (item.astype(np.int64) for item in numpy_columns(connection, cells))
    is_ok = np.zeros((len(ids), len(keys)), dtype=bool)
    is_ok[rows, columns] = True
    # A run that began since `runs` were read is not one of them.
    kept = np.array([number for number, id in enumerate(ids) if id in places], dtype=np.int64)
    return keys, is_ok[kept]


def _planned(runs: Sequence[PlannedRun], keys: Sequence[str]) -> np.ndarray:
    """Return for each run and case if it was planned; a case without any result is left out."""
    columns = {key: column for column, key in enumerate(keys)}
    by_plan = {
        number: [columns[case.key] for case in plan if case.key in columns]
        for number, plan in _plans(runs).items()
    }
    is_planned = np.zeros((len(runs), len(keys)), dtype=bool)
    for row, run in enumerate(runs):
        is_planned[row, by_plan[id(run.plan)]] = True
    return is_planned


def _plans(runs: Sequence[PlannedRun]) -> dict[int, tuple[Case, ...]]:
    # Runs that planned the same share one tuple; comparing a thousand cases takes longer.
    return {id(run.plan): run.plan for run in runs}


def _rows_by_place(runs: Sequence[PlannedRun]) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    by_place: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, run in enumerate(runs):
        by_place[run.place].append(row)
    for place in sorted(by_place):
        yield place, np.array(by_place[place])


def _unusual(
    runs: Sequence[PlannedRun], rows: np.ndarray, *, is_planned: np.ndarray, is_ok: np.ndarray
) -> list[int]:
    """Return the columns of the cases that some run of their suite missed, or that failed."""
    suites = np.array([runs[row].suite for row in rows])
    is_missed = np.zeros(is_planned.shape[1], dtype=bool)
    for suite in set(suites):
        here = rows[suites == suite]
        was_planned = np.logical_or.accumulate(is_planned[here], axis=0)
        is_missed |= (was_planned & ~(is_planned[here] & is_ok[here])).any(axis=0)
    return [int(column) for column in np.flatnonzero(is_missed)]


def _point(run: PlannedRun, key: str, ended: Mapping[tuple[str, str], Ending]) -> OutcomePoint:
    ending = ended.get((run.id, key))
    if ending is None:
        return run.point()
    return run.point(
        result_id=ending.result_id, outcome=ending.outcome, is_put_off=ending.is_put_off
    )

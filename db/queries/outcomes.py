"""Queries of outcomes over all runs, and of ok results that lack a metric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    case,
    func,
    literal,
    or_,
    select,
    union_all,
)

from compile_hud.db.records.results import REFERENCE_FAMILY, Case, Outcome, Run
from compile_hud.db.records.summaries import OkResults, OutcomeHistory, OutcomePoint, PlannedRun
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.columns import numpy_columns
from compile_hud.db.rows.plans import read_runs
from compile_hud.db.rows.sql_expressions import (
    NEWEST_RUN,
    OLDEST_RUN,
    does_count,
    is_deferred,
    is_of_runs,
    last_results,
)
from compile_hud.db.schema.tables import CaseResultTable, CaseTable, MeasurementTable, RunTable
from compile_hud.db.store import Store

# Endings that are no news, as the column stores them.
_EXPECTED: Final = tuple(str(outcome) for outcome in Outcome if outcome.is_expected)
# The number of a row: 0 for an ok result, from 1 on for one of its metrics.
_IS_OK: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEnding:
    """The outcome of a case in a run, and the id of that result."""

    result_id: str
    outcome: Outcome
    is_deferred: bool = False


def load_unusual_outcomes(
    store: Store, *, runs: Sequence[PlannedRun]
) -> tuple[OutcomeHistory, ...]:
    """Return the histories of cases that were not planned, and ok or deferred, in every run.

    Histories are separate by machine, toolchain and case. They have a point for each of `runs` (all
    runs, oldest first) that planned the case. Each run of a suite counts for all cases that the
    suite ever planned there, from the first run of the case on.
    """
    keys, is_ok = _load_ok(store, runs)
    is_planned = _planned(runs, keys)
    histories = [
        (scope, keys[column], rows[is_planned[rows, column]])
        for scope, rows in _rows_by_scope(runs)
        for column in _unusual(runs, rows, is_planned=is_planned, is_ok=is_ok)
    ]
    ended = load_ended(store, {key for _, key, _ in histories})
    cases = {case.key: case for plan in _plans(runs).values() for case in plan}
    return tuple(
        OutcomeHistory(
            case=cases[key],
            machine=scope[0],
            toolchain=scope[1],
            points=tuple(_point(runs[row], key, ended) for row in rows),
        )
        for scope, key, rows in histories
    )


def load_ended(store: Store, case_keys: Collection[str]) -> dict[tuple[str, str], CaseEnding]:
    """Return the outcome of these cases in each run, by the ids of the runs and the cases' keys."""
    endings = {}
    for batch in batches(case_keys):
        last = last_results(CaseResultTable.c.case_key.in_(batch))
        query = select(
            last.c.id,
            last.c.run_id,
            last.c.case_key,
            last.c.outcome,
            is_deferred(last).label("is_deferred"),
        )
        with store.read() as connection:
            for row in connection.execute(query):
                ending = CaseEnding(
                    result_id=row.id, outcome=Outcome(row.outcome), is_deferred=row.is_deferred
                )
                endings[row.run_id, row.case_key] = ending
    return endings


def _load_ok(store: Store, runs: Sequence[PlannedRun]) -> tuple[list[str], np.ndarray]:
    """Return the keys of all cases, and for each run (row) and case (column) whether it was ok."""
    index_of_run = {run.id: index for index, run in enumerate(runs)}
    with store.read() as connection:
        ids = connection.execute(select(RunTable.c.id).order_by(*OLDEST_RUN)).scalars().all()
        keys = list(connection.execute(select(CaseTable.c.key).order_by(CaseTable.c.key)).scalars())
        run = select(
            RunTable.c.id, (func.row_number().over(order_by=OLDEST_RUN) - 1).label("number")
        ).subquery()
        case = select(
            CaseTable.c.key, (func.row_number().over(order_by=CaseTable.c.key) - 1).label("number")
        ).subquery()
        last = last_results()
        cells = (
            select(run.c.number, case.c.number.label("column"))
            .select_from(last)
            .join(run, run.c.id == last.c.run_id)
            .join(case, case.c.key == last.c.case_key)
            # A deferred case counts as neither.
            .where(or_(last.c.outcome.in_(_EXPECTED), is_deferred(last)))
        )
        rows, columns = (item.astype(np.int64) for item in numpy_columns(connection, cells))
    is_ok = np.zeros((len(ids), len(keys)), dtype=bool)
    is_ok[rows, columns] = True
    # A run that began since `runs` were read is not one of them.
    rows_of_runs = np.array(
        [number for number, id in enumerate(ids) if id in index_of_run], dtype=np.int64
    )
    return keys, is_ok[rows_of_runs]


def _planned(runs: Sequence[PlannedRun], keys: Sequence[str]) -> np.ndarray:
    """Return for each run and case whether it was planned, without cases that have no result."""
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
    # Runs with equal plans share one tuple; comparing a thousand cases takes longer.
    return {id(run.plan): run.plan for run in runs}


def _rows_by_scope(runs: Sequence[PlannedRun]) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    by_scope: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, run in enumerate(runs):
        by_scope[run.scope].append(row)
    for scope in sorted(by_scope):
        yield scope, np.array(by_scope[scope])


def _unusual(
    runs: Sequence[PlannedRun], rows: np.ndarray, *, is_planned: np.ndarray, is_ok: np.ndarray
) -> list[int]:
    """Return the columns of the cases that failed, or that some run of their suite missed."""
    suites = np.array([runs[row].suite for row in rows])
    is_missed = np.zeros(is_planned.shape[1], dtype=bool)
    for suite in set(suites):
        here = rows[suites == suite]
        was_planned = np.logical_or.accumulate(is_planned[here], axis=0)
        is_missed |= (was_planned & ~(is_planned[here] & is_ok[here])).any(axis=0)
    return [int(column) for column in np.flatnonzero(is_missed)]


def _point(run: PlannedRun, key: str, ended: Mapping[tuple[str, str], CaseEnding]) -> OutcomePoint:
    ending = ended.get((run.id, key))
    if ending is None:
        return run.point()
    return run.point(
        result_id=ending.result_id, outcome=ending.outcome, is_deferred=ending.is_deferred
    )


def load_ok_results(
    store: Store, *, runs: Sequence[PlannedRun], metrics: Sequence[str], num_without: int
) -> OkResults:
    """Return all ok results of the cases of which `num_without` or more lack one of `metrics`.

    `runs` are all runs, oldest first. Of a result that was measured again in its run the last
    counts. Reference cases are left out, and cases that never had any of the metrics.
    """
    index_of_run = {run.id: index for index, run in enumerate(runs)}
    is_model = CaseTable.c.family != REFERENCE_FAMILY
    with store.read() as connection:
        ids = connection.execute(select(RunTable.c.id).order_by(*OLDEST_RUN)).scalars().all()
        keys = select(CaseTable.c.key).where(is_model).order_by(CaseTable.c.key)
        case_keys = connection.execute(keys).scalars().all()
        query = _cells(metrics, is_model=is_model, num_without=num_without)
        columns = [item.astype(np.int64) for item in numpy_columns(connection, query)]
    # A run that began since `runs` were read is not one of them.
    index_by_number = np.array([index_of_run.get(id, -1) for id in ids], dtype=np.int64)
    run_numbers, case_numbers, metric_numbers = index_by_number[columns[0]], columns[1], columns[2]
    cells = run_numbers * len(case_keys) + case_numbers
    is_ok = (metric_numbers == _IS_OK) & (run_numbers >= 0)
    has = [
        np.isin(cells[is_ok], cells[metric_numbers == number])
        for number in _numbers(metrics).values()
    ]
    return OkResults(
        case_keys=case_keys,
        metrics=metrics,
        runs=run_numbers[is_ok],
        cases=case_numbers[is_ok],
        has=np.column_stack(has),
    )


def _numbers(metrics: Sequence[str]) -> dict[str, int]:
    return {metric: number for number, metric in enumerate(metrics, start=_IS_OK + 1)}


def _cells(
    metrics: Sequence[str], *, is_model: ColumnElement[bool], num_without: int
) -> CompoundSelect[tuple[int, int, int]]:
    """Return the query of run, case and metric (0: ok) of each result, all as numbers.

    It reads results and measurements one after the other: a join by the ids of the results takes
    half as long again.
    """
    run = select(RunTable.c.id, _number(OLDEST_RUN)).subquery()
    every = select(CaseTable.c.key, _number((CaseTable.c.key,))).where(is_model).subquery()
    losing = _losing(metrics, num_without=num_without)
    known = select(every).where(every.c.key.in_(losing)).subquery()
    where = (run.c.number.label("run"), known.c.number.label("case"))
    what = case(_numbers(metrics), value=MeasurementTable.c.metric)
    return union_all(
        select(*where, literal(_IS_OK).label("metric"))
        .select_from(CaseResultTable)
        .join(run, run.c.id == CaseResultTable.c.run_id)
        .join(known, known.c.key == CaseResultTable.c.case_key)
        .where(CaseResultTable.c.outcome == str(Outcome.OK), does_count(CaseResultTable.c.id)),
        select(*where, what)
        .select_from(MeasurementTable)
        .join(run, run.c.id == MeasurementTable.c.run_id)
        .join(known, known.c.key == MeasurementTable.c.case_key)
        .where(MeasurementTable.c.metric.in_(metrics), does_count(MeasurementTable.c.result_id)),
    )


def _number(order: Sequence[ColumnElement[Any]]) -> ColumnElement[int]:
    return (func.row_number().over(order_by=order) - 1).label("number")


def _losing(metrics: Sequence[str], *, num_without: int) -> Select[tuple[str]]:
    """Return the query of the cases that have `num_without` or more results without a metric.

    Superseded results count with the metrics that they had; only ok results have any.
    """
    ok = (
        select(CaseResultTable.c.case_key, func.count().label("num"))
        .where(CaseResultTable.c.outcome == str(Outcome.OK))
        .group_by(CaseResultTable.c.case_key)
        .subquery()
    )
    has = (
        select(MeasurementTable.c.case_key, func.count().label("num"))
        .where(MeasurementTable.c.metric.in_(metrics))
        .group_by(MeasurementTable.c.case_key, MeasurementTable.c.metric)
        .subquery()
    )
    return (
        select(ok.c.case_key)
        .join(has, has.c.case_key == ok.c.case_key)
        .where(ok.c.num - has.c.num >= num_without)
    )


def _run_fields(run: Run) -> dict[str, Any]:
    """Return the fields of an outcome point that describe its run."""
    return {
        "run_id": run.id,
        "revision": run.revision,
        "at": run.started_at,
        "suite": run.suite,
        "run_state": run.state,
        "fingerprint": run.fingerprint,
    }


def load_outcomes(
    store: Store, *, limit_runs: int | None = None, case_key: str | None = None
) -> tuple[OutcomeHistory, ...]:
    """Return the outcomes of every planned case, or the named one, in the newest `limit_runs`.

    Histories are separate by machine, toolchain and case.
    """
    newest = select(RunTable).order_by(*NEWEST_RUN).limit(limit_runs)
    with store.read() as connection:
        runs = read_runs(connection, newest)
        conditions = [is_of_runs([(run.id, run.started_at) for run in runs])]
        if case_key is not None:
            conditions.append(CaseResultTable.c.case_key == case_key)
        last = last_results(*conditions)
        ended = {
            (row.run_id, row.case_key): (row.id, Outcome(row.outcome), row.is_deferred)
            for row in connection.execute(
                select(
                    last.c.id,
                    last.c.run_id,
                    last.c.case_key,
                    last.c.outcome,
                    is_deferred(last).label("is_deferred"),
                )
            )
        }
    cases: dict[str, Case] = {}
    points: dict[tuple[str, str, str], list[OutcomePoint]] = defaultdict(list)
    # Hundreds of runs share a plan of a thousand cases.
    plans = {id(run.plan): run.plan for run in runs}
    planned = {
        number: {case.key: case for case in plan if case_key in (None, case.key)}
        for number, plan in plans.items()
    }
    for run in reversed(runs):
        facts = _run_fields(run)
        for key, planned_case in planned[id(run.plan)].items():
            cases[key] = planned_case
            result_id, outcome, deferred = ended.get((run.id, key), (None, None, False))
            points[run.machine, run.toolchain, key].append(
                OutcomePoint(**facts, result_id=result_id, outcome=outcome, is_deferred=deferred)
            )
    return tuple(
        OutcomeHistory(
            case=cases[key],
            machine=machine,
            toolchain=toolchain,
            points=tuple(points[machine, toolchain, key]),
        )
        for machine, toolchain, key in sorted(points)
    )

"""Queries of the results of the compile modes over the runs of a machine in a toolchain."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np
from sqlalchemy import ColumnElement, Select, Subquery, and_, case, func, not_, select
from sqlalchemy.engine import Connection

from compile_hud.db.alerts.annotations import Annotation, load_annotations
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import MODES, REFERENCE_FAMILY, Case, Outcome, same_code_as
from compile_hud.db.records.summaries import HistoryRun, ResultHistory
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.columns import numpy_columns, read_rows
from compile_hud.db.rows.mapping import case_record
from compile_hud.db.rows.sql_expressions import OLDEST_RUN, does_count, is_deferred
from compile_hud.db.schema.tables import (
    CaseResultTable,
    CaseTable,
    LatestMeasurementTable,
    LatestResultTable,
    MeasurementTable,
    RunTable,
)
from compile_hud.db.shared.model_code import MODEL_COMMITS
from compile_hud.db.store import Store

# A case that was not measured for longer before the range, and is measured in it, joins there.
LEAD: Final = timedelta(days=30)
_OUTCOMES: Final = {str(outcome): number for number, outcome in enumerate(Outcome)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendInputs:
    """A history with the alerts and annotations that its trends mark.

    `environments` has the facts of the two runs at each change of the environment, by run.
    """

    history: ResultHistory
    alerts: tuple[Alert, ...]
    annotations: tuple[Annotation, ...]
    environments: Mapping[str, Mapping[str, Any]]


def load_trend_inputs(
    store: Store, *, machine: str, toolchain: str, since: datetime, metrics: Sequence[str]
) -> TrendInputs:
    """Return the history from `since` on, with the alerts of its scope and all annotations."""
    with store.reading():
        history = load_result_history(
            store, machine=machine, toolchain=toolchain, since=since, metrics=metrics
        )
        alerts = load_alerts(store)
        annotations = load_annotations(store)
        environments = _load_environments(
            store,
            {
                run.id
                for pair in pairwise(history.runs)
                for run in pair
                if pair[0].fingerprint != pair[1].fingerprint
            },
        )
    return TrendInputs(
        history=history,
        alerts=tuple(
            alert for alert in alerts if (alert.machine, alert.toolchain) == (machine, toolchain)
        ),
        annotations=annotations,
        environments=environments,
    )


def load_result_history(
    store: Store, *, machine: str, toolchain: str, since: datetime, metrics: Sequence[str]
) -> ResultHistory:
    """Return the results of eager and the modes of torch.compile in the runs from `since` on.

    The runs of LEAD before `since` come first: results stay valid until the next one. The first row
    has the newest results of the cases that no later run measured. Reference cases, own variants
    and deferrals are left out.
    """
    start = since - LEAD
    here = (
        (RunTable.c.machine == machine)
        & (RunTable.c.toolchain == toolchain)
        & (RunTable.c.started_at >= start)
    )
    with store.read() as connection:
        runs = _runs(connection, here)
        compared = _compared(machine, toolchain)
        query = select(CaseTable).where(compared).order_by(CaseTable.c.key)
        cases = tuple(map(case_record, read_rows(connection, query)))
        shape = (1 + len(runs), len(cases))
        history = ResultHistory(
            machine=machine,
            toolchain=toolchain,
            runs=runs,
            cases=cases,
            outcomes=np.full(shape, -1, dtype=np.int8),
            sources=np.full(shape, -1, dtype=np.int32),
            values={name: np.full((3, *shape), np.nan) for name in metrics},
            num_before=sum(run.at < since for run in runs),
        )
        _fill_older(connection, history, start=start)
        _fill_results(connection, history, here=here, start=start)
        _fill_measurements(connection, history, here=here, start=start)
    return history


def _load_environments(store: Store, run_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return the facts of the environment of each of these runs, by run."""
    environments: dict[str, Mapping[str, Any]] = {}
    query = select(RunTable.c.id, RunTable.c.environment)
    with store.read() as connection:
        for ids in batches(run_ids):
            rows = connection.execute(query.where(RunTable.c.id.in_(ids)))
            environments |= {row.id: row.environment for row in rows}
    return environments


def _runs(connection: Connection, here: ColumnElement[bool]) -> tuple[HistoryRun, ...]:
    commits = RunTable.c.environment[MODEL_COMMITS].as_string().label("commits")
    query = select(
        RunTable.c.id,
        RunTable.c.started_at,
        RunTable.c.suite,
        RunTable.c.revision,
        RunTable.c.fingerprint,
        commits,
    )
    return tuple(
        HistoryRun(
            id=row.id,
            at=row.started_at,
            suite=row.suite,
            revision=row.revision,
            fingerprint=row.fingerprint,
            model_commits=_commits(row.commits),
        )
        for row in read_rows(connection, query.where(here).order_by(*OLDEST_RUN))
    )


def _commits(text: str | None) -> Mapping[str, Any]:
    # An import may have any text there.
    with contextlib.suppress(ValueError):
        known = json.loads(text or "null")
        if isinstance(known, dict):
            return known
    return {}


def _compared(machine: str, toolchain: str) -> ColumnElement[bool]:
    """Return the condition that a case is of a mode and has a result in the scope."""
    latest = LatestResultTable.c
    measured = select(latest.case_key).where(
        latest.machine == machine, latest.toolchain == toolchain
    )
    return and_(
        CaseTable.c.variant.in_(MODES),
        CaseTable.c.family != REFERENCE_FAMILY,
        CaseTable.c.key.in_(measured),
    )


def _fill_older(connection: Connection, history: ResultHistory, *, start: datetime) -> None:
    """Write the newest results that are older than `start` into the first row."""
    columns = _columns(history)
    results, measured = LatestResultTable.c, LatestMeasurementTable.c
    older = select(results.case_key, results.outcome, results.reason).where(
        results.machine == history.machine,
        results.toolchain == history.toolchain,
        results.run_started_at < start,
    )
    keys = set()
    for row in read_rows(connection, older):
        if row.case_key in columns:
            keys.add(row.case_key)
            column = columns[row.case_key]
            history.outcomes[0, column] = _OUTCOMES[row.outcome]
            history.sources[0, column] = _source(
                columns, history.cases[column], row.outcome, row.reason
            )
    if not keys:
        return
    numbers = select(
        measured.case_key, measured.metric, measured.median, measured.low, measured.high
    ).where(
        measured.machine == history.machine,
        measured.toolchain == history.toolchain,
        measured.metric.in_(list(history.values)),
    )
    for row in read_rows(connection, numbers):
        if row.case_key in keys:
            estimate = (row.median, row.low, row.high)
            history.values[row.metric][:, 0, columns[row.case_key]] = estimate


def _fill_results(
    connection: Connection,
    history: ResultHistory,
    *,
    here: ColumnElement[bool],
    start: datetime,
) -> None:
    outcome = case(_OUTCOMES, value=CaseResultTable.c.outcome)
    query = _numbered(CaseResultTable, history, here, outcome).where(
        # No result ends before its run begins, so older blocks need no look.
        CaseResultTable.c.finished_at >= start,
        does_count(CaseResultTable.c.id),
        not_(is_deferred(CaseResultTable)),
    )
    rows, columns, outcomes = (item.astype(np.int64) for item in numpy_columns(connection, query))
    history.outcomes[rows, columns] = outcomes
    run, compared = _numbers(history, here)
    same = (
        select(run.c.row, compared.c.number, CaseResultTable.c.reason)
        .select_from(CaseResultTable)
        .join(run, run.c.id == CaseResultTable.c.run_id)
        .join(compared, compared.c.key == CaseResultTable.c.case_key)
        .where(
            CaseResultTable.c.finished_at >= start,
            CaseResultTable.c.outcome == str(Outcome.SAME_CODE),
            does_count(CaseResultTable.c.id),
        )
    )
    columns_of_cases = _columns(history)
    for row, column, reason in connection.execute(same):
        own = history.cases[column]
        history.sources[row, column] = _source(columns_of_cases, own, Outcome.SAME_CODE, reason)


def _fill_measurements(
    connection: Connection,
    history: ResultHistory,
    *,
    here: ColumnElement[bool],
    start: datetime,
) -> None:
    numbers = {name: number for number, name in enumerate(history.values)}
    if not numbers:
        return
    measured = MeasurementTable.c
    query = _numbered(
        MeasurementTable,
        history,
        here,
        case(numbers, value=measured.metric),
        measured.median,
        measured.low,
        measured.high,
    ).where(
        measured.run_started_at >= start,
        measured.metric.in_(list(numbers)),
        does_count(measured.result_id),
    )
    indices, estimates = _split(numpy_columns(connection, query))
    rows, columns, metrics = indices
    for name, number in numbers.items():
        own = metrics == number
        history.values[name][:, rows[own], columns[own]] = estimates[:, own]


def _split(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.vstack([column.astype(np.int64) for column in columns[:3]]),
        np.vstack([column.astype(float) for column in columns[3:]]),
    )


def _numbered(
    table: Any, history: ResultHistory, here: ColumnElement[bool], *columns: Any
) -> Select[Any]:
    """Return the query of row, column and `columns` of the rows of `table`."""
    run, compared = _numbers(history, here)
    return (
        select(run.c.row, compared.c.number, *columns)
        .select_from(table)
        .join(run, run.c.id == table.c.run_id)
        .join(compared, compared.c.key == table.c.case_key)
    )


def _numbers(history: ResultHistory, here: ColumnElement[bool]) -> tuple[Subquery, Subquery]:
    """Return the numbers of the runs, whose row 0 is that of older ones, and of the cases."""
    run = select(RunTable.c.id, func.row_number().over(order_by=OLDEST_RUN).label("row"))
    number = func.row_number().over(order_by=CaseTable.c.key) - 1
    compared = select(CaseTable.c.key, number.label("number")).where(
        _compared(history.machine, history.toolchain)
    )
    return run.where(here).subquery(), compared.subquery()


def _columns(history: ResultHistory) -> dict[str, int]:
    return {item.key: column for column, item in enumerate(history.cases)}


def _source(columns: Mapping[str, int], own: Case, outcome: str, reason: str) -> int:
    """Return the column of the variant that was measured instead of a case, -1 for none."""
    variant = same_code_as(Outcome(outcome), reason)
    return columns.get(dataclasses.replace(own, variant=variant).key, -1) if variant else -1

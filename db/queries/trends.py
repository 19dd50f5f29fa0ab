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
from sqlalchemy import ColumnElement, Subquery, and_, case, func, or_, select
from sqlalchemy.engine import Connection

from compile_hud.db.alerts.annotations import Annotation, load_annotations
from compile_hud.db.queries.alerts import load_alerts_of_scope
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import MODES, REFERENCE_FAMILY, Case, Outcome, same_code_as
from compile_hud.db.records.summaries import HistoryRun, ResultHistory
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.columns import numpy_batches, read_rows
from compile_hud.db.rows.mapping import case_record
from compile_hud.db.rows.sql_expressions import OLDEST_RUN, TREND_COLUMNS
from compile_hud.db.schema.tables import (
    CaseTable,
    LatestMeasurementTable,
    LatestResultTable,
    RunTable,
    TrendResultTable,
)
from compile_hud.db.shared.model_code import MODEL_COMMITS
from compile_hud.db.store import Store

# A case that was not measured for longer before the range, and is measured in it, joins there.
LEAD: Final = timedelta(days=30)
_OUTCOMES: Final = {str(outcome): number for number, outcome in enumerate(Outcome)}
_VARIANTS: Final = {variant: number for number, variant in enumerate(MODES)}


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
        alerts = load_alerts_of_scope(store, machine=machine, toolchain=toolchain)
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
        alerts=alerts,
        annotations=annotations,
        environments=environments,
    )


def load_result_history(
    store: Store, *, machine: str, toolchain: str, since: datetime, metrics: Sequence[str]
) -> ResultHistory:
    """Return the results of eager and the modes of torch.compile in the runs from `since` on.

    `metrics` are some of MODE_METRICS. The runs of LEAD before `since` come first: results stay
    valid until the next one. The first row has the newest results of the cases that no later run
    measured. Reference cases, own variants and deferrals are left out.
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
            fallbacks=np.full(shape, -1, dtype=np.int32),
            values={name: np.full((3, *shape), np.nan) for name in metrics},
            num_before=sum(run.at < since for run in runs),
        )
        _fill_older(connection, history, start=start)
        _fill_results(connection, history, here=here, start=start)
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
        RunTable.c.is_synthetic,
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
            is_synthetic=bool(row.is_synthetic),
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
    older = select(results.case_key, results.outcome, results.reason, results.effective_mode).where(
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
            own = history.cases[column]
            variant = same_code_as(Outcome(row.outcome), row.reason)
            history.sources[0, column] = _source(columns, own, variant)
            history.fallbacks[0, column] = _fallback(own, row.effective_mode)
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
    connection: Connection, history: ResultHistory, *, here: ColumnElement[bool], start: datetime
) -> None:
    """Write the results of the runs from `start` on into their rows."""
    stored = TrendResultTable.c
    run, compared = _numbers(history, here)
    num_cases = len(history.cases)
    parts = [
        (values[part].reshape(-1), stored[column])
        for metric, values in history.values.items()
        for part, column in enumerate(TREND_COLUMNS[metric])
    ]
    query = (
        select(
            run.c.row * num_cases + compared.c.number,
            case(_OUTCOMES, value=stored.outcome),
            _fallback_number(stored.effective_mode, compared.c.mode),
            case(_VARIANTS, value=stored.same_code_as, else_=-1),
            *(column for _, column in parts),
        )
        .select_from(TrendResultTable)
        .join(run, run.c.id == stored.run_id)
        .join(compared, compared.c.key == stored.case_key)
        # Rows lie in the order of the runs, so DuckDB skips those of older runs.
        .where(stored.run_started_at >= start)
    )
    for numbers, outcomes, fallbacks, variants, *columns in numpy_batches(connection, query):
        cells = numbers.astype(np.int64)
        history.outcomes.reshape(-1)[cells] = outcomes
        history.fallbacks.reshape(-1)[cells] = fallbacks
        is_same = variants >= 0
        if is_same.any():
            same = cells[is_same]
            sources = _sources(history, same % num_cases, variants[is_same].astype(np.int64))
            history.sources.reshape(-1)[same] = sources
        for (values, _), column in zip(parts, columns, strict=True):
            values[cells] = column


def _sources(history: ResultHistory, columns: np.ndarray, variants: np.ndarray) -> np.ndarray:
    """Return the column of the variant, by its number, that was measured instead of each case."""
    by_key = _columns(history)
    pairs, inverse = np.unique(columns * len(MODES) + variants, return_inverse=True)
    known = [
        _source(by_key, history.cases[pair // len(MODES)], MODES[pair % len(MODES)])
        for pair in pairs.tolist()
    ]
    return np.array(known, dtype=np.int32)[inverse]


def _fallback_number(ran: ColumnElement[str], mode: ColumnElement[str]) -> ColumnElement[int]:
    """Return the same number as `_fallback`."""
    is_own = or_(ran == "", ran == mode)
    modes = [(ran == name, number) for number, name in enumerate(MODES[1:])]
    return case((is_own, -1), *modes, else_=len(modes))


def _numbers(history: ResultHistory, here: ColumnElement[bool]) -> tuple[Subquery, Subquery]:
    """Return the numbers of the runs, whose row 0 is that of older ones, and of the cases."""
    run = select(RunTable.c.id, func.row_number().over(order_by=OLDEST_RUN).label("row"))
    number = func.row_number().over(order_by=CaseTable.c.key) - 1
    compared = select(CaseTable.c.key, CaseTable.c.mode, number.label("number")).where(
        _compared(history.machine, history.toolchain)
    )
    return run.where(here).subquery(), compared.subquery()


def _columns(history: ResultHistory) -> dict[str, int]:
    return {item.key: column for column, item in enumerate(history.cases)}


def _source(columns: Mapping[str, int], own: Case, variant: str) -> int:
    """Return the column of the `variant` that was measured instead of a case, -1 for none."""
    return columns.get(dataclasses.replace(own, variant=variant).key, -1) if variant else -1


def _fallback(own: Case, mode: str) -> int:
    """Return the number of the mode that ran instead of that of a case, -1 for none."""
    if mode in ("", own.mode):
        return -1
    modes = MODES[1:]
    return modes.index(mode) if mode in modes else len(modes)

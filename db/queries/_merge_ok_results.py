"""Which ok results have which metrics: of cases whose results do not all have one, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    case,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute

from compile_hud.db.queries import common as fetch
from compile_hud.db.records.results import REFERENCE_FAMILY, Outcome
from compile_hud.db.records.summaries import OkResults, PlannedRun
from compile_hud.db.rows.columns import numpy_columns
from compile_hud.db.schema.tables import CaseResultTable, CaseTable, MeasurementTable, RunTable
from compile_hud.db.store import Store

# What a row says of a result: that it is ok, or from 1 on which metric it has.
_IS_OK: Final = 0


def load_ok_results(
    store: Store, *, runs: Sequence[PlannedRun], metrics: Sequence[str], num_without: int
) -> OkResults:
    """Return all ok results of the cases of which `num_without` or more lack one of `metrics`.

    `runs` are all runs, oldest first. Of a result that was measured again in its run the last
    counts. Left out are reference cases, and those that never had any of the metrics.
    """
    places = {run.id: place for place, run in enumerate(runs)}
    is_model = CaseTable.family != REFERENCE_FAMILY
    with store.read() as connection:
        ids = connection.execute(select(RunTable.id).order_by(*fetch.OLDEST_RUN)).scalars().all()
        keys = select(CaseTable.key).where(is_model).order_by(CaseTable.key)
        case_keys = connection.execute(keys).scalars().all()
        wanted = _cells(metrics, is_model=is_model, num_without=num_without)
        columns = [item.astype(np.int64) for item in numpy_columns(connection, wanted)]
    # A run that began since `runs` were read is not one of them.
    place_of = np.array([places.get(id, -1) for id in ids], dtype=np.int64)
    run_numbers, case_numbers, said = place_of[columns[0]], columns[1], columns[2]
    cells = run_numbers * len(case_keys) + case_numbers
    is_ok = (said == _IS_OK) & (run_numbers >= 0)
    has = [np.isin(cells[is_ok], cells[said == number]) for number in _numbers(metrics).values()]
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
    """Return the query of run, case and what is said of the result, all as numbers.

    Results and measurements are read one after the other: joined by the ids of the results they
    would take half as long again.
    """
    run = select(RunTable.id, _number(fetch.OLDEST_RUN)).subquery()
    every = select(CaseTable.key, _number((CaseTable.key,))).where(is_model).subquery()
    losing = _losing(metrics, num_without=num_without)
    known = select(every).where(every.c.key.in_(losing)).subquery()
    where = (run.c.number.label("run"), known.c.number.label("case"))
    what = case(_numbers(metrics), value=MeasurementTable.metric)
    return union_all(
        select(*where, literal(_IS_OK).label("said"))
        .select_from(CaseResultTable)
        .join(run, run.c.id == CaseResultTable.run_id)
        .join(known, known.c.key == CaseResultTable.case_key)
        .where(CaseResultTable.outcome == str(Outcome.OK), fetch.does_count(CaseResultTable.id)),
        select(*where, what)
        .select_from(MeasurementTable)
        .join(run, run.c.id == MeasurementTable.run_id)
        .join(known, known.c.key == MeasurementTable.case_key)
        .where(MeasurementTable.metric.in_(metrics), fetch.does_count(MeasurementTable.result_id)),
    )


def _number(order: Sequence[InstrumentedAttribute[Any]]) -> ColumnElement[int]:
    return (func.row_number().over(order_by=order) - 1).label("number")


def _losing(metrics: Sequence[str], *, num_without: int) -> Select[tuple[str]]:
    """Return the query of the cases of which so many results lack a metric that others have.

    Results that were measured again are among them, with what they had: only ok ones have any.
    """
    ok = (
        select(CaseResultTable.case_key, func.count().label("num"))
        .where(CaseResultTable.outcome == str(Outcome.OK))
        .group_by(CaseResultTable.case_key)
        .subquery()
    )
    has = (
        select(MeasurementTable.case_key, func.count().label("num"))
        .where(MeasurementTable.metric.in_(metrics))
        .group_by(MeasurementTable.case_key, MeasurementTable.metric)
        .subquery()
    )
    return (
        select(ok.c.case_key)
        .join(has, has.c.case_key == ok.c.case_key)
        .where(ok.c.num - has.c.num >= num_without)
    )

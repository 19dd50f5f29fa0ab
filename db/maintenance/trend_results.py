"""Compare the summary that trends read with the stored results, and write it anew from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Select, case, delete, func, insert, literal, not_, select, union_all
from sqlalchemy.engine import Connection

from compile_hud.db.records.results import MODES, SAME_CODE_AS, Outcome
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.sql_expressions import (
    ESTIMATE_COLUMNS,
    OLDEST_RUN,
    TREND_COLUMNS,
    does_count,
    is_deferred,
)
from compile_hud.db.schema.tables import (
    CaseResultTable,
    CaseTable,
    MeasurementTable,
    RunTable,
    TrendResultTable,
)


def find_wrong_trend_results(connection: Connection) -> dict[str, int]:
    """Return the number of wrong, missing and surplus rows of each run that has some."""
    runs = connection.execute(select(RunTable.c.id).order_by(*OLDEST_RUN)).scalars()
    return {
        row.run_id: row.number for some in batches(runs) for row in connection.execute(_wrong(some))
    }


def rewrite_trend_results(connection: Connection, run_ids: Iterable[str]) -> None:
    """Write the rows of these runs anew from the stored results."""
    columns = [column.name for column in TrendResultTable.c]
    for some in batches(run_ids):
        connection.execute(delete(TrendResultTable).where(TrendResultTable.c.run_id.in_(some)))
        connection.execute(insert(TrendResultTable).from_select(columns, _from_results(some)))


def _wrong(run_ids: Sequence[str]) -> Select[tuple[str, int]]:
    """Return the query of the runs whose rows differ, with the number of cases."""
    results = _from_results(run_ids).subquery()
    stored = TrendResultTable.c
    # A row that is the same on both sides adds up to 0.
    both = union_all(
        select(*results.c, literal(1).label("number")),
        select(*stored, literal(-1).label("number")).where(stored.run_id.in_(run_ids)),
    ).subquery()
    columns = [both.c[column.name] for column in stored]
    unequal = (
        select(both.c.run_id, both.c.case_key)
        .group_by(*columns)
        .having(func.sum(both.c.number) != 0)
        .subquery()
    )
    num_cases = func.count(unequal.c.case_key.distinct()).label("number")
    return select(unequal.c.run_id, num_cases).group_by(unequal.c.run_id)


def _from_results(run_ids: Sequence[str]) -> Select[Any]:
    """Return the query of the rows that these runs should have, in the order of the table."""
    results, measured = CaseResultTable.c, MeasurementTable.c
    modes = select(CaseTable.c.key).where(CaseTable.c.variant.in_(MODES))
    numbers = (
        select(
            measured.run_id,
            measured.case_key,
            *(
                func.max(case((measured.metric == metric, measured[part]))).label(column)
                for metric, columns in TREND_COLUMNS.items()
                for part, column in zip(ESTIMATE_COLUMNS, columns, strict=True)
            ),
        )
        .where(
            measured.run_id.in_(run_ids),
            measured.metric.in_(list(TREND_COLUMNS)),
            measured.case_key.in_(modes),
            does_count(measured.result_id),
        )
        .group_by(measured.run_id, measured.case_key)
        .subquery()
    )
    is_same = results.outcome == str(Outcome.SAME_CODE)
    variant = case(
        (
            results.reason.startswith(SAME_CODE_AS),
            func.substr(results.reason, len(SAME_CODE_AS) + 1),
        ),
        else_=results.reason,
    )
    return (
        select(
            results.run_id,
            results.case_key,
            RunTable.c.started_at.label("run_started_at"),
            results.outcome,
            results.effective_mode,
            case((is_same, variant), else_="").label("same_code_as"),
            *(numbers.c[column] for columns in TREND_COLUMNS.values() for column in columns),
        )
        .join(RunTable, RunTable.c.id == results.run_id)
        .outerjoin(
            numbers,
            (numbers.c.run_id == results.run_id) & (numbers.c.case_key == results.case_key),
        )
        .where(
            results.run_id.in_(run_ids),
            results.case_key.in_(modes),
            does_count(results.id),
            not_(is_deferred(CaseResultTable)),
        )
    )

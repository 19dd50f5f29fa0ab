"""SQL expressions that several queries share: orders, columns and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Subquery, Table, and_, false, select

from compile_hud.db.records.metrics import MODE_METRICS
from compile_hud.db.records.results import DEFERRED, Outcome
from compile_hud.db.schema.tables import (
    CaseResultColumns,
    CaseResultTable,
    CaseTable,
    RunTable,
    SupersededTable,
)

# So few rows are looked up one by one.
FEW: Final = 8
OLDEST_RUN: Final = (RunTable.c.started_at, RunTable.c.id)
NEWEST_RUN: Final = (RunTable.c.started_at.desc(), RunTable.c.id.desc())
LAST_RESULT: Final = (CaseResultTable.c.finished_at.desc(), CaseResultTable.c.id.desc())

# The columns of a median and its interval.
ESTIMATE_COLUMNS: Final = ("median", "low", "high")
# The columns of `trend_results` with these, by metric.
TREND_COLUMNS: Final = {
    metric: (metric, f"{metric}_low", f"{metric}_high") for metric in MODE_METRICS
}
CASE_COLUMNS: Final = tuple(column for column in CaseTable.c if column.name != "key")
RUN_COLUMNS: Final = (
    RunTable.c.started_at.label("run_started_at"),
    RunTable.c.revision,
    RunTable.c.toolchain,
    RunTable.c.machine,
    RunTable.c.fingerprint,
)


def is_deferred(results: Subquery | Table[CaseResultColumns]) -> ColumnElement[bool]:
    """Return the condition that the run of a result had no time left for its case."""
    is_skipped = results.c.outcome == str(Outcome.SKIPPED)
    return and_(is_skipped, results.c.reason.startswith(DEFERRED))


def last_results(*where: ColumnElement[bool]) -> Subquery:
    """Return the results that count: the last of each case in each run."""
    counts = does_count(CaseResultTable.c.id)
    return select(CaseResultTable).where(*where, counts).subquery()


def is_of_runs(runs: Sequence[tuple[str, datetime]]) -> ColumnElement[bool]:
    """Return the condition that a result is of one of `runs`, given by id and start."""
    if not runs:
        return false()
    # No result ends before its run begins, so older results need no look.
    return and_(
        CaseResultTable.c.run_id.in_([run_id for run_id, _ in runs]),
        CaseResultTable.c.finished_at >= min(start for _, start in runs),
    )


def each_of(column: ColumnElement[str], values: Sequence[str]) -> list[ColumnElement[bool]]:
    """Return the conditions that `column` is one of `values`: one for each of a few values."""
    # DuckDB skips blocks of rows for one value; for a list it reads all.
    return [column == value for value in values] if len(values) <= FEW else [column.in_(values)]


def does_count(result_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a result was not superseded in its run."""
    return result_id.not_in(select(SupersededTable.c.result_id))


def with_case(results: Subquery) -> Select[Any]:
    """Return the query of `results` with the parts of their cases."""
    columns = [column for column in results.c if column.name != "id"]
    return select(results.c.id.label("result_id"), *columns, *CASE_COLUMNS).join(
        CaseTable, CaseTable.c.key == results.c.case_key
    )

"""SQL expressions that several queries share: orders, columns and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Subquery, and_, false, select
from sqlalchemy.orm import InstrumentedAttribute

from compile_hud.db.records.results import DEFERRED, Outcome
from compile_hud.db.schema.tables import CaseResultTable, CaseTable, RunTable, SupersededTable

# So few rows are looked up one by one.
FEW: Final = 8
OLDEST_RUN: Final = (RunTable.started_at, RunTable.id)
NEWEST_RUN: Final = (RunTable.started_at.desc(), RunTable.id.desc())
LAST_RESULT: Final = (CaseResultTable.finished_at.desc(), CaseResultTable.id.desc())


CASE_COLUMNS: Final = tuple(column for column in CaseTable.__table__.c if column.name != "key")
RUN_COLUMNS: Final = (
    RunTable.started_at.label("run_started_at"),
    RunTable.revision,
    RunTable.toolchain,
    RunTable.machine,
    RunTable.fingerprint,
)


def is_deferred(results: Subquery | type[CaseResultTable]) -> ColumnElement[bool]:
    """Return the condition that the run of a result had no time left for its case."""
    columns = results.c if isinstance(results, Subquery) else results
    return and_(columns.outcome == str(Outcome.SKIPPED), columns.reason.startswith(DEFERRED))


def last_results(*where: ColumnElement[bool]) -> Subquery:
    """Return the results that count: the last of each case in each run."""
    counts = does_count(CaseResultTable.id)
    return select(CaseResultTable.__table__).where(*where, counts).subquery()


def is_of_runs(runs: Sequence[tuple[str, datetime]]) -> ColumnElement[bool]:
    """Return the condition that a result is of one of `runs`, given by id and start."""
    if not runs:
        return false()
    # No result ends before its run begins, so older results need no look.
    return and_(
        CaseResultTable.run_id.in_([run_id for run_id, _ in runs]),
        CaseResultTable.finished_at >= min(start for _, start in runs),
    )


def each_of(column: InstrumentedAttribute[str], values: Sequence[str]) -> list[ColumnElement[bool]]:
    """Return the conditions that `column` is one of `values`: one for each of a few values."""
    # DuckDB skips blocks of rows for one value; for a list it reads all.
    return [column == value for value in values] if len(values) <= FEW else [column.in_(values)]


def does_count(result_id: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Return the condition that a result was not superseded in its run."""
    return result_id.not_in(select(SupersededTable.result_id))


def with_case(results: Subquery) -> Select[Any]:
    """Return the query of `results` with the parts of their cases."""
    columns = [column for column in results.c if column.name != "id"]
    return select(results.c.id.label("result_id"), *columns, *CASE_COLUMNS).join(
        CaseTable, CaseTable.key == results.c.case_key
    )

"""Find and remove orphans: rows whose counterpart in another table is missing.

The rows that trends read are compared with the results that they summarise, and written anew.

Results are stored with all their rows in one transaction. Orphans appear only if a person deleted
rows by hand, or another program wrote to the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Table, and_, delete, exists, func, select

from compile_hud.db.maintenance.retention import newest_nights
from compile_hud.db.maintenance.trend_results import (
    find_wrong_trend_results,
    rewrite_trend_results,
)
from compile_hud.db.rows.batches import batches
from compile_hud.db.schema.tables import (
    AlertTable,
    CaseResultTable,
    CaseTable,
    EventTable,
    JudgedTable,
    KernelOriginsTable,
    KernelSourceTable,
    KernelTable,
    LatestMeasurementTable,
    LatestResultTable,
    MeasurementTable,
    PlanTable,
    RunTable,
    SampleTable,
    SeriesTable,
    SupersededTable,
    TrendResultTable,
)
from compile_hud.db.shared.model_sources import MODEL_LANGUAGE, MODEL_SOURCES
from compile_hud.db.store import Store

# The details are large: the store extracts a single text.
_TRACES: Final = select(
    CaseResultTable.c.id,
    CaseResultTable.c.details["profile"]["trace"].as_string().label("trace"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """A number of rows of a table; `text` describes them."""

    table: str
    num_rows: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Rows of `table` are orphans unless there is a row that meets `condition`.

    The rule is about the rows that meet `filter`, or about all.
    """

    table: Table
    condition: ColumnElement[bool]
    text: str
    filter: ColumnElement[bool] | None = None

    @property
    def is_orphan(self) -> ColumnElement[bool]:
        is_alone = ~exists().where(self.condition)
        return is_alone if self.filter is None else and_(self.filter, is_alone)


def _of_result(table: Table, what: str) -> _Rule:
    return _Rule(
        table=table,
        condition=CaseResultTable.c.id == table.c.result_id,
        text=f"{what} of results that are not there",
    )


# The order matters: a removed row may have been the reason for rows of the next rule.
_RULES: Final = (
    _Rule(
        table=CaseResultTable,
        condition=RunTable.c.id == CaseResultTable.c.run_id,
        text="results of runs that are not there",
    ),
    _Rule(
        table=CaseResultTable,
        condition=CaseTable.c.key == CaseResultTable.c.case_key,
        text="results of cases that nothing describes",
    ),
    _of_result(MeasurementTable, "measurements"),
    _of_result(SampleTable, "samples"),
    _of_result(KernelTable, "kernels"),
    _of_result(SupersededTable, "marks"),
    # The summary of the newest remaining result returns with the next measurement of the case.
    _of_result(LatestResultTable, "newest results"),
    _Rule(
        table=LatestMeasurementTable,
        condition=and_(
            LatestResultTable.c.machine == LatestMeasurementTable.c.machine,
            LatestResultTable.c.toolchain == LatestMeasurementTable.c.toolchain,
            LatestResultTable.c.case_key == LatestMeasurementTable.c.case_key,
        ),
        text="newest measurements of results that are not there",
    ),
    _Rule(
        table=TrendResultTable,
        condition=RunTable.c.id == TrendResultTable.c.run_id,
        text="results in trends of runs that are not there",
    ),
    _Rule(
        table=PlanTable,
        condition=RunTable.c.plan_hash == PlanTable.c.hash,
        text="plans that no run has",
    ),
    _Rule(
        table=SeriesTable,
        condition=MeasurementTable.c.series_key == SeriesTable.c.key,
        text="summaries of series without a point",
    ),
    _Rule(
        table=KernelSourceTable,
        condition=KernelTable.c.source_hash == KernelSourceTable.c.hash,
        text="generated code that no kernel has",
        filter=KernelSourceTable.c.language != MODEL_LANGUAGE,
    ),
    _Rule(
        table=KernelSourceTable,
        condition=RunTable.c.environment[MODEL_SOURCES]
        .as_string()
        .contains(KernelSourceTable.c.hash),
        text="code of models that no run has",
        filter=KernelSourceTable.c.language == MODEL_LANGUAGE,
    ),
    _Rule(
        table=KernelOriginsTable,
        condition=KernelTable.c.origins_hash == KernelOriginsTable.c.hash,
        text="origins that no kernel has",
    ),
    _Rule(
        table=JudgedTable,
        condition=CaseResultTable.c.case_key == JudgedTable.c.case_key,
        text="judgements of cases without a result",
    ),
    _Rule(
        table=EventTable,
        condition=AlertTable.c.event_id == EventTable.c.id,
        text="events without an alert",
    ),
)


def find_orphans(store: Store) -> tuple[Orphans, ...]:
    """Return the orphans by kind, empty for none."""
    with store.read() as connection:
        orphans = [
            Orphans(
                table=rule.table.name,
                num_rows=connection.execute(
                    select(func.count()).select_from(rule.table).where(rule.is_orphan)
                ).scalar_one(),
                text=rule.text,
            )
            for rule in _RULES
        ]
        wrong = find_wrong_trend_results(connection)
    orphans.append(
        Orphans(
            table=TrendResultTable.name,
            num_rows=sum(wrong.values()),
            text="results in trends that differ from the stored ones",
        )
    )
    return tuple(item for item in orphans if item.num_rows)


def find_named_traces(store: Store, *, num_nights: int) -> frozenset[str]:
    """Return the results of the newest `num_nights` nights that name a trace."""
    with store.read() as connection:
        run_ids = newest_nights(connection, num_nights=num_nights)
        return frozenset(
            row.id
            for some in batches(run_ids)
            for row in connection.execute(_TRACES.where(CaseResultTable.c.run_id.in_(some)))
            if row.trace
        )


def remove_orphans(store: Store) -> int:
    """Remove all orphans, and those that the removal creates, in one transaction; return the number
    of rows removed or written anew.
    """
    with store.write() as connection:
        num_removed = sum(
            len(
                connection.execute(
                    delete(rule.table)
                    .where(rule.is_orphan)
                    .returning(next(iter(rule.table.columns)))
                ).all()
            )
            for rule in _RULES
        )
        wrong = find_wrong_trend_results(connection)
        rewrite_trend_results(connection, wrong)
    return num_removed + sum(wrong.values())

"""Write imported histories into the tables: each result once, however often it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import insert, select, update
from sqlalchemy.engine import Connection

from compile_hud.db.ingest.results import put_documents, put_result
from compile_hud.db.records.results import Case, CaseResult, Run, RunDocument
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.mapping import plan_hash
from compile_hud.db.rows.plans import put_plan, read_runs, remove_unused_plan
from compile_hud.db.rows.results import read_results
from compile_hud.db.rows.sql_expressions import last_results
from compile_hud.db.schema.tables import CaseResultTable, IngestedTable, RunTable
from compile_hud.db.store import Store

# This merges a stored result and a later one of the same case and run.
Merge = Callable[[CaseResult, CaseResult], CaseResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The numbers of new results, of those that added to a stored one, and of known ones."""

    num_new: int = 0
    num_changed: int = 0
    num_known: int = 0

    def __add__(self, other: Imported) -> Imported:
        return Imported(
            num_new=self.num_new + other.num_new,
            num_changed=self.num_changed + other.num_changed,
            num_known=self.num_known + other.num_known,
        )


def was_imported(store: Store, content: str) -> bool:
    """Return whether a file of this content was imported completely."""
    query = select(IngestedTable.c.spool_id).where(IngestedTable.c.spool_id == content)
    with store.read() as connection:
        return connection.execute(query).first() is not None


def mark_imported(store: Store, content: str, *, at: datetime) -> None:
    """Record that a file of this content was imported completely."""
    with store.write() as connection:
        known = select(IngestedTable.c.spool_id).where(IngestedTable.c.spool_id == content)
        if connection.execute(known).first() is None:
            connection.execute(insert(IngestedTable).values(spool_id=content, ingested_at=at))


def known_runs(store: Store, run_ids: Sequence[str]) -> set[str]:
    """Return those of `run_ids` that are runs of the store."""
    with store.read() as connection:
        query = (select(RunTable.c.id).where(RunTable.c.id.in_(some)) for some in batches(run_ids))
        return {run_id for one in query for run_id in connection.execute(one).scalars()}


def put_imported(
    store: Store, documents: Sequence[RunDocument], *, at: datetime, merge: Merge
) -> Imported:
    """Insert the new results of `documents`, all or nothing; a second time changes nothing.

    A second result of a case in a run is merged with `merge`, and the run's plan grows by new
    cases. Raises MixedStoreError if the store has synthetic runs.
    """
    with store.write() as connection:
        ids = [document.run.id for document in documents]
        query = select(RunTable).where(RunTable.c.id.in_(ids))
        runs = {run.id: run for run in read_runs(connection, query)}
        fresh = [document for document in documents if document.run.id not in runs]
        done = Imported(num_new=put_documents(connection, fresh, at=at))
        for document in documents:
            if document.run.id in runs:
                run = _grown(connection, runs[document.run.id], plan=document.run.plan)
                done += _put_known(connection, run, document.results, at=at, merge=merge)
        return done


def _grown(connection: Connection, run: Run, *, plan: Sequence[Case]) -> Run:
    """Return `run` with the cases of `plan` added, in the store as well."""
    known = {case.key for case in run.plan}
    missing = [case for case in plan if case.key not in known]
    if not missing:
        return run
    grown = replace(run, plan=(*run.plan, *missing))
    before = connection.execute(
        select(RunTable.c.plan_hash).where(RunTable.c.id == run.id)
    ).scalar_one()
    put_plan(connection, grown.plan)
    values = {"plan_hash": plan_hash(grown.plan), "num_planned": len(grown.plan)}
    connection.execute(update(RunTable).where(RunTable.c.id == run.id).values(**values))
    remove_unused_plan(connection, before)
    return grown


def _put_known(
    connection: Connection, run: Run, results: Sequence[CaseResult], *, at: datetime, merge: Merge
) -> Imported:
    ids = set(
        connection.execute(
            select(CaseResultTable.c.id).where(CaseResultTable.c.run_id == run.id)
        ).scalars()
    )
    others = [result for result in results if result.id not in ids]
    if not others:
        return Imported(num_known=len(results))
    last = last_results(CaseResultTable.c.run_id == run.id)
    present = {item.case.key: item for item in read_results(connection, last)}
    done = Imported(num_known=len(results) - len(others))
    for result in others:
        before = present.get(result.case.key)
        merged = _moved(result, run) if before is None else merge(before, result)
        if before is not None and merged.id in ids:
            done += Imported(num_known=1)
            continue
        if before is not None:
            # The result that finished last counts.
            end = before.finished_at + timedelta(microseconds=1)
            merged = replace(merged, started_at=before.started_at, finished_at=end)
        put_result(connection, run, result=merged, spool_id=merged.id, at=at)
        done += Imported(num_new=int(before is None), num_changed=int(before is not None))
    return done


def _moved(result: CaseResult, run: Run) -> CaseResult:
    return replace(result, started_at=run.started_at, finished_at=run.started_at)

"""Write imported histories into the tables: each result once, however often it comes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.engine import Connection

from compile_hud.db.ingest.results import put_documents, put_result, stored_runs
from compile_hud.db.records.results import Case, CaseResult, Run, RunDocument
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.bulk_insert import put_rows
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


def imported_contents(store: Store, *, prefix: str) -> set[str]:
    """Return the contents that begin with `prefix` and whose file was imported completely."""
    column = IngestedTable.c.spool_id
    with store.read() as connection:
        return set(connection.execute(select(column).where(column.startswith(prefix))).scalars())


def known_runs(store: Store, run_ids: Sequence[str]) -> set[str]:
    """Return those of `run_ids` that are runs of the store."""
    if not run_ids:
        return set()
    with store.read() as connection:
        return stored_runs(connection, run_ids)


def put_imported(
    store: Store,
    documents: Sequence[RunDocument],
    *,
    at: datetime,
    merge: Merge,
    contents: Sequence[str] = (),
) -> tuple[Imported, ...]:
    """Insert the new results of `documents`, all or nothing; return the numbers of each document.

    A second time changes nothing. A second result of a case in a run is merged with `merge`, and
    the run's plan grows by new cases. `contents` are those of files that are imported completely
    with these documents. Raises MixedStoreError if the store has synthetic runs.
    """
    with store.write() as connection:
        known = stored_runs(connection, [document.run.id for document in documents])
        fresh = [document for document in documents if document.run.id not in known]
        put_documents(connection, fresh, at=at)
        ids = _result_ids(connection, known)
        done = []
        for document in documents:
            num_results = len(document.results)
            if document.run.id not in known:
                done.append(Imported(num_new=num_results))
            elif ids[document.run.id].issuperset(result.id for result in document.results):
                done.append(Imported(num_known=num_results))
            else:
                done.append(_put_known(connection, document, at=at, merge=merge))
        _mark_imported(connection, contents, at=at)
        return tuple(done)


def _result_ids(connection: Connection, run_ids: Collection[str]) -> dict[str, set[str]]:
    """Return the ids of the results of each run."""
    ids: dict[str, set[str]] = {run_id: set() for run_id in run_ids}
    columns = CaseResultTable.c.run_id, CaseResultTable.c.id
    for some in batches(run_ids):
        for run_id, result_id in connection.execute(select(*columns).where(columns[0].in_(some))):
            ids[run_id].add(result_id)
    return ids


def _mark_imported(connection: Connection, contents: Sequence[str], *, at: datetime) -> None:
    """Record that files of these contents were imported completely."""
    column = IngestedTable.c.spool_id
    known = {
        content
        for some in batches(contents)
        for content in connection.execute(select(column).where(column.in_(some))).scalars()
    }
    missing = [content for content in dict.fromkeys(contents) if content not in known]
    rows = [{"spool_id": content, "ingested_at": at} for content in missing]
    put_rows(connection, IngestedTable, rows)


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
    connection: Connection, document: RunDocument, *, at: datetime, merge: Merge
) -> Imported:
    (stored,) = read_runs(connection, select(RunTable).where(RunTable.c.id == document.run.id))
    run = _grown(connection, stored, plan=document.run.plan)
    results = document.results
    ids = _result_ids(connection, [run.id])[run.id]
    others = [result for result in results if result.id not in ids]
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

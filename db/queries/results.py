"""Queries of results: one short transaction a call, frozen records out.

A resumed run may measure a case more than once; the result that finished last counts everywhere.
All functions raise StoreLocked, StoreTooNew and StoreUnavailable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, select, tuple_

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.runs import read_run
from compile_hud.db.records.results import Case, CaseResult, Run, RunDocument
from compile_hud.db.records.summaries import ResultSummary, Sample
from compile_hud.db.rows.columns import read_rows, read_rows_of_each
from compile_hud.db.rows.kernels import read_kernels, with_kernels
from compile_hud.db.rows.plans import read_runs
from compile_hud.db.rows.results import read_results
from compile_hud.db.rows.sql_expressions import (
    FEW,
    does_count,
    last_results,
    with_case,
)
from compile_hud.db.rows.summaries import read_measurement_summaries, result_summary
from compile_hud.db.schema.tables import (
    CaseResultTable,
    CaseTable,
    KernelTable,
    RunTable,
    SampleTable,
)
from compile_hud.db.store import Store

# Variants of a case differ in none of them.
_VARIANT_FIELDS: Final = ("model", "phase", "shape", "dtype", "device")


def load_document(
    store: Store, run_id: str, *, has_kernels: bool = False, case_key: str = ""
) -> RunDocument:
    """Return a run with its results and all samples, in plan order; `run_id` as in `load_run`.

    Kernels and their code are most of the data; they are left out unless `has_kernels`. With
    `case_key` it has the variants of one case alone, as in `load_variants`.
    """
    with store.read() as connection:
        run = read_run(connection, run_id, store=store.name)
        last = last_results(CaseResultTable.c.run_id == run.id, *_is_variant_of(case_key))
        results = read_results(connection, last)
        if has_kernels:
            results = with_kernels(connection, results, stored=last)
    return RunDocument(run=run, results=tuple(sorted(results, key=plan_order(run))))


def load_profiled_document(store: Store, run_id: str) -> RunDocument:
    """Return a run with medians and kernels, without samples and code; `run_id` as in `load_run`.

    The code of a whole run is most of its data.
    """
    with store.read() as connection:
        run = read_run(connection, run_id, store=store.name)
        last = last_results(CaseResultTable.c.run_id == run.id)
        results = read_results(connection, last, has_samples=False)
        kernels = read_kernels(connection, [KernelTable.c.result_id.in_(select(last.c.id))])
    results = [replace(item, kernels=kernels.get(item.id, ())) for item in results]
    return RunDocument(run=run, results=tuple(sorted(results, key=plan_order(run))))


def load_variants(store: Store, names: Collection[tuple[str, str]]) -> dict[str, RunDocument]:
    """Return runs by id, each with the variants of its cases in `names`, in one transaction.

    `names` are ids of runs and keys of cases. Variants have the same model, phase, shape, dtype and
    device. They come with medians, kernels and code, without samples; unknown runs are left out.
    """
    if not names:
        return {}
    run_ids = {run_id for run_id, _ in names}
    columns = (CaseResultTable.c.run_id, *(CaseTable.c[name] for name in _VARIANT_FIELDS))
    values = {(run_id, *_variant_values(case_key)) for run_id, case_key in names}
    with store.read() as connection:
        runs = read_runs(connection, select(RunTable).where(RunTable.c.id.in_(run_ids)))
        last = last_results(
            CaseResultTable.c.run_id.in_([run.id for run in runs]),
            CaseTable.c.key == CaseResultTable.c.case_key,
            tuple_(*columns).in_(sorted(values)),
        )
        results = read_results(connection, last, has_samples=False)
        results = with_kernels(connection, results, stored=last)
    by_run: dict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        by_run[result.run_id].append(result)
    return {
        run.id: RunDocument(run=run, results=tuple(sorted(by_run[run.id], key=plan_order(run))))
        for run in runs
    }


def _variant_values(case_key: str) -> tuple[str, ...]:
    case = Case.parse_key(case_key)
    return tuple(str(getattr(case, name)) for name in _VARIANT_FIELDS)


def _is_variant_of(case_key: str) -> list[ColumnElement[bool]]:
    if not case_key:
        return []
    case, column = Case.parse_key(case_key), CaseResultTable.c.case_key
    prefix = f"{case.model}/{case.phase}/{case.shape}/{case.dtype}/"
    return [
        column.startswith(prefix, autoescape=True),
        column.endswith(f"/{case.device}", autoescape=True),
    ]


def load_result(store: Store, result_id: str) -> CaseResult:
    """Return one whole result; raise NotFoundError for an unknown id."""
    with store.read() as connection:
        query = select(CaseResultTable).where(CaseResultTable.c.id == result_id).subquery()
        results = read_results(connection, query)
        results = with_kernels(connection, results, stored=query)
    if not results:
        raise NotFoundError(
            f"no case result {result_id!r} in {store.name}", result=result_id, store=store.name
        )
    return results[0]


def load_result_summaries(store: Store, run_id: str) -> tuple[ResultSummary, ...]:
    """Return the results of a run without samples, in plan order; `run_id` as in `load_run`."""
    with store.read() as connection:
        run = read_run(connection, run_id, store=store.name)
        last = last_results(CaseResultTable.c.run_id == run.id)
        rows = read_rows(connection, with_case(last))
        measurements = read_measurement_summaries(connection, last)
    summaries = [result_summary(row, measurements) for row in rows]
    return tuple(sorted(summaries, key=plan_order(run)))


def load_details(
    store: Store, names: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the details of results by the id of their run and the key of their case.

    Runs and cases that the store does not have are left out. Nothing else of a run is read.
    """
    run_id, case_key = CaseResultTable.c.run_id, CaseResultTable.c.case_key
    each = sorted(set(names))
    # Few rows are looked up one by one, as in queries/kernels.py.
    conditions = (
        [and_(run_id == run, case_key == case) for run, case in each]
        if len(each) <= FEW
        else [tuple_(run_id, case_key).in_(each)]
    )
    query = select(run_id, case_key, CaseResultTable.c.details)
    query = query.where(does_count(CaseResultTable.c.id))
    with store.read() as connection:
        rows = read_rows_of_each(connection, query, conditions)
    return {(row.run_id, row.case_key): row.details for row in rows}


def load_samples(store: Store, result_id: str, metric: str) -> tuple[Sample, ...]:
    """Return the samples of a measurement, warm-ups first, in the order they were taken."""
    return load_samples_of(store, [result_id], metric).get(result_id, ())


def load_samples_of(
    store: Store, result_ids: Collection[str], metric: str
) -> dict[str, tuple[Sample, ...]]:
    """Return the samples of a metric by result, as `load_samples` does, without results that have
    none.
    """
    query = (
        select(SampleTable)
        .where(SampleTable.c.result_id.in_(result_ids), SampleTable.c.metric == metric)
        .order_by(SampleTable.c.is_warmup.desc(), SampleTable.c.position)
    )
    samples_by_result: dict[str, list[Sample]] = defaultdict(list)
    with store.read() as connection:
        for row in connection.execute(query):
            sample = Sample(value=row.value, launch=row.launch, is_warmup=row.is_warmup)
            samples_by_result[row.result_id].append(sample)
    return {result_id: tuple(samples) for result_id, samples in samples_by_result.items()}


def plan_order(run: Run) -> Any:
    """Return the sort key of results in the order of the plan, unplanned ones last."""
    index_of_case = {case.key: index for index, case in enumerate(run.plan)}

    def order(result: CaseResult | ResultSummary) -> tuple[int, str]:
        return (index_of_case.get(result.case.key, len(index_of_case)), result.case.key)

    return order

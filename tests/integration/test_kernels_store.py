"""Kernels and their code in every kind of store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text

from db import queries
from db.bulk import put_documents
from db.kernels import Kernel, KernelSource
from db.outcomes import load_ended
from db.records import CaseResult
from db.store import Store
from tests.builders import START, make_document, make_kernel, make_result, make_run

CODE = KernelSource(hash="a" * 64, language="cpp", text="void kernel() {}")
ADD = make_kernel(source_hash=CODE.hash)
GEMM = make_kernel("mkl_gemm", label="mkl_gemm", library="mkl", kind="gemm", mean_s=0.005)


def result_with(*kernels: Kernel, id: str = "result-1", run_id: str = "run-1") -> CaseResult:
    named = {kernel.source_hash for kernel in kernels}
    sources = [CODE] if CODE.hash in named else []
    return make_result(id, run=make_run(run_id), kernels=kernels, sources=sources)


def ingest(store: Store, result: CaseResult) -> bool:
    return store.ingest(make_run(result.run_id), result, spool_id=result.id)


def num_rows(store: Store, table: str) -> int:
    with store.read() as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def test_kernels_come_back_in_their_order_with_their_code(store: Store) -> None:
    result = result_with(ADD, GEMM, ADD)
    assert ingest(store, result)
    assert queries.load_result(store, result.id) == result
    assert queries.load_results(store, "run-1") == (result,)


def test_a_result_that_is_in_already_adds_no_kernel(store: Store) -> None:
    result = result_with(ADD, GEMM)
    assert ingest(store, result)
    assert not ingest(store, result)
    assert num_rows(store, "kernels") == 2


def test_code_is_kept_once_however_many_results_have_it(store: Store) -> None:
    ingest(store, result_with(ADD))
    documents = [
        make_document(make_run(run_id), results=[result_with(ADD, id=run_id, run_id=run_id)])
        for run_id in ("run-2", "run-3")
    ]
    with store.write() as session:
        assert put_documents(session, documents, at=START) == 2
    assert (num_rows(store, "kernels"), num_rows(store, "kernel_sources")) == (3, 1)
    for run_id in ("run-1", "run-2", "run-3"):
        (result,) = queries.load_results(store, run_id)
        assert (result.kernels, result.sources) == ((ADD,), (CODE,))


def test_code_that_nobody_sent_is_missing_and_nothing_else(store: Store) -> None:
    result = replace(result_with(ADD), sources=())
    ingest(store, result)
    assert queries.load_result(store, result.id) == result


def test_names_that_no_database_keeps_are_replaced(store: Store) -> None:
    kernel = replace(ADD, name="a\0b", operators=("\ud800",), launch={"grid\0": float("inf")})
    ingest(store, result_with(kernel))
    (found,) = queries.load_result(store, "result-1").kernels
    assert (found.name, found.operators) == ("a\ufffdb", ("?",))
    assert found.launch == {"grid\ufffd": "inf"}


@pytest.fixture
def store_without_kernels(duckdb_url: str) -> Store:
    """Return a store whose tables of kernels are gone: whoever reads them fails."""
    store = Store(duckdb_url)
    ingest(store, result_with(ADD))
    with store.write() as session:
        for table in ("kernels", "kernel_sources"):
            session.execute(text(f"DROP TABLE {table}"))
    return store


def test_what_judges_and_gives_an_overview_reads_no_kernels(store_without_kernels: Store) -> None:
    store = store_without_kernels
    document = queries.load_document(store, "run-1")
    assert document.results == (make_result(run=make_run()),)
    assert len(queries.load_result_summaries(store, "run-1")) == 1
    assert len(queries.load_latest(store)) == 1
    assert len(list(queries.load_histories(store, metrics=["latency_s"]))) == 1
    assert len(load_ended(store, {document.results[0].case.key})) == 1

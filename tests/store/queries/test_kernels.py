"""Kernels and their code in every kind of store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries import latest, series
from compile_hud.db.queries import results as queries
from compile_hud.db.queries.kernels import (
    ResultLocation,
    find_kernels,
    load_kernel_points,
    load_kernel_runs,
    load_kernel_totals,
    load_kernels,
    load_locations,
    load_results_with_kernels,
    load_sources,
    load_watched_runs,
)
from compile_hud.db.queries.outcomes import load_ended
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.kernels import Kernel, KernelSource, Origin
from compile_hud.db.records.results import CaseResult
from compile_hud.db.store import Store
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_document,
    make_kernel,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.stores.stored_results import save_alerts

CODE = KernelSource(hash="a" * 64, language="cpp", text="void kernel() {}")
ADD = replace(make_kernel(source_hash=CODE.hash), origins=(Origin(node="add", line=3),))
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
    assert queries.load_document(store, "run-1", has_kernels=True).results == (result,)


def test_a_result_that_is_in_already_adds_no_kernel(store: Store) -> None:
    result = result_with(ADD, GEMM)
    assert ingest(store, result)
    assert not ingest(store, result)
    assert num_rows(store, "kernels") == 2


def test_code_is_stored_once_however_many_results_have_it(store: Store) -> None:
    ingest(store, result_with(ADD))
    documents = [
        make_document(make_run(run_id), results=[result_with(ADD, id=run_id, run_id=run_id)])
        for run_id in ("run-2", "run-3")
    ]
    with store.write() as connection:
        assert put_documents(connection, documents, at=START) == 2
    assert (num_rows(store, "kernels"), num_rows(store, "kernel_sources")) == (3, 1)
    assert num_rows(store, "kernel_origins") == 1
    for run_id in ("run-1", "run-2", "run-3"):
        (result,) = queries.load_document(store, run_id, has_kernels=True).results
        assert (result.kernels, result.sources) == ((ADD,), (CODE,))


def test_unsent_code_is_only_missing(store: Store) -> None:
    result = replace(result_with(ADD), sources=())
    ingest(store, result)
    assert queries.load_result(store, result.id) == result


def test_names_that_no_database_keeps_are_replaced(store: Store) -> None:
    kernel = replace(ADD, name="a\0b", operators=("\ud800",), launch={"grid\0": float("inf")})
    ingest(store, result_with(kernel))
    (stored,) = queries.load_result(store, "result-1").kernels
    assert (stored.name, stored.operators) == ("a\ufffdb", ("?",))
    assert stored.launch == {"grid\ufffd": "inf"}


@pytest.fixture
def store_without_kernels(duckdb_url: str) -> Store:
    """Return a store whose tables of kernels are gone: whoever reads them fails."""
    store = Store(duckdb_url)
    ingest(store, result_with(ADD))
    with store.write() as connection:
        for table in ("kernels", "kernel_sources", "kernel_origins"):
            connection.execute(text(f"DROP TABLE {table}"))
    return store


def test_what_judges_and_gives_an_overview_reads_no_kernels(store_without_kernels: Store) -> None:
    store = store_without_kernels
    document = queries.load_document(store, "run-1")
    assert document.results == (make_result(run=make_run()),)
    assert len(queries.load_result_summaries(store, "run-1")) == 1
    assert len(latest.load_latest(store)) == 1
    assert len(list(series.load_histories(store, metrics=["latency_s"]))) == 1
    assert len(load_ended(store, {document.results[0].case.key})) == 1


def test_kernels_of_a_result_come_with_the_longest_first(store: Store) -> None:
    ingest(store, result_with(ADD, GEMM))
    assert load_kernels(store, "result-1") == (GEMM, ADD)
    assert load_kernels(store, "result-2") == ()


def test_code_is_looked_up_by_its_hash(store: Store) -> None:
    ingest(store, result_with(ADD))
    assert load_sources(store, [CODE.hash, "b" * 64]) == {CODE.hash: CODE}


def test_results_that_have_kernels_are_known(store: Store) -> None:
    ingest(store, result_with(ADD))
    ingest(store, make_result("without", run=make_run("run-2")))
    assert load_results_with_kernels(store, "run-1") == {"result-1"}
    assert load_results_with_kernels(store, "run-2") == frozenset()


def test_kernels_of_each_result_are_summed(store: Store) -> None:
    ingest(store, result_with(ADD, GEMM))
    ingest(store, make_result("without", run=make_run("run-2")))
    totals = load_kernel_totals(store, "run-1")["result-1"]
    assert (totals.num_kernels, totals.longest) == (2, GEMM.label)
    assert totals.num_calls == pytest.approx(ADD.count + GEMM.count)
    assert totals.total_s == pytest.approx(ADD.total_s + GEMM.total_s)
    assert totals.longest_s == pytest.approx(GEMM.total_s)
    assert load_kernel_totals(store, "run-2") == {}


def test_a_kernel_is_followed_over_the_runs_of_its_case(store: Store) -> None:
    renumbered = replace(ADD, name="cpp_fused_add_7", min_s=0.0005, source_hash="")
    other_shapes = replace(ADD, shapes="[9]")
    nights = [(ADD, renumbered, GEMM, other_shapes), (GEMM,), (ADD,)]
    for number, kernels in enumerate(nights):
        run = make_run(f"run-{number}", started_at=START + timedelta(days=number))
        result = make_result(f"r{number}", run=run, kernels=kernels)
        store.ingest(run, result, spool_id=result.id)
    first, last = load_kernel_points(
        store, make_case().key, label=ADD.label, library=ADD.library, shapes=ADD.shapes
    )
    assert (first.run_id, first.at, first.num_sources) == ("run-0", START, 1)
    assert (first.count, first.total_s, first.min_s) == (4.0, pytest.approx(0.004), 0.0005)
    assert first.mean_s == pytest.approx(ADD.mean_s)
    assert (last.result_id, last.at) == ("r2", START + timedelta(days=2))
    assert last.share == ADD.share


def test_a_kernel_counts_once_where_a_case_was_measured_again(store: Store) -> None:
    run = make_run()
    for number, mean_s in enumerate((0.004, 0.002)):
        result = make_result(
            f"r{number}",
            run=run,
            kernels=[make_kernel(mean_s=mean_s)],
            finished_at=START + timedelta(minutes=number + 1),
        )
        store.ingest(run, result, spool_id=result.id)
    (point,) = load_kernel_points(
        store, make_case().key, label=ADD.label, library=ADD.library, shapes=ADD.shapes
    )
    assert (point.result_id, point.mean_s) == ("r1", 0.002)


def test_open_and_acknowledged_alerts_name_the_runs_to_keep(store: Store) -> None:
    states = {AlertState.OPEN: "a", AlertState.ACKNOWLEDGED: "b", AlertState.FIXED: "c"}
    save_alerts(
        store,
        [
            make_alert(
                name,
                state=state,
                first_bad=make_run_ref(make_run(f"{name}-bad")),
                last_good=make_run_ref(make_run(f"{name}-good")) if name != "b" else None,
            )
            for state, name in states.items()
        ],
    )
    assert load_watched_runs(store) == {"a-bad", "a-good", "b-bad"}


def test_the_run_of_a_result_is_looked_up(store: Store) -> None:
    ingest(store, result_with(ADD))
    location = ResultLocation(run_id="run-1", run_started_at=START)
    assert load_locations(store, ["result-1", "unknown"]) == {"result-1": location}


def test_the_runs_with_kernels_of_a_case_come_oldest_first(store: Store) -> None:
    older = make_run("older", started_at=START - timedelta(days=1))
    for run in (make_run("newer"), older):
        result = make_result(f"of-{run.id}", run=run, kernels=[GEMM, GEMM])
        store.ingest(run, result, spool_id=result.id)
    ingest(store, result_with(id="without", run_id="none"))
    runs = load_kernel_runs(store, make_case().key)
    assert [(run.run_id, run.at) for run in runs] == [
        ("older", older.started_at),
        ("newer", START),
    ]
    assert load_kernel_runs(store, "no/such/case") == ()


def test_kernels_are_found_by_all_words_of_their_names(store: Store) -> None:
    fused = make_kernel("k0", label="triton_poi_fused_100%_add", mean_s=0.004)
    ingest(store, result_with(fused, GEMM))
    longer = make_kernel("k0", label="triton_poi_fused_100%_add", mean_s=0.009)
    ingest(store, result_with(longer, id="result-2", run_id="run-2"))
    ids = ["result-1", "result-2", "result-3"]
    assert find_kernels(store, ["fused", "add"], result_ids=ids) == ((fused.label, "result-2"),)
    assert find_kernels(store, ["k0"], result_ids=ids[:1]) == ((fused.label, "result-1"),)
    assert find_kernels(store, [], result_ids=ids[:1]) == (
        (GEMM.label, "result-1"),
        (fused.label, "result-1"),
    )
    # A sign of a pattern is a letter like any other.
    assert [label for label, _ in find_kernels(store, ["100%_"], result_ids=ids)] == [fused.label]
    assert find_kernels(store, ["1%0"], result_ids=ids) == ()
    assert find_kernels(store, ["k0"], result_ids=()) == ()

"""Orphans in a damaged store, and a repair that leaves all other rows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import sqlalchemy as sa
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.maintenance.consistency import find_orphans, remove_orphans
from compile_hud.db.queries import results as queries
from compile_hud.db.queries.kernels import load_sources
from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.shared.model_sources import MODEL_LANGUAGE
from compile_hud.db.store import Store
from tests.store.maintenance.test_backup import contents, fill
from tests.support.builders import make_kernel, make_result, make_run


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Store:
    """Return an empty store of either kind."""
    if request.param == "memory":
        return Store("duckdb:///:memory:")
    return Store(request.getfixturevalue("postgres_url"))


def lose(store: Store, table: str, where: str) -> None:
    """Delete rows behind the back of the store."""
    with store.write() as connection:
        connection.execute(sa.text(f"DELETE FROM {table} WHERE {where}"))


def test_a_store_as_it_is_written_has_no_orphans(store: Store) -> None:
    fill(store)
    assert find_orphans(store) == ()
    before = contents(store)
    assert remove_orphans(store) == 0
    assert contents(store) == before


def test_an_empty_store_has_no_orphans(store: Store) -> None:
    assert find_orphans(store) == ()


def test_results_of_a_missing_run_go_with_all_their_rows(
    store: Store, words: SnapshotAssertion
) -> None:
    fill(store, num_runs=1)
    before = contents(store)
    run = make_run("lost")
    case = make_result(run=run).case
    kernel = make_kernel("lost_kernel")
    store.ingest(run, make_result("lost", run=run, case=case, kernels=(kernel,)), spool_id="lost")
    lose(store, "runs", "id = 'lost'")
    orphans = find_orphans(store)
    assert [(item.table, item.num_rows) for item in orphans] == [
        ("case_results", 1),
        ("trend_results", 1),
    ]
    assert [item.text for item in orphans] == words
    assert remove_orphans(store) > 1
    assert find_orphans(store) == ()
    after = contents(store)
    for table in ("runs", "case_results", "measurements", "samples", "kernels"):
        assert after[table] == before[table]


def test_rows_of_missing_results_are_looked_up_by_table(
    store: Store, words: SnapshotAssertion
) -> None:
    fill(store, num_runs=2)
    lose(store, "case_results", "id = 'result-0'")
    texts = {item.table: item.text for item in find_orphans(store)}
    assert texts == words
    remove_orphans(store)
    assert find_orphans(store) == ()
    assert "result-0" not in json.dumps(contents(store)["samples"])
    assert len(queries.load_document(store, "run-1").results) == 1


def test_what_summarises_nothing_any_more_is_detected(store: Store) -> None:
    fill(store, num_runs=1)
    lose(store, "case_results", "1 = 1")
    lose(store, "measurements", "1 = 1")
    lose(store, "kernels", "1 = 1")
    tables = {item.table for item in find_orphans(store)}
    assert tables == {"series", "samples", "latest_results", "trend_results"}
    remove_orphans(store)
    assert find_orphans(store) == ()


def test_the_code_of_a_model_stays_as_long_as_a_run_has_it(
    store: Store, words: SnapshotAssertion
) -> None:
    run = make_run("kept", environment={"model_sources": {"net": "abc"}})
    result = make_result("kept", run=run, kernels=(make_kernel("triton_add"),))
    sources = [
        KernelSource(hash=name, language=MODEL_LANGUAGE, text="{}") for name in ("abc", "other")
    ]
    store.ingest(run, replace(result, sources=(*result.sources, *sources)), spool_id="kept")
    (orphan,) = find_orphans(store)
    assert (orphan.table, orphan.num_rows, orphan.text) == ("kernel_sources", 1, words)
    assert remove_orphans(store) == 1
    assert set(load_sources(store, ["abc", "other"])) == {"abc"}

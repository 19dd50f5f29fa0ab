from __future__ import annotations

from datetime import timedelta

import pytest

from db.bulk import put_documents
from db.errors import MixedStoreError
from db.queries import find_series, load_document, load_latest, load_outcomes
from db.records import RunDocument
from db.store import Store
from tests.builders import START, make_case, make_document, make_measurement, make_result, make_run

CASES = (make_case("bert"), make_case("vit"), make_case("t5"))


def document(number: int) -> RunDocument:
    """Return a run of three cases, of which one failed, at night `number`."""
    at = START + timedelta(days=number)
    run = make_run(f"run-{number}", started_at=at, finished_at=at, plan=CASES)
    speedup = make_measurement(
        "speedup", samples=[number + 1.0, number + 2.0], launches=(1, 1), warmups=[9.0]
    )
    return make_document(
        run,
        results=[
            make_result(f"r-{number}-0", run=run, case=CASES[0], measurements=[speedup]),
            make_result(f"r-{number}-1", run=run, case=CASES[1]),
            make_result(f"r-{number}-2", run=run, case=CASES[2], outcome="failed"),
        ],
    )


def put(store: Store, *documents: RunDocument) -> int:
    with store.write() as session:
        return put_documents(session, documents, at=START)


def test_runs_put_at_once_read_like_those_ingested_one_by_one(store: Store) -> None:
    one_by_one = Store("duckdb:///:memory:")
    for number in range(3):
        made = document(number)
        for result in made.results:
            one_by_one.ingest(made.run, result, spool_id=result.id)
    assert put(store, *(document(number) for number in range(3))) == 9
    for number in range(3):
        assert load_document(store, f"run-{number}") == document(number)
    assert find_series(store) == find_series(one_by_one)
    assert load_latest(store) == load_latest(one_by_one)
    assert load_outcomes(store) == load_outcomes(one_by_one)


def test_later_and_earlier_nights_join_the_series(store: Store) -> None:
    put(store, document(1))
    put(store, document(2))
    put(store, document(0))
    whole = Store("duckdb:///:memory:")
    put(whole, *(document(number) for number in range(3)))
    assert find_series(store) == find_series(whole)


def test_run_that_is_in_is_left_alone(store: Store) -> None:
    put(store, document(0))
    assert put(store, document(0), document(1)) == 3
    assert put(store, document(0), document(1)) == 0
    assert {header.num_points for header in find_series(store)} == {2}


def test_run_without_any_measurement_is_stored(store: Store) -> None:
    failed = make_document(results=[make_result(outcome="failed")])
    assert put(store, failed) == 1
    assert load_document(store, "run-1") == failed


def test_synthetic_runs_do_not_join_real_ones(store: Store) -> None:
    put(store, document(0))
    with pytest.raises(MixedStoreError):
        put(store, make_document(make_run("demo", is_synthetic=True)))

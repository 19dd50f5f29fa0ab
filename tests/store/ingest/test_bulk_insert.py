from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from compile_hud.db.errors import MixedStoreError, RecordError
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.latest import load_latest
from compile_hud.db.queries.outcomes import load_outcomes
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.series import find_series
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.db.rows.mapping import utc
from compile_hud.db.schema.tables import METADATA
from compile_hud.db.store import Store
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)

# Columns of when a row was put.
PUT_AT = ("heartbeat_at", "ingested_at")
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
    with store.write() as connection:
        return put_documents(connection, documents, at=START)


def contents(store: Store) -> dict[str, list[str]]:
    """Return the rows of every table of facts but for when they were put."""
    with store.read() as connection:
        return {
            table.name: sorted(
                repr([_plain(value) for name, value in row._mapping.items() if name not in PUT_AT])
                for row in connection.execute(table.select())
            )
            for table in METADATA.sorted_tables
            # Of a server alone, with a number for each write.
            if table.name != "generation"
        }


def _plain(value: Any) -> Any:
    return utc(value).isoformat() if isinstance(value, datetime) else value


def spooled(*results: CaseResult) -> list[tuple[str, CaseResult]]:
    return [(f"spool-{result.id}", result) for result in results]


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


def test_results_of_a_run_that_go_in_at_once_are_rows_like_those_of_one_by_one(
    store: Store,
) -> None:
    one_by_one = Store("duckdb:///:memory:")
    for number in range(2):
        made = document(number)
        first, second, third = made.results
        # One is in already, one comes twice, and one case is measured once more.
        later = made.run.started_at + timedelta(minutes=1)
        again = make_result(f"again-{number}", run=made.run, case=CASES[0], finished_at=later)
        for whole in (store, one_by_one):
            whole.ingest(made.run, second, spool_id=f"spool-{second.id}")
        results = spooled(first, second, third, third, again)
        assert store.ingest_all(made.run, results) == 3
        assert store.ingest_all(made.run, results) == 0
        for spool_id, result in results:
            one_by_one.ingest(made.run, result, spool_id=spool_id)
        one_by_one.save_run(made.run)
    assert contents(store) == contents(one_by_one)


def test_a_result_of_another_run_keeps_all_of_them_out(store: Store) -> None:
    made, other = document(0), document(1)
    with pytest.raises(RecordError) as caught:
        store.ingest_all(made.run, spooled(*made.results, other.results[2]))
    assert caught.value.parameters == {"result": "r-1-2", "run": "run-1", "expected": "run-0"}
    assert not any(contents(store)[name] for name in ("runs", "case_results", "samples"))


def test_many_results_take_no_more_statements_than_few() -> None:
    def num_statements(num_results: int) -> int:
        store = Store("duckdb:///:memory:")
        store.migrate()
        run = make_run()
        results = [
            make_result(f"r-{number}", run=run, case=make_case(f"model-{number}"))
            for number in range(num_results)
        ]
        seen: list[str] = []

        def look(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            seen.append(statement)

        event.listen(Engine, "before_cursor_execute", look)
        try:
            assert store.ingest_all(run, spooled(*results)) == num_results
        finally:
            event.remove(Engine, "before_cursor_execute", look)
        return len(seen)

    assert num_statements(40) == num_statements(4)

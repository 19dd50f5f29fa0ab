"""Every record comes back from every kind of store as it went in."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compile_hud.db.queries import results as queries
from compile_hud.db.queries.alerts import load_alert
from compile_hud.db.queries.runs import load_run, load_runs
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import CaseResult, Run
from compile_hud.db.store import Store
from tests.support.builders import make_run
from tests.support.examples import examples
from tests.support.stores.stored_results import save_alerts
from tests.support.strategies import ALERTS, results, runs

_NUMBERS = itertools.count()
# The store is shared by the examples on purpose: each uses ids of its own.
_ON_A_STORE = settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def _run_with_result(draw: st.DrawFn) -> tuple[Run, CaseResult]:
    number = next(_NUMBERS)
    run = draw(runs(run_id=st.just(f"run-{number}.")))
    return run, draw(results(result_id=f"result-{number}", run_id=run.id))


@_ON_A_STORE
@given(pair=_run_with_result())
def test_run_and_result_survive_the_store(store: Store, pair: tuple[Run, CaseResult]) -> None:
    run, result = pair
    assert store.ingest(run, result, spool_id=result.id)
    document = queries.load_document(store, run.id, has_kernels=True)
    assert document.run == run
    # The family and mode of a case that was seen before are those first seen: no part of its key.
    assert document.results[0].case.key == result.case.key
    assert _less_case(document.results[0]) == _less_case(result)


def _less_case(result: CaseResult) -> dict[str, object]:
    return {key: value for key, value in result.to_json().items() if key != "case"}


@_ON_A_STORE
@given(alert=ALERTS)
def test_alert_survives_the_store(store: Store, alert: Alert) -> None:
    save_alerts(store, [alert])
    stored = load_alert(store, alert.id)
    assert stored.case.key == alert.case.key
    assert stored.to_json() == {**alert.to_json(), "mode": stored.case.mode}


@pytest.mark.parametrize("text", ["100%", "a'b", "x_y", "\\", '"', "{}", ":name", "\u20ac"])
def test_text_with_a_meaning_in_sql_is_only_text(store: Store, text: str) -> None:
    store.enqueue_job(dedupe_key=text, suite=text, toolchain=text, trigger=text)
    job = store.lease_job()
    assert job is not None
    assert (job.dedupe_key, job.suite, job.toolchain, job.trigger) == (text,) * 4


def test_what_is_read_in_one_block_is_of_one_moment(store_url: str) -> None:
    store = Store(store_url)
    store.save_run(make_run("r1"))
    with store.reading():
        ids = [
            load_run(store, "r1").id,
            load_runs(store, limit=5)[0].run.id,
        ]
        with store.read() as connection, store.read() as same:
            assert connection is same
    assert ids == ["r1", "r1"]
    with store.read() as one:
        ids_before = one
    with store.read() as other:
        assert other is not ids_before

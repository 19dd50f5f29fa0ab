"""The last points of every case, for small trend lines."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.latest import (
    load_last_ok,
    load_latest,
    load_model_places,
    load_model_summaries,
    load_recent,
    load_scopes,
)
from compile_hud.db.records.results import REFERENCE_FAMILY, Outcome, Run, RunDocument
from compile_hud.db.records.summaries import Scope
from compile_hud.db.store import Store
from tests.support.builders import START, make_case, make_measurement, make_result, make_run

BERT, VIT = make_case("bert"), make_case("vit")


def document(number: int, seconds: float, **values: str) -> RunDocument:
    run: Run = make_run(
        f"run-{number}-{values.get('toolchain', '')}",
        started_at=START + timedelta(days=number),
        plan=(BERT, VIT),
        **values,
    )
    measured = [
        make_measurement(samples=(seconds,)),
        make_measurement("peak_bytes", samples=(1.0,)),
    ]
    cases = (BERT, VIT) if number != 2 else (BERT,)
    results = [
        make_result(f"{run.id}-{case.model}", run=run, case=case, measurements=measured)
        for case in cases
    ]
    return RunDocument(run=run, results=tuple(results))


@pytest.fixture
def filled(store: Store) -> Store:
    """Return a store with five nights of two cases, and one of another toolchain."""
    documents = [document(number, 0.01 * (number + 1)) for number in range(5)]
    documents.append(document(9, 9.0, toolchain="nightly"))
    with store.write() as connection:
        put_documents(connection, documents, at=START + timedelta(days=9))
    return store


def test_they_are_of_the_newest_runs_of_the_scope_oldest_first(filled: Store) -> None:
    results = load_recent(
        filled, metrics=["latency_s"], machine="box", toolchain="stable", num_runs=3
    )
    assert results == {
        (BERT.key, "latency_s"): pytest.approx((0.03, 0.04, 0.05)),
        (VIT.key, "latency_s"): pytest.approx((0.04, 0.05)),
    }


def test_a_model_has_the_scopes_of_its_results_the_newest_first(filled: Store) -> None:
    reference = make_case("ref_copy", family=REFERENCE_FAMILY, mode="eager")
    run = make_run("run-8", started_at=START + timedelta(days=8), plan=(reference,))
    with filled.write() as connection:
        put_documents(
            connection,
            [RunDocument(run=run, results=(make_result("ref", run=run, case=reference),))],
            at=run.started_at,
        )
    scopes = (("box", "nightly"), ("box", "stable"))
    assert load_model_places(filled) == {"bert": scopes, "vit": scopes}


def test_a_scope_without_a_run_has_none(filled: Store) -> None:
    where = {"machine": "elsewhere", "toolchain": "stable"}
    assert load_recent(filled, metrics=["latency_s"], num_runs=3, **where) == {}


def test_a_case_was_last_ok_in_the_newest_run_that_has_it_so(filled: Store) -> None:
    run = make_run("run-7", started_at=START + timedelta(days=7), plan=(BERT, VIT))
    failed = make_result("bad", run=run, case=BERT, outcome=Outcome.FAILED)
    with filled.write() as connection:
        put_documents(connection, [RunDocument(run=run, results=(failed,))], at=run.started_at)
    newest = START + timedelta(days=4)
    assert load_last_ok(filled, machine="box", toolchain="stable") == {
        BERT.key: newest,
        VIT.key: newest,
    }
    assert load_last_ok(filled, machine="box", toolchain="none") == {}


def test_a_result_tells_what_its_model_is_there_for(store: Store) -> None:
    run = make_run(plan=(BERT, VIT))
    details = {"workload": {"build": "b", "config": {}, "summary": 'It\'s 100 % "attention".'}}
    results = (
        make_result("new", run=run, case=BERT, details=details),
        make_result("old", run=run, case=VIT, details={"workload": {"build": "b"}}),
    )
    with store.write() as connection:
        put_documents(connection, [RunDocument(run=run, results=results)], at=run.started_at)
    summaries = load_model_summaries(store, ["new", "old", "none"])
    assert summaries == {"new": 'It\'s 100 % "attention".'}


def test_a_scope_says_when_it_was_measured_last_and_which_run_had_references(
    filled: Store,
) -> None:
    reference = make_case("gemm", family=REFERENCE_FAMILY)
    for machine, days in (("box", 2), ("bare", 3)):
        run = make_run(
            f"alone-{machine}",
            started_at=START + timedelta(days=days),
            plan=(reference,),
            machine=machine,
        )
        filled.ingest(run, make_result(run.id, run=run, case=reference), spool_id=run.id)
    scope = {"machine": "box", "has_cases": True}
    assert load_scopes(filled) == (
        Scope(
            machine="bare",
            toolchain="stable",
            newest_at=START + timedelta(days=3),
            has_cases=False,
            reference_run_id="alone-bare",
        ),
        Scope(
            **scope, toolchain="nightly", newest_at=START + timedelta(days=9), reference_run_id=""
        ),
        Scope(
            **scope,
            toolchain="stable",
            newest_at=START + timedelta(days=4),
            reference_run_id="alone-box",
        ),
    )


@pytest.mark.parametrize(
    ("commits", "revisions"),
    [
        (
            {"bert": "abc+dirty(5f3a)", "models_zoo": "def"},
            {"bert": "abc+dirty(5f3a)", "vit": "def"},
        ),
        ({}, {"bert": "", "vit": ""}),
        (None, {"bert": "", "vit": ""}),
        # An imported run may have anything there.
        ("abc", {"bert": "", "vit": ""}),
        (["abc"], {"bert": "", "vit": ""}),
    ],
)
def test_a_newest_result_has_the_revision_of_its_models_code(
    store: Store, commits: Any, revisions: dict[str, str]
) -> None:
    run = make_run(plan=(BERT, VIT), environment={"model_commits": commits, "os": "6.1"})
    results = tuple(make_result(case.model, run=run, case=case) for case in (BERT, VIT))
    with store.write() as connection:
        put_documents(connection, [RunDocument(run=run, results=results)], at=START)
    cells = load_latest(store)
    assert {cell.summary.case.model: cell.model_revision for cell in cells} == revisions

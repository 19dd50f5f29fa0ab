"""The histories of outcomes that are read for detection; the others change no result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.outcomes import load_ended, load_outcomes, load_unusual_outcomes
from compile_hud.db.queries.runs import load_plans
from compile_hud.db.records.results import Outcome, RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.analysis.outcomes.outcomes import judge_outcomes
from tests.support.builders import START, make_case, make_document, make_result, make_run

OK, FAILED = Outcome.OK, Outcome.FAILED
Night = Mapping[str, Outcome | None]


def document(number: int, night: Night, *, suite: str = "nightly") -> RunDocument:
    at = START + timedelta(days=number)
    plan = [make_case(model) for model in night]
    run = make_run(f"run-{number:02}", plan=plan, started_at=at, finished_at=at, suite=suite)
    results = [
        make_result(f"{model}-{number}", run=run, case=make_case(model), outcome=outcome)
        for model, outcome in night.items()
        if outcome is not None
    ]
    return make_document(run, results=results)


def put(store: Store, nights: Sequence[Night], *, suites: Mapping[int, str] | None = None) -> None:
    with store.write() as connection:
        documents = [
            document(number, night, suite=(suites or {}).get(number, "nightly"))
            for number, night in enumerate(nights)
        ]
        put_documents(connection, documents, at=START)


def unusual(store: Store) -> list[str]:
    histories = load_unusual_outcomes(store, runs=load_plans(store))
    assert set(histories) <= set(load_outcomes(store))
    return [history.case.model for history in histories]


def test_case_that_is_ok_every_night_is_left_out(store: Store) -> None:
    put(store, [{"bert": OK}, {"bert": OK, "vit": OK}, {"bert": OK, "vit": OK}])
    assert unusual(store) == []


def test_case_that_failed_once_or_had_no_result_is_there(store: Store) -> None:
    put(
        store,
        [
            {"bert": OK, "vit": OK, "t5": OK},
            {"bert": FAILED, "vit": None, "t5": OK},
            {"bert": OK, "vit": OK, "t5": OK},
        ],
    )
    assert unusual(store) == ["bert", "vit"]


def test_case_that_its_suite_left_out_is_there(store: Store) -> None:
    put(store, [{"bert": OK, "vit": OK}, {"vit": OK}])
    assert unusual(store) == ["bert"]


def test_runs_of_other_suites_leave_nothing_out(store: Store) -> None:
    put(store, [{"bert": OK, "vit": OK}, {"vit": OK}], suites={1: "quick"})
    assert unusual(store) == []


def test_case_without_any_result_is_left_out(store: Store) -> None:
    put(store, [{"bert": OK, "vit": None}, {"bert": OK, "vit": None}])
    assert unusual(store) == []


def test_empty_store_has_no_histories(store: Store) -> None:
    assert unusual(store) == []


def test_leaving_out_what_is_usual_changes_no_alert(store: Store) -> None:
    whole: Night = {"bert": OK, "vit": OK, "t5": OK, "unet": OK}
    without: Night = {"vit": OK, "t5": OK, "unet": FAILED}
    put(store, [whole, whole, whole, without, {**without, "t5": None}, without, without, whole])
    runs = load_plans(store)
    few = judge_outcomes(load_unusual_outcomes(store, runs=runs), runs=runs)
    every = judge_outcomes(load_outcomes(store), runs=runs)
    assert few == every
    assert {alert.kind for alert in few} == {"outcome", "vanished"}


def test_run_that_began_meanwhile_is_not_there_yet(store: Store) -> None:
    put(store, [{"bert": OK}, {"bert": FAILED}])
    runs = load_plans(store)
    store.save_run(make_run("between", started_at=START + timedelta(hours=1)))
    (history,) = load_unusual_outcomes(store, runs=runs)
    assert [point.run_id for point in history.points] == ["run-00", "run-01"]


def test_ending_names_the_result_that_counts(store: Store) -> None:
    put(store, [{"bert": OK, "vit": OK}])
    key = make_case("bert").key
    (item,) = load_ended(store, [key]).items()
    assert item[0] == ("run-00", key)
    assert (item[1].result_id, item[1].outcome) == ("bert-0", OK)
    assert load_ended(store, []) == {}

"""The page of one model: facts, cases, trends, alerts, failures and links."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.views.model.data import code_fact, model_command, nearest_models
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.jobs.health import load_health
from compile_hud.db.jobs.queue import suite_of_case
from compile_hud.db.records.results import Outcome, Run, RunDocument
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage, SignIn
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.pages.page_elements import (
    commands_of,
    html_of,
    link_buttons_of,
    links_of,
    text_of,
    texts_of,
    texts_of_rows,
)
from tests.support.stores import dashboard_stores

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

MODEL = dashboard_stores.REGRESSED.model
FAILS = dashboard_stores.FAILING.model


def titles_of(page: AppTest) -> list[str]:
    """Return the titles of the charts of a page."""
    specs = [json.loads(item.proto.spec) for item in page.get("vega_lite_chart")]
    return [spec["title"]["text"] for spec in specs]


def link_of(page: AppTest, label: str) -> str:
    return link_buttons_of(page)[label]


def put(store: Store, *documents: RunDocument) -> None:
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)


def document(number: int, cases: list[tuple[str, str]], **changes: object) -> RunDocument:
    """Return a night with two latencies and speedups of `net` for each phase and shape."""
    plan = [
        make_case("net", mode=mode, phase=phase, shape=shape, device="cuda")
        for phase, shape in cases
        for mode in ("eager", "default")
    ]
    run = dataclasses.replace(dashboard_stores.night(number, plan=plan), **changes)  # type: ignore[arg-type]
    results = tuple(
        make_result(
            f"r{number}-{index}",
            run=run,
            case=case,
            measurements=[
                make_measurement(samples=(0.01 + index, 0.02 + index, 0.03 + index)),
                make_measurement("speedup", samples=(1.5, 1.6, 1.7)),
                make_measurement("num_parameters", samples=(12_345_678.0,)),
            ],
        )
        for index, case in enumerate(plan)
    )
    return RunDocument(run=run, results=results)


@pytest.mark.usefixtures("seeded")
def test_the_page_has_facts_cases_trends_and_alerts(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("model", model=MODEL)
    assert not page.exception
    assert texts_of(page, "path", "h1", "chips", "facts", "h2") == words
    (row,) = texts_of_rows(page, "cases")
    assert all("x" in cell.split()[0] for cell in row[1:])
    assert titles_of(page)[:2] == ["default", "reduce-overhead"]
    alerts = texts_of_rows(page, "alerts")
    assert alerts[0][1].startswith(f"{MODEL} default")
    assert not texts_of_rows(page, "failures")


@pytest.mark.usefixtures("seeded")
def test_a_failure_has_its_reason_and_its_run(open_page: OpenPage) -> None:
    page = open_page("model", model=FAILS)
    (row,) = texts_of_rows(page, "failures")
    assert row[0] == "max-autotune"
    assert "LoweringException" in row[3]
    assert any(href.startswith("run?run=run-015&case=unet") for href in links_of(page))


@pytest.mark.parametrize(("num_failed", "num_folded"), [(12, 0), (15, 3)])
def test_no_failure_is_left_out(
    num_failed: int, num_folded: int, open_page: OpenPage, store: Store
) -> None:
    plan = [
        make_case("net", mode="default", shape=f"s{number}", device="cuda")
        for number in range(num_failed)
    ]
    run = dashboard_stores.night(7, plan=plan)
    results = [
        make_result(f"f{number}", run=run, case=case, outcome=Outcome.FAILED)
        for number, case in enumerate(plan)
    ]
    put(store, RunDocument(run=run, results=tuple(results)))
    page = open_page("model", model="net")
    assert len(texts_of_rows(page, "failures")) == 12
    assert len(texts_of_rows(page, "further failures")) == num_folded
    assert (f"{num_folded} older failures" in text_of(page)) is bool(num_folded)


@pytest.mark.usefixtures("seeded")
def test_links_lead_to_the_pages_of_the_model_with_its_range(open_page: OpenPage) -> None:
    page = open_page("model", model=MODEL, range="365")
    assert "model=bert" in link_of(page, "Trends")
    for label in ("Trends", "History"):
        assert "range=365" in link_of(page, label)
    assert "range" not in link_of(page, "Modes")
    assert "range" not in link_of(open_page("model", model=MODEL), "History")


def test_combinations_are_never_averaged(open_page: OpenPage, store: Store) -> None:
    cases = [("inference", "a"), ("inference", "b"), ("training", "a"), ("training", "b")]
    put(store, *(document(number, cases) for number in (8, 9, 10)))
    page = open_page("model", model="net")
    assert [row[:2] for row in texts_of_rows(page, "cases")] == [list(item) for item in cases]
    # One chart for each of the first three combinations, and a filter for the fourth.
    assert titles_of(page) == ["default"] * 3
    assert texts_of(page, "h3") == [
        f"{phase} / {shape} / fp32 / cuda" for phase, shape in cases[:3]
    ]
    filtered = open_page("model", model="net", phase="training", shape="b")
    assert titles_of(filtered) == ["default"]
    assert "12.3 M" in text_of(filtered)


def test_the_range_selects_the_runs_of_the_trend(open_page: OpenPage, store: Store) -> None:
    old = dashboard_stores.NOW - timedelta(days=200)
    documents = [
        document(number, [("inference", "a")], started_at=old + timedelta(days=number))
        for number in (1, 2, 3)
    ]
    put(store, *documents)
    assert titles_of(open_page("model", model="net")) == []
    assert titles_of(open_page("model", model="net", range="365")) == ["default"]


@pytest.mark.parametrize(
    "params",
    [{}, {"model": "elsewhere"}, {"model": "Brt"}, {"model": "bert", "dtype": "bf16"}],
)
@pytest.mark.usefixtures("seeded")
def test_a_page_without_a_model_leads_on(
    params: dict[str, str], open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("model", **params)
    assert not page.exception
    assert texts_of(page, "h1", "empty") == words


def test_a_model_of_another_machine_leads_there(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    put(store, document(9, [("inference", "a")]), document(3, [("inference", "b")], machine="far"))
    far = dataclasses.replace(dashboard_stores.night(4, plan=[]), id="far-4", machine="far")
    case = make_case("vit", device="cuda")
    result = make_result("far-vit", run=far, case=case, measurements=[make_measurement()])
    put(store, RunDocument(run=far, results=(result,)))
    page = open_page("model", model="vit")
    assert not page.exception
    assert texts_of(page, "empty") == words
    assert any("model=vit" in link and "machine=far" in link for link in links_of(page))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("VIT", ["vit", "vit-large"]),
        ("vit-larg", ["vit-large", "vit"]),
        ("Bert-uncased-v2", ["BERT"]),
        ("zzz", []),
    ],
)
def test_the_nearest_models_are_alike_or_a_part(name: str, nearest: list[str]) -> None:
    assert nearest_models(name, ["vit", "vit-large", "BERT", "t5"]) == nearest


def with_code(number: int, revision: str, content: str = "", **changes: object) -> Run:
    facts: dict[str, object] = {"model_commits": {"net": revision} if revision else {}}
    if content:
        facts["model_sources"] = {"net": content}
    night = dashboard_stores.night(number, plan=[])
    return dataclasses.replace(night, environment=facts, **changes)  # type: ignore[arg-type]


def test_code_is_that_of_the_newest_run_since_its_last_change(store: Store) -> None:
    runs = [
        with_code(1, "c1", "h1"),
        with_code(2, "c2", "h2"),
        with_code(3, "c2", "h2"),
        with_code(4, ""),
        with_code(5, "c2", "h2"),
        with_code(6, "c9", machine="far"),
    ]
    put(store, *(document_of(run) for run in runs))
    fact = code_fact("net", runs=load_newest_runs().value, machine=runs[0].machine)
    assert fact is not None
    assert (fact.revision, fact.content_hash, fact.run_id) == ("c2", "h2", runs[1].id)
    assert fact.has_changed
    far = code_fact("net", runs=load_newest_runs().value, machine="far")
    assert far is not None
    assert not far.has_changed
    assert code_fact("other", runs=load_newest_runs().value, machine="far") is None


def document_of(run: Run) -> RunDocument:
    case = make_case("net", device="cuda")
    result = make_result(f"c-{run.id}", run=run, case=case, measurements=[make_measurement()])
    return RunDocument(run=run, results=(result,))


def test_the_command_measures_the_whole_model() -> None:
    assert model_command("my [net]", toolchain="nightly") == (
        "hud run --model 'my [[]net]' --toolchain nightly"
    )


@pytest.mark.usefixtures("seeded")
def test_a_triager_queues_a_case(open_page: OpenPage, sign_in: SignIn, store: Store) -> None:
    sign_in("eve")
    page = open_page("model", model=MODEL)
    assert commands_of(page) == ["hud run --model bert --toolchain stable"]
    assert not [button for button in page.button if button.key == "ask-go-model"]
    sign_in("tom")
    page = open_page("model", model=MODEL)
    page.button(key="ask-go-model").click().run()
    assert not page.exception
    assert [job.suite for job in load_health(store).open_jobs] == [
        suite_of_case(dashboard_stores.REGRESSED.key)
    ]


def test_hostile_names_are_text(open_page: OpenPage, store: Store) -> None:
    name = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}"
    case = make_case(name, mode="default", device="cuda")
    run = dataclasses.replace(
        with_code(9, "x" * 900 + "<b>", "<i>" * 90), environment={"model_commits": {name: "<b>"}}
    )
    measurement = make_measurement("speedup", samples=(1.7e308,) * 3)
    put(
        store,
        RunDocument(
            run=run, results=(make_result("r", run=run, case=case, measurements=[measurement]),)
        ),
    )
    page = open_page("model", model=name)
    assert not page.exception
    assert "<script" not in html_of(page)
    assert "<b>" not in html_of(page)
    assert "\u202e" not in text_of(page)

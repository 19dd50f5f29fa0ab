"""The page of studies: the newest run on each device, what has no number, links to each case."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.urls import run_url
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import Case, CaseResult, Outcome, Run, RunDocument
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import START, make_case, make_measurement, make_result, make_run
from tests.support.pages.page_elements import (
    commands_of,
    html_of,
    links_of,
    text_of,
    texts_of,
    texts_of_rows,
)
from tests.support.stores import dashboard_stores

GRID = ("full-b1-l16", "full-b8-l128")


def study_run(
    study: str, plan: Sequence[Case], *, name: str, device_name: str, day: int = 0
) -> Run:
    """Return a finished run of a study."""
    at = START + timedelta(days=day)
    return make_run(
        name,
        plan=plan,
        suite=f"study-{study}",
        environment={"device_name": device_name},
        started_at=at,
        finished_at=at + timedelta(minutes=5),
    )


def ok(run: Run, case: Case, *, speedup: float) -> CaseResult:
    """Return a result that is `speedup` times faster than 10 ms."""
    return make_result(
        f"{run.id}-{case.key}"[:64],
        run=run,
        case=case,
        measurements=[
            make_measurement("latency_s", samples=(0.01 / speedup,)),
            make_measurement("peak_bytes", samples=(2.0**20,)),
            make_measurement("num_parameters", samples=(1_234_567.0,)),
            make_measurement("speedup", samples=(speedup * 0.99, speedup, speedup * 1.01)),
        ],
    )


def fill(store: Store, run: Run, results: Sequence[CaseResult]) -> None:
    with store.write() as connection:
        put_documents(
            connection, [RunDocument(run=run, results=tuple(results))], at=dashboard_stores.NOW
        )


def fill_families(store: Store, *, device: str = "cpu", day: int = 0, speedup: float = 2.0) -> Run:
    """Store a run in which BERT is faster and DCGAN fails."""
    bert = make_case("bert", family="encoder", device=device)
    dcgan = make_case("dcgan", family="gan", device=device)
    run = study_run(
        "families", [bert, dcgan], name=f"{device}-{day}", device_name=f"Fake {device}", day=day
    )
    failed = make_result("failed" + run.id, run=run, case=dcgan, outcome=Outcome.FAILED)
    fill(store, run, [ok(run, bert, speedup=speedup), failed])
    return run


def test_a_study_without_a_run_explains_how_to_measure_it(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("studies", study="moe")
    assert texts_of(page, "notice", "empty") == words
    assert commands_of(page) == ["hud study run moe"]


def test_rows_have_numbers_and_words(store: Store, open_page: OpenPage) -> None:
    fill_families(store)
    page = open_page("studies")
    assert not page.exception
    title = "Speedup over eager, geometric mean of the models of a family: fp32"
    rows = texts_of_rows(page, title)
    assert rows == [
        ["encoder", "2.00x [1.98, 2.02]"],
        ["gan", "1 failed"],
        ["all families", "2.00x [1.98, 2.02] 1 of 2"],
    ]
    assert "2 of 2: 1 ok, 1 failed" in text_of(page)
    assert texts_of_rows(page, "Missing numbers")[0][:3] == ["default", "failed", "1"]


def test_every_case_is_a_link_to_its_run(store: Store, open_page: OpenPage) -> None:
    run = fill_families(store)
    links = links_of(open_page("studies"))
    for case in run.plan:
        assert f"run?run={run.id}&case={case.key.replace('/', '%2F')}" in links


def test_published_figures_are_shown_with_both_devices(store: Store, open_page: OpenPage) -> None:
    case = make_case("resnet", family="vision", device="cpu")
    run = study_run("families", [case], name="resnet", device_name="Fake cpu", day=0)
    fill(store, run, [ok(run, case, speedup=2.0)])
    rows = texts_of_rows(open_page("studies"), "Published figures, of other devices")
    resnet = next(row for row in rows if row[0] == "ResNet")
    assert resnet[1:3] == ["1.4x to 1.9x", "not stated"]
    assert resnet[4] == "default: 2.00x [1.98, 2.02]"
    t5 = next(row for row in rows if row[0] == "T5")
    assert t5[4] == "not measured"


def test_the_newest_run_of_each_device_is_shown(store: Store, open_page: OpenPage) -> None:
    fill_families(store, day=0, speedup=3.0)
    fill_families(store, day=1, speedup=2.0)
    fill_families(store, device="cuda", speedup=4.0)
    text = text_of(open_page("studies"))
    assert text.count("On Fake cpu") == text.count("On Fake cuda") == 1
    assert "2.00x [1.98, 2.02]" in text
    assert "4.00x [3.96, 4.04]" in text
    assert "3.00x" not in text


def test_bert_is_a_heat_map_for_each_variant(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    plan = [
        make_case("bert", shape=shape, mode=mode)
        for mode in ("default", "max-autotune")
        for shape in GRID
    ]
    run = study_run("bert-grid", plan, name="grid", device_name="Fake CPU")
    fill(store, run, [ok(run, case, speedup=1.0 + index) for index, case in enumerate(plan)])
    page = open_page("studies", study="bert-grid")
    assert not page.exception
    assert texts_of_rows(page, "max-autotune") == [
        ["1", "3.00x [2.97, 3.03]", "not measured"],
        ["8", "not measured", "4.00x [3.96, 4.04]"],
    ]
    assert 'class="number heat5"' in html_of(page)
    assert texts_of(page, "caption") == words


def test_candidates_are_ranked_by_latency(store: Store, open_page: OpenPage) -> None:
    plan = [make_case(name, family="architecture") for name in ("arch/slow", "arch/fast")]
    run = study_run("architecture", plan, name="arch", device_name="Fake CPU")
    fill(store, run, [ok(run, case, speedup=1.0 + index) for index, case in enumerate(plan)])
    page = open_page("studies", study="architecture")
    assert not page.exception
    rows = texts_of_rows(page, "Candidates by latency: default")
    assert rows == [
        ["1", "arch/fast", "5.00", "1.00", "1,234,567"],
        ["2", "arch/slow", "10.0", "1.00", "1,234,567"],
    ]


def test_names_and_reasons_that_are_markup_are_shown_as_text(
    store: Store, open_page: OpenPage
) -> None:
    case = make_case(dashboard_stores.HOSTILE_NAME, family="<b>family</b>")
    run = study_run("families", [case], name="hostile", device_name="<script>device</script>")
    failed = make_result(run=run, case=case, outcome=Outcome.FAILED, reason="<img src=x>")
    fill(store, run, [failed])
    page = open_page("studies")
    assert not page.exception
    for element in ("<script", "<b>", "<img"):
        assert element not in html_of(page)
    assert "<script>device</script>" in text_of(page)
    assert "<img src=x>" in text_of(page)


def test_choosing_a_study_puts_it_into_the_url(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    fill_families(store)
    page = open_page("studies")
    page.selectbox(key="choice-study").select("moe").run()
    assert page.query_params["study"] == "moe"
    assert texts_of(page, "notice", "empty") == words


@pytest.mark.usefixtures("store_path")
def test_an_unknown_study_in_the_url_is_reported(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("studies", study="weather")
    assert texts_of(page, "notice", "empty") == words


def test_a_click_on_a_point_leads_to_its_case_as_a_link_does(
    store: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case("arch/one", family="architecture")
    run = study_run("architecture", [case], name="arch", device_name="Fake CPU")
    fill(store, run, [ok(run, case, speedup=2.0)])
    gone: list[str] = []
    monkeypatch.setattr("compile_hud.app.views.studies.view.picked", lambda _event, _name: case.key)
    monkeypatch.setattr("compile_hud.app.views.studies.view.go", gone.append)
    assert not open_page("studies", study="architecture").exception
    assert gone == [run_url(run.id, case_key=case.key)]

"""The views on a filled store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.data import latest_results
from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import make_alert, make_case
from tests.support.pages.page_elements import (
    cells_of_rows,
    html_of,
    links_of,
    text_of,
    texts_of,
    texts_of_rows,
)
from tests.support.stores import dashboard_stores
from tests.support.stores.stored_results import save_alerts

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

MATRIX = "latest results, model by variant"
SERIES = {"case": dashboard_stores.REGRESSED.key}


@pytest.fixture
def overview(seeded: object, open_page: OpenPage) -> AppTest:  # noqa: ARG001
    """Return the overview of the filled store."""
    return open_page("overview")


def test_the_worst_comes_first(overview: AppTest) -> None:
    titles = [text.split(" / ")[0].split()[-1] for text in texts_of(overview, "event")]
    assert titles == ["unet", "bert"]


def test_a_regression_leads_to_its_series_and_its_first_bad_run(overview: AppTest) -> None:
    links = links_of(overview)
    assert any(link.startswith("series?case=bert%2F") for link in links)
    assert any(link.startswith("run?run=run-009&case=bert%2F") for link in links)


def test_improvements_are_there_but_folded(overview: AppTest) -> None:
    assert "<summary>Improvements: 1</summary>" in html_of(overview)
    assert [row[0] for row in texts_of_rows(overview, "improvements")] == [
        "+13.9 % [+12.1, +15.4] %"
    ]


def test_each_mode_has_its_mean_over_the_common_cohort_and_its_pass_rate(
    overview: AppTest,
    words: SnapshotAssertion,
) -> None:
    assert texts_of(overview, "card") == words


def test_a_vanished_case_is_not_ok_and_in_no_mean(
    seeded: Path, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    case = make_case("bert", mode="reduce-overhead", device="cuda")
    alert = make_alert("gone", case=case, kind="vanished", metric="outcome", unit="")
    save_alerts(Store(f"duckdb:///{seeded}"), [alert])
    page = open_page("overview")
    assert texts_of(page, "card") == words


def test_the_matrix_has_outcomes_marks_and_fallbacks(overview: AppTest) -> None:
    rows = {row[0]: row[1:] for row in texts_of_rows(overview, MATRIX)}
    assert list(rows) == ["unet", "bert", "llama", "resnet50"]
    assert rows["unet"][3] == "failed failing log"
    assert rows["bert"][1].startswith("1.17x 12.4 -> 10.6 ms")
    assert rows["llama"][2].startswith("1.80x 30.8 -> 17.1 ms")
    assert "nan" not in html_of(overview).lower()


def test_the_newest_run_is_a_click_away_from_its_comparison(overview: AppTest) -> None:
    assert "compare?candidate=run-015" in links_of(overview)


def test_every_cell_of_the_matrix_leads_to_its_series(overview: AppTest) -> None:
    links = set(links_of(overview))
    for case in dashboard_stores.cases():
        key = case.key.replace("/", "%2F")
        assert any(link.startswith(f"series?case={key}") for link in links)


@pytest.mark.usefixtures("seeded")
def test_a_filter_in_the_url_filters_alerts_and_cells(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("overview", model="bert")
    assert [row[0] for row in texts_of_rows(page, MATRIX)] == ["bert"]
    assert texts_of(page, "h1") == words


def test_choosing_a_filter_puts_it_into_the_url(overview: AppTest) -> None:
    overview.selectbox(key="choice-model").select("llama").run()
    assert overview.query_params["model"] == "llama"
    assert [row[0] for row in texts_of_rows(overview, MATRIX)] == ["llama"]
    overview.selectbox(key="choice-model").select("").run()
    assert "model" not in overview.query_params


def test_choosing_another_metric_changes_the_matrix(
    overview: AppTest, words: SnapshotAssertion
) -> None:
    overview.selectbox(key="choice-metric").select("compile_cold_s").run()
    assert texts_of(overview, "h2") == words
    assert texts_of_rows(overview, MATRIX)[1][1:3] == ["-", "31.5 latency +20.0 %"]


@pytest.mark.usefixtures("seeded")
def test_what_all_cases_have_in_common_is_no_choice_unless_it_was_made(open_page: OpenPage) -> None:
    offered = {item.key for item in open_page("overview").selectbox}
    assert offered == {"choice-range", "choice-machine", "choice-model", "choice-metric"}
    offered = {item.key for item in open_page("overview", phase="training").selectbox}
    assert "choice-phase" in offered


@pytest.mark.usefixtures("seeded")
def test_no_match_names_which_filter_to_take_back(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("overview", model="bert", phase="training")
    assert texts_of(page, "notice", "empty") == words


@pytest.mark.usefixtures("seeded")
def test_two_wrong_filters_report_that_one_is_not_enough(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("overview", model="zzz", phase="training")
    assert texts_of(page, "notice", "empty") == words


@pytest.mark.usefixtures("seeded")
def test_a_series_reports_what_changed_and_when(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("series", **SERIES)
    text = text_of(page)
    assert texts_of(page, "notice", "empty") == words
    assert "hud run --model bert --mode default --phase inference" in text
    points = cells_of_rows(page, "points")
    assert len(points) == dashboard_stores.NUM_NIGHTS
    notes = {row["run started"][:10]: row["note"] for row in points if row["note"] != "-"}
    assert list(notes) == ["2026-01-10", "2026-01-06"]
    assert list(notes.values()) == words


@pytest.mark.usefixtures("seeded")
def test_a_series_has_its_siblings_and_metrics(open_page: OpenPage) -> None:
    page = open_page("series", **SERIES)
    (siblings,) = texts_of_rows(page, "the same case in other variants")
    assert len(siblings) == len(dashboard_stores.MODES)
    page.selectbox(key="choice-metric").select("speedup").run()
    assert page.query_params["metric"] == "speedup"
    assert "latest speedup 1.17x" in text_of(page)


@pytest.mark.usefixtures("seeded")
def test_a_point_can_show_its_samples(open_page: OpenPage) -> None:
    page = open_page("series", **SERIES, result="run-003-bert-default")
    assert "Samples of 2026-01-04 02:30 UTC" in text_of(page)


@pytest.mark.usefixtures("seeded")
def test_an_unknown_point_is_reported_and_the_latest_shown(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("series", **SERIES, result="nothing")
    text = text_of(page)
    assert texts_of(page, "notice", "empty") == words
    assert "Samples of 2026-01-16 02:30 UTC" in text


def test_a_case_that_never_ended_ok_has_its_outcomes(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    run = dashboard_stores.fill_hostile(store)
    page = open_page("series", case=run.plan[1].key)
    assert texts_of(page, "notice", "empty") == words
    assert [row[1] for row in texts_of_rows(page, "outcomes")] == ["failed"]


@pytest.mark.usefixtures("seeded")
def test_without_an_id_the_latest_run_is_shown(open_page: OpenPage) -> None:
    page = open_page("run")
    text = text_of(page)
    assert "Run run-015" in text
    assert "20 of 20: 19 ok 1 failed" in text
    rows = texts_of_rows(page, "cases of the run")
    assert rows[0][:3] == ["unet", "max-autotune", "failed"]
    assert len(rows) == len(dashboard_stores.cases())


@pytest.mark.usefixtures("seeded")
def test_what_regressed_in_this_run_comes_before_what_did_not(open_page: OpenPage) -> None:
    rows = cells_of_rows(open_page("run", run="run-009"), "cases of the run")
    assert [(row["outcome"], row["regression"]) for row in rows[:3]] == [
        ("failed", "failing"),
        ("ok", "latency +20.0 %"),
        ("ok", "-"),
    ]


@pytest.mark.usefixtures("seeded")
def test_a_failed_case_opens_with_reason_and_log(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("run", run="run-012", case=dashboard_stores.FAILING.key)
    assert texts_of(page, "log", "facts") == words
    assert page.expander[0].proto.expanded


@pytest.mark.usefixtures("seeded")
def test_a_case_explains_its_warnings_and_graph_breaks(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    case = make_case("llama", mode="reduce-overhead", device="cuda")
    page = open_page("run", case=case.key)
    text = text_of(page)
    assert "reduce-overhead (fell back to " in text
    assert texts_of_rows(page, "warnings") == words
    compiled = text_of(open_page("run", case=case.key, tab="compile"))
    assert "Graph breaks: 1" in compiled
    assert "call to print" in compiled
    assert "model.py:12" in compiled
    assert "hud run --model llama --mode reduce-overhead" in text


@pytest.mark.usefixtures("seeded")
def test_the_environment_is_listed(open_page: OpenPage) -> None:
    rows = dict(texts_of_rows(open_page("run"), "environment"))
    assert rows["driver_version"] == "560.28"
    assert rows["flags"] == '{"TORCHINDUCTOR_CACHE_DIR": "", "allow_tf32": true}'


def test_the_cases_of_a_run_took_what_their_results_took(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    run = dashboard_stores.fill_running(
        store, num_done=3, started_at=dashboard_stores.NOW - timedelta(hours=10)
    )
    assert " cases took 30 s " in text_of(open_page("run"))
    (row,) = cells_of_rows(open_page("runs"), "runs")
    assert row["cases took (s)"] == "30.0"
    assert "finished after" not in text_of(open_page("run"))
    ended_at = run.started_at + timedelta(minutes=4, seconds=27)
    store.save_run(replace(run, state=RunState.FINISHED, finished_at=ended_at))
    # As the terminal says it: with what lies between the cases.
    assert texts_of(open_page("run"), "facts") == words


def test_a_run_without_a_result_took_nothing_yet(open_page: OpenPage, store: Store) -> None:
    dashboard_stores.fill_running(
        store, num_done=0, started_at=dashboard_stores.NOW - timedelta(hours=10)
    )
    assert " cases took - " in text_of(open_page("run"))
    (row,) = cells_of_rows(open_page("runs"), "runs")
    assert (row["cases took (s)"], row["passed"], row["planned"]) == ("-", "-", "20")


def test_what_is_still_to_do_is_listed(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    dashboard_stores.fill_running(store, num_done=3, started_at=dashboard_stores.NOW)
    page = open_page("run", case=dashboard_stores.cases()[5].key)
    states = [row[2] for row in texts_of_rows(page, "cases of the run")]
    assert states == ["ok"] * 3 + ["to do"] * 17
    assert texts_of(page, "notice", "empty") == words


@pytest.mark.usefixtures("seeded")
def test_a_case_of_another_plan_is_reported(open_page: OpenPage, words: SnapshotAssertion) -> None:
    assert texts_of(open_page("run", case="a/b"), "notice", "empty") == words


@pytest.mark.usefixtures("seeded")
def test_runs_are_listed_newest_first(open_page: OpenPage) -> None:
    page = open_page("runs")
    rows = cells_of_rows(page, "runs")
    assert [row["run"] for row in rows[:2]] == ["run-015", "run-014"]
    names = ("started (UTC)", "state", "passed", "ok", "not ok", "other outcomes", "planned")
    shown = ["2026-01-16 02:30", "finished", "95 %", "19", "1", "1 failed", "20"]
    assert [rows[0][name] for name in names] == shown
    assert rows[0]["cases took (min)"] == "3.33"
    assert "run?run=run-015" in links_of(page)


def test_a_run_that_fell_silent_is_not_called_running(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    dashboard_stores.fill_running(
        store, num_done=3, started_at=dashboard_stores.NOW - timedelta(minutes=5)
    )
    page = open_page("runs")
    assert cells_of_rows(page, "runs")[0]["state"] == "silent"
    assert texts_of(page, "notice", "empty") == words


def test_an_interrupted_run_without_results_names_the_next_step(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    run = dashboard_stores.fill_running(store, num_done=0, started_at=dashboard_stores.NOW)
    store.interrupt_stale_runs(older_than_s=-1e9)
    assert run.plan
    assert texts_of(open_page("overview"), "notice", "empty") == words


@pytest.mark.usefixtures("seeded")
def test_a_page_reads_the_store_once_a_version(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_page("overview")
    monkeypatch.setattr(latest_results, "load_latest", lambda *_, **__: pytest.fail("read again"))
    assert "2 open regressions" in text_of(open_page("overview"))

"""Two toolchains measured in turn on one machine: no page mixes their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.data import runs, series
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import make_case, make_run
from tests.support.pages.page_elements import links_of, text_of, texts_of, texts_of_rows
from tests.support.stores import dashboard_stores

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

MATRIX = "latest results, model by variant"
CHOICE = "choice-toolchain"
BERT = make_case("bert").key
VIT = make_case("vit").key


@pytest.fixture
def in_turn(store: Store) -> None:
    """Fill the store of this test with two toolchains."""
    dashboard_stores.fill_two_toolchains(store)


def has_choice(page: AppTest) -> bool:
    """Return whether one can choose a toolchain."""
    return CHOICE in [box.key for box in page.selectbox]


def medians(page: AppTest) -> list[str]:
    """Return the medians of the points of a series, newest first."""
    return [row[1] for row in texts_of_rows(page, "points")]


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("path", "params"), [("overview", {}), ("series", {"case": dashboard_stores.REGRESSED.key})]
)
def test_a_single_toolchain_is_neither_offered_nor_named(
    path: str, params: dict[str, str], open_page: OpenPage
) -> None:
    page = open_page(path, **params)
    assert not has_choice(page)
    assert " toolchain stable" not in text_of(page)


@pytest.mark.usefixtures("in_turn")
def test_the_overview_shows_the_toolchain_of_the_newest_run(open_page: OpenPage) -> None:
    page = open_page("overview", metric="latency_s")
    rows = {row[0]: row[1:] for row in texts_of_rows(page, MATRIX)}
    assert rows == {
        "bert": ["20.0", "10.0 latency +10.0 %", "10.0"],
        "vit": ["-", "failed log", "-"],
    }
    assert "nightly of night 3" in text_of(page)
    assert page.selectbox(key=CHOICE).value == "nightly"
    assert list(page.selectbox(key=CHOICE).options) == ["nightly", "stable"]


@pytest.mark.usefixtures("in_turn")
def test_choosing_a_toolchain_changes_the_cells_and_their_marks(open_page: OpenPage) -> None:
    page = open_page("overview", metric="latency_s")
    page.selectbox(key=CHOICE).select("stable").run()
    assert page.query_params["toolchain"] == "stable"
    rows = {row[0]: row[1:] for row in texts_of_rows(page, MATRIX)}
    assert rows == {"bert": ["40.0", "20.0 latency +30.0 %"], "vit": ["-", "20.0"]}
    assert "stable of night 3" in text_of(page)


@pytest.mark.usefixtures("in_turn")
def test_open_alerts_of_all_toolchains_are_listed_with_their_toolchain(
    open_page: OpenPage,
) -> None:
    page = open_page("overview", toolchain="stable")
    events = texts_of(page, "event")
    assert [event.rpartition("toolchain ")[2].split(",")[0] for event in events] == [
        "stable",
        "nightly",
    ]
    assert sum(link.startswith("alerts?alert=") for link in links_of(page)) == 2


@pytest.mark.usefixtures("in_turn")
def test_a_toolchain_without_results_names_which_have_some(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("overview", toolchain="ghost")
    assert texts_of(page, "notice", "empty") == words
    assert page.selectbox(key=CHOICE).value == "ghost"


@pytest.mark.usefixtures("seeded")
def test_a_wrong_toolchain_can_be_taken_back_where_there_is_one(open_page: OpenPage) -> None:
    page = open_page("overview", toolchain="ghost")
    page.selectbox(key=CHOICE).select("stable").run()
    assert texts_of_rows(page, MATRIX)


@pytest.mark.usefixtures("in_turn")
def test_a_series_shows_the_toolchain_of_its_newest_point(open_page: OpenPage) -> None:
    page = open_page("series", case=BERT)
    assert medians(page) == ["10.0"] * dashboard_stores.NUM_TURNS
    text = text_of(page)
    assert "regression: +10.0 %" in text
    assert "regression: +30.0 %" not in text
    assert "--toolchain nightly" in text


@pytest.mark.usefixtures("in_turn")
def test_choosing_another_toolchain_changes_the_whole_series(open_page: OpenPage) -> None:
    page = open_page("series", case=BERT)
    trends = [_trend(page)]
    page.selectbox(key=CHOICE).select("stable").run()
    trends.append(_trend(page))
    assert page.query_params["toolchain"] == "stable"
    assert medians(page) == ["20.0"] * dashboard_stores.NUM_TURNS
    text = text_of(page)
    assert "regression: +30.0 %" in text
    assert "regression: +10.0 %" not in text
    assert "--toolchain stable" in text
    assert ["nightly-3" in trend for trend in trends] == [True, False]
    assert ["stable-3" in trend for trend in trends] == [False, True]


@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize(
    ("toolchain", "latest"),
    [("nightly", ["20.0 ms", "10.0 ms", "10.0 ms"]), ("stable", ["40.0 ms", "20.0 ms"])],
)
def test_other_variants_have_their_values_in_the_same_toolchain(
    toolchain: str, latest: list[str], open_page: OpenPage
) -> None:
    page = open_page("series", case=BERT, toolchain=toolchain)
    assert texts_of_rows(page, "the same case in other variants") == [latest]
    links = [link for link in links_of(page) if link.startswith("series?")]
    assert links
    assert all(f"toolchain={toolchain}" in link for link in links)


@pytest.mark.usefixtures("in_turn")
def test_without_points_the_outcomes_are_those_of_the_toolchain(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("series", case=VIT, toolchain="nightly")
    assert texts_of(page, "notice", "empty") == words
    assert [row[1] for row in texts_of_rows(page, "outcomes")] == [
        "failed"
    ] * dashboard_stores.NUM_TURNS
    assert has_choice(page)


@pytest.mark.usefixtures("in_turn")
def test_an_unmeasured_metric_shows_the_newest_outcomes(open_page: OpenPage) -> None:
    page = open_page("series", case=VIT, metric="speedup")
    assert [row[1] for row in texts_of_rows(page, "outcomes")] == [
        "failed"
    ] * dashboard_stores.NUM_TURNS


@pytest.mark.usefixtures("in_turn")
def test_a_series_in_an_unknown_toolchain_is_not_there(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("series", case=BERT, toolchain="ghost")
    text = text_of(page)
    assert "No such series" in text
    assert texts_of(page, "notice", "empty") == words


@pytest.mark.usefixtures("in_turn")
def test_a_case_of_long_ago_without_points_is_of_no_toolchain(
    open_page: OpenPage, store: Store, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    for module in (runs, series):
        monkeypatch.setattr(module, "MAX_RUNS", 1)
    store.save_run(make_run("other", plan=[make_case("unet")], started_at=dashboard_stores.NOW))
    page = open_page("series", case=BERT, metric="speedup")
    assert texts_of(page, "notice", "empty") == words
    assert not has_choice(page)


@pytest.mark.usefixtures("seeded")
def test_a_machine_whose_first_run_has_no_result_yet_offers_no_toolchain(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    store.save_run(make_run("going", machine="lab", started_at=dashboard_stores.NOW))
    page = open_page("overview")
    assert texts_of(page, "notice", "empty") == words
    assert not has_choice(page)


@pytest.mark.usefixtures("in_turn")
def test_a_run_leads_to_the_series_of_its_toolchain(open_page: OpenPage) -> None:
    page = open_page("run", run="stable-2", case=BERT)
    links = [link for link in links_of(page) if link.startswith("series?")]
    assert len(links) > 1
    assert all("toolchain=stable" in link for link in links)
    assert "--toolchain stable" in text_of(page)


def _trend(page: AppTest) -> str:
    return str(page.get("vega_lite_chart")[0].proto.spec)

"""The overview: events that need attention, the trend, the matrix, and what changed."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.html import small_trend
from compile_hud.app.views.alerts import undo
from compile_hud.app.views.overview import trend_view, view
from compile_hud.db.alerts.revisions import put_revisions
from compile_hud.db.queries.alerts import load_alert, load_changes
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.triage import JUDGE, Revision
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import set_state
from tests.app.conftest import OpenPage
from tests.support.builders import make_alert, make_case, make_run, make_run_ref
from tests.support.pages.page_elements import (
    cells_of_rows,
    html_of,
    link_buttons_of,
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
SLOWER = "alert-1"


@pytest.fixture
def store(seeded: Path) -> Store:
    """Return the filled store that the pages show."""
    return Store(f"duckdb:///{seeded}")


def buttons_of(page: AppTest) -> list[str]:
    """Return the keys of the buttons that acknowledge."""
    return [item.key for item in page.button if str(item.key).startswith("acknowledge-")]


def test_events_come_the_worst_first_with_severity_age_and_owner(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    save_alerts(store, [dataclasses.replace(load_alert(store, SLOWER), owner="eve")])
    page = open_page("overview")
    assert texts_of(page, "event") == words
    assert any(link.startswith("alerts?alert=") for link in links_of(page))


def test_a_long_list_has_six_events_and_counts_the_others(
    store: Store, open_page: OpenPage
) -> None:
    alerts = [
        make_alert(f"more-{number}", case=make_case(f"m{number}", device="cuda"))
        for number in range(9)
    ]
    save_alerts(store, alerts)
    page = open_page("overview")
    assert len(texts_of(page, "event")) == 6
    assert "Needs attention (6 of 11)" in text_of(page)


@pytest.mark.usefixtures("anybody_triages")
def test_one_click_acknowledges_an_event_and_another_takes_it_back(
    store: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (undo, trend_view):
        monkeypatch.setattr(module, "remembered_name", lambda: "eve")
    page = open_page("overview")
    assert len(buttons_of(page)) == 2
    page.button(f"acknowledge-{SLOWER}").click().run()
    assert load_alert(store, SLOWER).state is AlertState.ACKNOWLEDGED
    assert "bert / default: acknowledged." in html_of(page)
    assert len(texts_of(page, "event")) == 1
    page.button("decide-undo").click().run()
    assert load_alert(store, SLOWER).state is AlertState.OPEN
    assert len(texts_of(page, "event")) == 2
    assert {item.by.partition(" ")[0] for item in load_changes(store)} == {"eve"}


@pytest.mark.usefixtures("anybody_triages")
def test_a_decision_of_another_person_is_not_overwritten(
    store: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (undo, trend_view):
        monkeypatch.setattr(module, "remembered_name", lambda: "eve")
    page = open_page("overview")
    store.revise_alerts(set_state([SLOWER], AlertState.NOISE), by="bob")
    page.button(f"acknowledge-{SLOWER}").click().run()
    assert load_alert(store, SLOWER).state is AlertState.NOISE
    assert "Not saved: " in html_of(page)


@pytest.mark.usefixtures("seeded")
def test_without_the_role_there_is_no_button(open_page: OpenPage) -> None:
    page = open_page("overview")
    assert buttons_of(page) == []
    assert len(texts_of(page, "event")) == 2


@pytest.mark.usefixtures("seeded", "anybody_triages")
def test_without_a_name_the_page_of_the_alert_asks_for_one(open_page: OpenPage) -> None:
    page = open_page("overview")
    assert buttons_of(page) == []
    assert f"alerts?alert={SLOWER}" in link_buttons_of(page).values()


@pytest.mark.usefixtures("seeded")
def test_the_switch_of_the_trend_is_in_the_url(open_page: OpenPage) -> None:
    page = open_page("overview", trend="compile_cold_s")
    assert page.get("button_group")
    assert any(
        link.startswith("trends?") and "metric=compile_cold_s" in link for link in links_of(page)
    )
    assert "energy" not in text_of(page)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("params", "models"),
    [
        ({}, ["unet", "bert", "llama", "resnet50"]),
        ({"sort": "model"}, ["bert", "llama", "resnet50", "unet"]),
        ({"sort": "-model"}, ["unet", "resnet50", "llama", "bert"]),
        ({"sort": "default"}, ["bert", "unet", "llama", "resnet50"]),
        ({"sort": "no such column"}, ["unet", "bert", "llama", "resnet50"]),
        ({"only": "failing"}, ["unet"]),
        ({"only": "alerts", "sort": "model"}, ["bert", "resnet50", "unet"]),
    ],
)
def test_order_and_rows_of_the_matrix_are_in_the_url(
    params: dict[str, str], models: list[str], open_page: OpenPage
) -> None:
    page = open_page("overview", **params)
    assert [row[0] for row in texts_of_rows(page, MATRIX)] == models


@pytest.mark.usefixtures("seeded")
def test_the_matrix_shows_changes_instead_of_values(open_page: OpenPage) -> None:
    page = open_page("overview", heat="change")
    rows = {row[0]: row[1:] for row in texts_of_rows(page, MATRIX)}
    assert rows["bert"][1].split()[1] == "%"
    assert "1.17x" in rows["bert"][1]
    assert "off the median" in text_of(page)


@pytest.mark.usefixtures("seeded")
def test_what_changed_is_that_since_the_run_before_on_a_first_visit(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    assert texts_of(open_page("overview"), "news") == words


@pytest.mark.usefixtures("seeded")
def test_what_changed_since_a_visit_includes_the_driver(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    visit = dashboard_stores.NOW - timedelta(days=12)
    monkeypatch.setattr(view, "last_visit", lambda: visit)
    page = open_page("overview")
    assert texts_of(page, "news") == words
    assert "Since the run before" not in text_of(page)


@pytest.mark.usefixtures("seeded")
def test_a_visit_after_the_newest_run_has_seen_everything(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "last_visit", lambda: dashboard_stores.NOW - timedelta(hours=1))
    page = open_page("overview")
    assert texts_of(page, "news") == []
    assert "no new run" in text_of(page)


@pytest.mark.usefixtures("seeded")
def test_a_failing_case_has_the_same_latency_on_the_overview_and_in_the_list(
    open_page: OpenPage,
) -> None:
    (failing,) = (
        row["last runs"]
        for row in cells_of_rows(open_page("alerts"), "events")
        if row["event"].startswith("unet")
    )
    values = [float(text) for text in failing.split(", ")]
    assert len(values) == dashboard_stores.BAD_NIGHT
    line = small_trend(values, least_range=0.02)
    assert line in html_of(open_page("overview"))


def test_a_first_judgement_of_an_old_history_is_no_news(store: Store, open_page: OpenPage) -> None:
    newest = dashboard_stores.night(dashboard_stores.NUM_NIGHTS - 1, plan=()).started_at

    def alerts_of(when: str, days: int) -> list[Alert]:
        at = newest - timedelta(days=days)
        first = make_run_ref(make_run(f"night-{days}", started_at=at))
        gain = make_alert(
            f"{when}-gain",
            case=make_case(f"{when}-gain"),
            verdict=Verdict.IMPROVEMENT,
            change_pct=-31.0,
            first_bad=first,
            last_seen=newest,
        )
        back = make_alert(
            f"{when}-back",
            case=make_case(f"{when}-back"),
            state=AlertState.FIXED,
            first_bad=make_run_ref(make_run("old", started_at=at - timedelta(days=9))),
            last_seen=at,
        )
        return [gain, back]

    alerts = [*alerts_of("old", 45), *alerts_of("recent", 3)]
    with store.write() as connection:
        put_revisions(
            connection,
            [Revision(alert=alert) for alert in alerts],
            by=JUDGE,
            at=dashboard_stores.NOW,
        )
    lines = [f"{when}-{kind} / " for when in ("recent", "old") for kind in ("back", "gain")]
    shown = html_of(open_page("overview")).partition("hud-news")[2].partition("<details")[0]
    assert [line in shown for line in lines] == [True, True, False, False]

"""Alerts that come while a page is open."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Verdict
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import make_alert, make_case
from tests.support.pages.page_elements import html_of, links_of, text_of, texts_of
from tests.support.stores import dashboard_stores
from tests.support.stores.stored_results import save_alerts


@pytest.fixture
def store(seeded: Path) -> Store:
    """Return the filled store that the pages show."""
    return Store(f"duckdb:///{seeded}", now=lambda: dashboard_stores.NOW)


def new(number: int, *, model: str = "llama") -> Alert:
    return make_alert(f"new-{number}", case=make_case(model, device="cuda"))


@pytest.mark.parametrize("path", ["runs", "health", "overview"])
def test_alerts_older_than_the_page_are_no_news(
    path: str, open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    page = open_page(path)
    assert "new alert" not in text_of(page)
    assert not page.toast
    save_alerts(store, [new(1)])
    page.run()
    assert texts_of(page, "notice") == words
    assert "alerts?alert=new-1" in links_of(page)
    assert [item.value for item in page.toast] == words


def test_a_new_alert_toasts_once_and_is_shown_until_read(open_page: OpenPage, store: Store) -> None:
    page = open_page("runs")
    save_alerts(store, [new(number) for number in range(5)])
    page.run()
    assert "5 new alerts: " in text_of(page)
    assert "2 more" in text_of(page)
    page.run()
    assert not page.toast
    assert "5 new alerts: " in text_of(page)


def test_the_list_of_alerts_is_where_one_looks(open_page: OpenPage, store: Store) -> None:
    page = open_page("alerts")
    save_alerts(store, [new(1)])
    page.run()
    assert "new alert" not in text_of(page)


def test_neither_improvements_nor_settled_alerts_nor_markup_are_news(
    open_page: OpenPage, store: Store
) -> None:
    page = open_page("runs")
    better = make_alert("better", verdict=Verdict.IMPROVEMENT)
    settled = make_alert("settled", state=AlertState.NOISE)
    save_alerts(store, [better, settled])
    page.run()
    assert "new alert" not in text_of(page)
    save_alerts(store, [new(1, model="<script>alert(1)</script>")])
    page.run()
    assert "1 new alert: <script>" in text_of(page)
    assert "<script" not in html_of(page)

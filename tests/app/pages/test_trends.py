"""The page of trends."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app import clock
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.pages.page_elements import (
    html_of,
    link_buttons_of,
    links_of,
    text_of,
    texts_of_rows,
)
from tests.support.stores.trend_stores import NUM_NIGHTS, fill_trends, night

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

SUMMARY = "newest values and changes"


@pytest.fixture
def trends_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    fill_trends(store)

    def now() -> datetime:
        return night(NUM_NIGHTS)

    monkeypatch.setattr(clock, "now", now)
    return store


def _compare_urls(page: AppTest) -> list[str]:
    return [url for url in link_buttons_of(page).values() if url.startswith("compare?")]


def specs_of(page: AppTest) -> list[dict[str, Any]]:
    """Return the specifications of the charts of a page."""
    return [json.loads(item.proto.spec) for item in page.get("vega_lite_chart")]


def test_page_says_which_mode_is_the_fastest_and_how_each_developed(
    trends_store: Store,  # noqa: ARG001
    open_page: OpenPage,
    words: SnapshotAssertion,
) -> None:
    page = open_page("trends")
    assert text_of(page) == words


def test_each_mode_is_a_chart_with_a_panel_for_each_metric(
    trends_store: Store,  # noqa: ARG001
    open_page: OpenPage,
) -> None:
    specs = specs_of(open_page("trends"))
    assert [spec["title"]["text"] for spec in specs] == [
        *("default", "reduce-overhead", "max-autotune"),
    ]
    assert [view["title"]["text"].split()[0] for view in specs[0]["vconcat"]] == [
        *("speedup", "pass", "cold", "peak"),
    ]


def test_ends_of_the_range_are_one_click_from_their_comparison(
    trends_store: Store,  # noqa: ARG001
    open_page: OpenPage,
) -> None:
    whole, part, days = (
        _compare_urls(open_page("trends", **params))
        for params in (
            {},
            {"since": "2026-01-02", "until": "2026-01-04T12:00"},
            {"since": "2026-01-03", "until": "2026-01-05"},
        )
    )
    assert whole == ["compare?baseline=night-0-box&candidate=night-5-box"]
    assert part == ["compare?baseline=night-1-box&candidate=night-3-box"]
    assert days == ["compare?baseline=night-2-box&candidate=night-4-box"]


def test_filters_of_the_url_select_trends(
    trends_store: Store,  # noqa: ARG001
    open_page: OpenPage,
) -> None:
    page = open_page("trends", by="model", mode="default", scale="relative")
    assert [row[0] for row in texts_of_rows(page, SUMMARY)] == ["bert", "t5", "vit"]
    assert [spec["title"]["text"] for spec in specs_of(page)] == [
        *("bert / default", "t5 / default", "vit / default"),
    ]


def test_values_of_the_url_that_do_not_exist_are_named(
    trends_store: Store,  # noqa: ARG001
    open_page: OpenPage,
    words: SnapshotAssertion,
) -> None:
    page = open_page("trends", range="8", by="colour", since="soon")
    notices = [text for text in html_of(page).split("<div") if "The URL asks" in text]
    assert notices == words


def test_single_run_is_learning(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    fill_trends(store, num_nights=1)
    assert text_of(open_page("trends")) == words


def test_range_without_runs_leads_to_all_runs(
    seeded: Path,  # noqa: ARG001
    open_page: OpenPage,
    words: SnapshotAssertion,
) -> None:
    page = open_page("trends", since="2031-01-01")
    assert text_of(page) == words
    assert "trends?range=all" in links_of(page)

"""The page of modes: the recommendation, the front, break-even model by model."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.data.cache import read_cache
from compile_hud.db.jobs.health import SchedulerState, save_scheduler
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.pages.page_elements import links_of, text_of, texts_of, texts_of_rows
from tests.support.stores import dashboard_stores

MODES = "modes over the common cohort"
MODELS = "speedup and break-even by model"


@pytest.mark.usefixtures("seeded")
def test_the_page_answers_first_and_shows_the_cohort(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("modes")
    assert not page.exception
    assert texts_of(page, "notice") == words
    assert "Ship max-autotune" in text_of(page)
    rows = texts_of_rows(page, MODES)
    assert [row[0] for row in rows][:2] == ["max-autotune", "reduce-overhead"]
    assert rows[0][2:4] == ["31.5 s", "1.00x"]
    assert rows[0][4] == "3 of 4 3 ok"
    # All compile as long, so that all others are off the front.
    assert rows[0][5] == "yes"
    assert all(row[5].startswith("no: ") and "max-autotune" in row[5] for row in rows[1:])


@pytest.mark.usefixtures("seeded")
def test_every_model_has_its_break_even_and_leads_to_its_series(open_page: OpenPage) -> None:
    page = open_page("modes")
    rows = {row[0]: row[1:] for row in texts_of_rows(page, MODELS)}
    assert rows["unet"][2] == "failed"
    # 31.5 s over 12.3 ms x (1 - 1 / 2.05), give or take the night.
    assert rows["bert"][2].startswith("2.05x after 5,000 [")
    assert rows["llama"][1].endswith("ran as default")
    assert any(link.startswith("series?case=bert%2F") for link in links_of(page))
    assert any(link.startswith("run?run=run-015&case=unet%2F") for link in links_of(page))


@pytest.mark.usefixtures("seeded")
def test_the_cache_is_in_the_url(open_page: OpenPage, words: SnapshotAssertion) -> None:
    page = open_page("modes", cache="warm")
    assert texts_of(page, "notice") == words
    page.selectbox(key="choice-cache").select("cold").run()
    assert "cache" not in page.query_params
    assert texts_of(page, "notice") == words


def test_a_store_without_compile_times_reports_what_is_missing(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    dashboard_stores.fill_two_toolchains(store)
    page = open_page("modes")
    text = text_of(page)
    assert texts_of(page, "h1") == words
    assert "no compile time" in text


@pytest.mark.usefixtures("seeded")
def test_a_silent_scheduler_is_the_first_notice(
    open_page: OpenPage, seeded: Path, words: SnapshotAssertion
) -> None:
    store = Store(f"duckdb:///{seeded}")
    assert "has been silent" not in text_of(open_page("modes"))
    state = SchedulerState(
        machine="box",
        process="host/1/1",
        version="0",
        started_at=dashboard_stores.NOW - timedelta(days=2),
        heartbeat_at=dashboard_stores.NOW - timedelta(hours=5),
    )
    save_scheduler(store, state)
    read_cache().clear()
    page = open_page("modes")
    assert texts_of(page, "notice") == words
    save_scheduler(store, dataclasses.replace(state, heartbeat_at=dashboard_stores.NOW))
    read_cache().clear()
    assert "has been silent" not in text_of(open_page("modes"))

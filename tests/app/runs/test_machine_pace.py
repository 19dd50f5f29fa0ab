"""Pages show the normalised value of a CPU time, which is judged, next to the measured one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.pages.page_elements import (
    cells_of_rows,
    text_of,
    texts_of,
)
from tests.support.stores import dashboard_stores

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


@pytest.fixture
def store(store: Store) -> Store:
    """Return a store with a machine that was slower for three nights."""
    dashboard_stores.fill_normalised(store)
    return store


def chart(page: AppTest) -> dict[str, Any]:
    """Return the specification of the first chart of a page."""
    spec: dict[str, Any] = json.loads(page.get("vega_lite_chart")[0].proto.spec)
    return spec


@pytest.mark.usefixtures("store")
def test_series_has_levels_that_a_slow_machine_does_not_move(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("series", case=dashboard_stores.NORMALISED.key)
    rows = cells_of_rows(page, "points")[::-1]
    medians = ["11.0" if night in dashboard_stores.SLOW_NIGHTS else "10.0" for night in range(8)]
    assert [row["median (ms)"] for row in rows] == medians
    assert [row["normalised (ms)"] for row in rows] == ["10.0"] * 8
    assert {row["change"].lstrip("+-") for row in rows[1:]} == {"0.0 %"}
    assert texts_of(page, "facts") == words
    assert "normalised for machine" in text_of(page)
    assert "level_shown" in json.dumps(chart(page))


@pytest.mark.usefixtures("store")
def test_what_is_no_time_has_no_second_level(open_page: OpenPage) -> None:
    page = open_page("series", case=dashboard_stores.NORMALISED.key, metric="peak_bytes")
    assert not [name for name in cells_of_rows(page, "points")[0] if "normalised" in name]
    assert "one pace" not in text_of(page)


@pytest.mark.usefixtures("store")
def test_page_of_an_alert_draws_its_change_whatever_became_of_it(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("alerts", alert="paced")
    assert texts_of(page, "facts") == words
    spec = json.dumps(chart(page))
    assert "regression: +20.0 %, noise" in spec
    assert "level_shown" in spec
    alone = json.dumps(chart(open_page("series", case=dashboard_stores.NORMALISED.key)))
    assert "regression: " not in alone

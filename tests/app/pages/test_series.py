"""The drawings of the page of a series, and their state in the URL."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app import clock
from tests.app.conftest import OpenPage
from tests.support.builders import make_case
from tests.support.pages.page_elements import text_of, texts_of, texts_of_rows
from tests.support.stores import dashboard_stores

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

SERIES = {"case": dashboard_stores.REGRESSED.key}
# A case without an alert.
SIBLING = make_case("llama", mode="default", device="cuda").key


def trend_of(page: AppTest) -> dict[str, Any]:
    """Return the specification of the first chart of a page."""
    spec: dict[str, Any] = json.loads(page.get("vega_lite_chart")[0].proto.spec)
    return spec


def drawn_runs(page: AppTest) -> set[str]:
    """Return the ids of the runs whose points are drawn."""
    data = [layer["data"] for layer in trend_of(page)["layer"]]
    points = next(rows["values"] for rows in data if "run_id" in rows.get("values", [{}])[0])
    return {row["run_id"] for row in points}


@pytest.mark.usefixtures("seeded")
def test_a_part_of_a_series_in_the_url_is_what_is_drawn(open_page: OpenPage) -> None:
    page = open_page("series", **SERIES, since="2026-01-03T00:00", until="2026-01-05T00:00")
    assert drawn_runs(page) == {"run-002", "run-003"}
    assert "2026-01-03 00:00 UTC to 2026-01-05 00:00 UTC" in text_of(page)
    page.button(key="whole").click().run()
    assert not {"since", "until"} & set(page.query_params)
    assert len(texts_of_rows(page, "points")) == dashboard_stores.NUM_NIGHTS


@pytest.mark.usefixtures("seeded")
def test_the_range_is_drawn_and_reaches_back_to_an_ongoing_alert(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = dashboard_stores.BAD_NIGHT - 1
    night = dashboard_stores.START
    # The last 30 days begin three nights after the last good run, and two before it.
    for first, num_drawn in ((good + 3, good), (good - 2, good - 2)):
        now = night + timedelta(days=first + 30)
        monkeypatch.setattr(clock, "now", lambda now=now: now)
        page = open_page("series", **SERIES, range="30")
        runs = {f"run-{number:03d}" for number in range(num_drawn, dashboard_stores.NUM_NIGHTS)}
        assert drawn_runs(page) == runs
        assert f"{num_drawn} older runs" in text_of(page)
    page.button(key="whole").click().run()
    assert page.query_params["range"] == "all"
    assert len(drawn_runs(page)) == dashboard_stores.NUM_NIGHTS


@pytest.mark.usefixtures("seeded")
def test_the_range_reaches_back_to_the_chosen_result(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: dashboard_stores.START + timedelta(days=40))
    name = f"run-005-{dashboard_stores.REGRESSED.model}-{dashboard_stores.REGRESSED.variant}"
    page = open_page("series", **SERIES, range="30", result=name)
    assert min(drawn_runs(page)) == "run-005"


@pytest.mark.usefixtures("seeded")
def test_a_series_without_runs_in_the_range_is_drawn_whole(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: dashboard_stores.START + timedelta(days=400))
    page = open_page("series", case=SIBLING, range="30")
    assert len(drawn_runs(page)) == dashboard_stores.NUM_NIGHTS


@pytest.mark.usefixtures("seeded")
def test_a_part_in_which_nothing_was_measured_reports_it(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("series", **SERIES, since="9999-01-01T00:00")
    assert texts_of(page, "notice") == words
    assert len(texts_of_rows(page, "points")) == dashboard_stores.NUM_NIGHTS


@pytest.mark.usefixtures("seeded")
def test_a_case_that_fails_now_reports_the_age_of_its_value(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("series", case=dashboard_stores.FAILING.key)
    assert texts_of(page, "notice") == words
    num_failed = dashboard_stores.NUM_NIGHTS - dashboard_stores.BAD_NIGHT
    assert [row[1] for row in texts_of_rows(page, "outcomes")] == ["failed"] * num_failed
    sound = open_page("series", **SERIES)
    assert not any("no value" in text for text in texts_of(sound, "notice"))
    assert "Runs without a value" not in texts_of(sound, "h2")


@pytest.mark.usefixtures("seeded")
def test_single_samples_are_drawn_on_request_and_the_url_reports_it(open_page: OpenPage) -> None:
    page = open_page("series", **SERIES)
    num_layers = len(trend_of(page)["layer"])
    page.checkbox(key="raw").check().run()
    assert page.query_params["raw"] == "yes"
    spec = trend_of(page)
    assert len(spec["layer"]) == num_layers + 1
    samples = [layer for layer in spec["layer"] if layer["mark"].get("size") == 9]
    assert len(samples[0]["data"]["values"]) == 24 * dashboard_stores.NUM_NIGHTS
    page.checkbox(key="raw").uncheck().run()
    assert "raw" not in page.query_params


@pytest.mark.usefixtures("seeded")
def test_the_samples_that_are_left_out_are_those_of_what_is_drawn(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Room for three runs.
    monkeypatch.setattr("compile_hud.app.data.series.MAX_SAMPLES", 24 * 3)
    whole = open_page("series", **SERIES, raw="yes")
    assert "newest 3 runs" in text_of(whole)
    part = {"since": "2026-01-03T00:00", "until": "2026-01-05T00:00"}
    assert "of the newest" not in text_of(open_page("series", **SERIES, raw="yes", **part))


@pytest.mark.usefixtures("seeded")
def test_a_last_day_is_drawn_whole(open_page: OpenPage) -> None:
    page = open_page("series", **SERIES, since="2026-01-03", until="2026-01-05")
    assert drawn_runs(page) == {"run-002", "run-003", "run-004"}
    assert "2026-01-03 00:00 UTC to 2026-01-05 23:59 UTC" in text_of(page)
    assert "The URL asks" not in text_of(page)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    "params",
    [
        {"since": "2026-12-01T00:00", "until": "2026-01-01T00:00"},
        {"since": "yesterday"},
        {"since": "\uff12026-01-03"},
        {"until": "2026-02-30"},
        {"raw": "maybe"},
    ],
)
def test_an_invalid_part_is_reported(
    params: dict[str, str], open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("series", **SERIES, **params)
    assert not page.exception
    assert texts_of(page, "notice") == words

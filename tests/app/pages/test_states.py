"""Every view on every kind of store: each draws, and names the problem and a remedy."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from compile_hud.app.components import page_frame as components
from compile_hud.app.data import store as data
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.main import VIEWS
from compile_hud.db.errors import StoreLocked, StoreUnavailable
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.pages.page_elements import html_of, text_of
from tests.support.stores import dashboard_stores

every_view = pytest.mark.parametrize("path", [view.path for view in VIEWS])
SERIES = {"case": dashboard_stores.REGRESSED.key}
VARIANTS = {"baseline_variant": "eager", "candidate_variant": "default"}


def params_of(path: str) -> dict[str, str]:
    """Return the parameters that make a view of the filled store show data."""
    return SERIES if path == "series" else {}


@every_view
def test_an_empty_store_says_what_to_do(path: str, open_page: OpenPage) -> None:
    page = open_page(path)
    assert not page.exception
    assert {
        "overview": "Nothing has been measured yet",
        "compare": "Nothing has been measured yet",
        "models": "Nothing has been measured yet",
        "modes": "Nothing has been measured yet",
        "alerts": "No alerts",
        "series": "Which series?",
        "run": "No such run",
        "kernels": "No such result",
        "kernel-diff": "No such run",
        "runs": "No runs yet",
        "studies": "No run of this study yet",
        "health": "No scheduler has used this store Runs must be started by hand",
        "settings": "No settings",
    }[path] in text_of(page)


@every_view
def test_looking_at_an_empty_store_does_not_create_it(
    path: str, open_page: OpenPage, store_path: Path
) -> None:
    open_page(path)
    assert not store_path.exists()


@pytest.mark.usefixtures("seeded")
@every_view
def test_a_filled_store_is_shown(path: str, open_page: OpenPage) -> None:
    page = open_page(path, **params_of(path))
    assert not page.exception
    other = {"studies": "No run of this study yet", "health": "No scheduler has worked on this"}
    other["settings"] = "No settings"
    assert other.get(path, "2.13.0.dev202601") in text_of(page)
    assert "SYNTHETIC" not in text_of(page)


@every_view
def test_a_running_run_shows_its_progress_on_every_page(
    path: str, open_page: OpenPage, store: Store
) -> None:
    dashboard_stores.fill_running(
        store, num_done=7, started_at=dashboard_stores.NOW - timedelta(seconds=35)
    )
    text = text_of(
        open_page(path, case=dashboard_stores.cases()[0].key)
        if path == "series"
        else open_page(path)
    )
    assert "Run run-going (quick, stable): 7 of 20 cases, now resnet50 reduce-overhead" in text
    assert "started 35 s ago, about 2 min 34 s left" in text


@every_view
def test_the_first_run_before_its_first_result(
    path: str, open_page: OpenPage, store: Store
) -> None:
    dashboard_stores.fill_running(store, num_done=0, started_at=dashboard_stores.NOW)
    page = open_page(path)
    assert not page.exception
    assert "0 of 20 cases, now bert eager, started 0 s ago" in text_of(page)
    assert "The first run has stopped" not in text_of(page)
    assert " left" not in text_of(page)


@every_view
def test_a_locked_store_says_who_to_wait_for(path: str, open_page: OpenPage, locked: str) -> None:
    page = open_page(path, **params_of(path))
    assert not page.exception
    assert "The store is locked" in text_of(page)
    assert locked in text_of(page)
    assert "hud ingest stores them. This page loads by itself" in text_of(page)


@every_view
def test_a_store_of_a_newer_version_says_to_upgrade(
    path: str, open_page: OpenPage, seeded: Path
) -> None:
    with duckdb.connect(str(seeded)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    page = open_page(path, **params_of(path))
    assert not page.exception
    assert "The store is newer than this dashboard" in text_of(page)
    assert "Upgrade Compile HUD, or name another store with --store." in text_of(page)


@pytest.mark.parametrize(
    ("revision", "advice"),
    [("m0015", "hud db migrate upgrades it"), ("m0001", "docs/upgrading.md has the steps")],
)
def test_a_store_of_an_older_version_says_what_upgrades_it(
    revision: str, advice: str, open_page: OpenPage, seeded: Path
) -> None:
    with duckdb.connect(str(seeded)) as connection:
        connection.execute(f"UPDATE alembic_version SET version_num = '{revision}'")
    page = open_page("overview")
    assert not page.exception
    assert "The store is older than this dashboard" in text_of(page)
    assert advice in text_of(page)
    assert "loads by itself once it is upgraded" in text_of(page)


def test_a_first_run_whose_runner_died_is_not_said_to_be_going(
    open_page: OpenPage, store: Store
) -> None:
    dashboard_stores.fill_running(
        store, num_done=0, started_at=dashboard_stores.NOW - timedelta(hours=3)
    )
    text = text_of(open_page("overview"))
    assert "no heartbeat for 3 h 00 min" in text
    assert "The first run has stopped" in text
    assert "The first run is going" not in text


@every_view
def test_a_url_that_is_none_says_which_are(
    path: str, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(data.URL_VARIABLE, "mysql://nobody@nowhere/nothing")
    page = open_page(path)
    assert not page.exception
    assert "The store cannot be read" in text_of(page)
    assert "duckdb:////absolute/path.duckdb" in text_of(page)


@every_view
def test_names_that_are_markup_are_shown_as_text(
    path: str, open_page: OpenPage, store: Store
) -> None:
    run = dashboard_stores.fill_hostile(store)
    params = {"case": run.plan[0].key} if path in ("series", "run", "kernels") else {}
    if path == "kernel-diff":
        params = {"baseline_case": run.plan[0].key}
    if path == "compare":
        params = {"baseline": "latest", "candidate": "latest", **VARIANTS}
    page = open_page(path, **params)
    assert not page.exception
    html = html_of(page)
    for element in ("<script", "<b>", "<i>", "<img", "<u>"):
        assert element not in html
    other = {"runs": "<i>hostile</i>", "studies": "No run of this study yet"}
    other |= {"health": "No scheduler has used this store", "settings": "No settings"}
    shown = other.get(path, "<script>alert('x')</script>")
    assert shown in text_of(page)


@every_view
def test_synthetic_data_are_always_called_so(path: str, open_page: OpenPage, store: Store) -> None:
    dashboard_stores.fill(store, num_nights=2, is_synthetic=True)
    page = open_page(path, **params_of(path))
    assert not page.exception
    assert "SYNTHETIC DATA" in text_of(page)


@every_view
@pytest.mark.usefixtures("seeded")
def test_a_misspelt_parameter_is_reported(path: str, open_page: OpenPage) -> None:
    page = open_page(path, **params_of(path), metrc="latency_s")
    assert not page.exception
    assert "The URL has a parameter 'metrc' that this page does not know" in text_of(page)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("path", "params", "title"),
    [
        ("run", {"run": "run-unknown"}, "No such run"),
        ("series", {"case": "no/such/case"}, "No such series"),
        ("series", {**SERIES, "machine": "elsewhere"}, "No such series"),
        ("series", {**SERIES, "metric": "graphs"}, "No points"),
        ("runs", {"machine": "elsewhere"}, "Nothing matches the filter"),
        ("overview", {"machine": "elsewhere"}, "Nothing matches the filters"),
        ("overview", {"model": "elsewhere"}, "Nothing matches the filters"),
        ("compare", {"model": "elsewhere"}, "Nothing matches the filters"),
        ("modes", {"model": "elsewhere"}, "Nothing matches the filters"),
        ("models", {"text": "elsewhere"}, "Nothing matches the filters"),
        ("compare", {"baseline": "elsewhere"}, "Nothing to compare with"),
    ],
)
def test_what_is_not_there_is_a_page_with_a_way_on(
    path: str, params: dict[str, str], title: str, open_page: OpenPage
) -> None:
    page = open_page(path, **params)
    assert not page.exception
    assert title in text_of(page)


@pytest.mark.usefixtures("seeded")
def test_a_store_locked_later_is_shown_as_it_was_read(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_page("overview")
    fresh = data.store_version()

    def locked(*_: object) -> None:
        raise StoreLocked("held by process 4711")

    monkeypatch.setattr(data, "store_version", lambda: fresh + 1)
    monkeypatch.setattr(Store, "read", locked)
    page = open_page("overview")
    assert not page.exception
    assert "Shown as it was last read: held by process 4711" in text_of(page)
    assert "2 cases need attention: 1 failing, 1 worse" in text_of(page)


def test_an_unavailable_store_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[object] = []
    monkeypatch.setattr(components, "_retrying", tries.append)
    monkeypatch.setattr(components, "state_page", lambda *_args, **_values: None)

    def unavailable() -> None:
        raise StoreUnavailable("no server")

    components.guarded(unavailable)
    assert tries == [[]]


def test_nothing_is_said_about_fresh_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "_retrying", lambda _: pytest.fail("tried again"))
    components.stale_note(Loaded(value=1, version=1))

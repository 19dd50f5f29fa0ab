"""Every view on every kind of store: each draws, and names the problem and a remedy."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components import page_frame as components
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.store import URL_VARIABLE, store_version
from compile_hud.app.main import VIEWS
from compile_hud.db.errors import StoreLocked, StoreUnavailable
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.pages.page_elements import html_of, text_of, texts_of
from tests.support.stores import dashboard_stores

every_view = pytest.mark.parametrize("path", [view.path for view in VIEWS])
SERIES = {"case": dashboard_stores.REGRESSED.key}
VARIANTS = {"baseline_variant": "eager", "candidate_variant": "default"}


def params_of(path: str) -> dict[str, str]:
    """Return the parameters that make a view of the filled store show data."""
    model = {"model": dashboard_stores.REGRESSED.model}
    return {"series": SERIES, "model": model, "search": {"text": "run-0"}}.get(path, {})


@every_view
def test_an_empty_store_names_the_next_step(
    path: str, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page(path)
    assert not page.exception
    assert texts_of(page, "notice", "empty") == words


@every_view
def test_looking_at_an_empty_store_does_not_create_it(
    path: str, open_page: OpenPage, store_path: Path
) -> None:
    open_page(path)
    assert not store_path.exists()


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("path", ["overview", "alerts"])
def test_a_store_that_cannot_be_written_is_shown_and_says_so(
    path: str, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    assert "READ-ONLY" not in text_of(open_page(path))
    access = os.access

    def may(name: Any, mode: int) -> bool:
        return access(name, mode) and not mode & os.W_OK

    monkeypatch.setattr(os, "access", may)
    page = open_page(path)
    assert not page.exception
    assert [text for text in texts_of(page, "notice") if "READ-ONLY" in text] == words


@pytest.mark.usefixtures("seeded")
@every_view
def test_a_filled_store_is_shown(path: str, open_page: OpenPage) -> None:
    page = open_page(path, **params_of(path))
    assert not page.exception
    other = {"studies": "No run of this study yet", "health": "No scheduler has used this"}
    other |= {"settings": "No settings", "receivers": "No receivers"}
    other |= {"release": "No release was measured yet"}
    assert other.get(path, "2.13.0.dev202601") in text_of(page)
    assert "SYNTHETIC" not in text_of(page)


@every_view
def test_a_running_run_shows_its_progress_on_every_page(
    path: str, open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    dashboard_stores.fill_running(
        store, num_done=7, started_at=dashboard_stores.NOW - timedelta(seconds=35)
    )
    page = (
        open_page(path, case=dashboard_stores.cases()[0].key)
        if path == "series"
        else open_page(path)
    )
    assert texts_of(page, "notice", "empty") == words


@every_view
def test_the_first_run_before_its_first_result(
    path: str, open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    dashboard_stores.fill_running(store, num_done=0, started_at=dashboard_stores.NOW)
    page = open_page(path)
    assert not page.exception
    assert texts_of(page, "notice", "empty") == words
    assert " left" not in text_of(page)


@every_view
def test_a_locked_store_names_the_holder_of_its_lock(
    path: str, open_page: OpenPage, locked: str, words: SnapshotAssertion
) -> None:
    page = open_page(path, **params_of(path))
    assert not page.exception
    assert [text.replace(locked, "HOLDER") for text in texts_of(page, "empty")] == words
    assert locked in text_of(page)


@every_view
def test_a_store_of_a_newer_version_reports_to_upgrade(
    path: str, open_page: OpenPage, seeded: Path, words: SnapshotAssertion
) -> None:
    with duckdb.connect(str(seeded)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    page = open_page(path, **params_of(path))
    assert not page.exception
    assert texts_of(page, "notice", "empty") == words


@pytest.mark.parametrize("revision", ["m0015", "m0001"])
def test_a_store_of_an_older_version_reports_what_upgrades_it(
    revision: str, open_page: OpenPage, seeded: Path, words: SnapshotAssertion
) -> None:
    with duckdb.connect(str(seeded)) as connection:
        connection.execute(f"UPDATE alembic_version SET version_num = '{revision}'")
    page = open_page("overview")
    assert not page.exception
    assert texts_of(page, "notice", "empty") == words


def test_a_first_run_whose_runner_died_is_not_shown_as_running(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    dashboard_stores.fill_running(
        store, num_done=0, started_at=dashboard_stores.NOW - timedelta(hours=3)
    )
    page = open_page("overview")
    assert texts_of(page, "notice") == words
    assert texts_of(page, "empty") == words


@every_view
def test_an_invalid_url_is_answered_with_valid_ones(
    path: str, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setenv(URL_VARIABLE, "mysql://nobody@nowhere/nothing")
    page = open_page(path)
    assert not page.exception
    assert texts_of(page, "notice", "empty") == words
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
    if path == "search":
        params = {"text": "alert"}
    if path == "model":
        params = {"model": run.plan[0].model}
    page = open_page(path, **params)
    assert not page.exception
    html = html_of(page)
    for element in ("<script", "<b>", "<i>", "<img", "<u>"):
        assert element not in html
    # A trend needs two runs.
    other = dict.fromkeys(("runs", "trends", "revisions"), "<i>hostile</i>")
    other |= {"studies": "No run of this study yet"}
    other |= {"health": "No scheduler has used this store", "settings": "No settings"}
    other |= {"receivers": "No receivers", "release": "No release was measured yet"}
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
def test_a_misspelt_parameter_is_reported(
    path: str, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page(path, **params_of(path), metrc="latency_s")
    assert not page.exception
    assert texts_of(page, "notice", "empty") == words


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("run", {"run": "run-unknown"}),
        ("series", {"case": "no/such/case"}),
        ("series", {**SERIES, "machine": "elsewhere"}),
        ("series", {**SERIES, "metric": "graphs"}),
        ("runs", {"machine": "elsewhere"}),
        ("overview", {"machine": "elsewhere"}),
        ("overview", {"model": "elsewhere"}),
        ("compare", {"model": "elsewhere"}),
        ("modes", {"model": "elsewhere"}),
        ("models", {"text": "elsewhere"}),
        ("compare", {"baseline": "elsewhere"}),
    ],
)
def test_a_missing_object_is_a_page_with_a_next_step(
    path: str, params: dict[str, str], open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page(path, **params)
    assert not page.exception
    assert texts_of(page, "empty") == words


@pytest.mark.usefixtures("seeded")
def test_a_store_locked_later_is_shown_as_it_was_read(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    open_page("overview")
    fresh = store_version()

    def locked(*_: object) -> None:
        raise StoreLocked("held by process 4711")

    monkeypatch.setattr("compile_hud.app.data.store.store_version", lambda: fresh + 1)
    monkeypatch.setattr(Store, "read", locked)
    page = open_page("overview")
    assert not page.exception
    assert texts_of(page, "notice", "empty", "h1") == words


def test_an_unavailable_store_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[object] = []
    monkeypatch.setattr(components, "_retrying", tries.append)
    monkeypatch.setattr(components, "state_page", lambda *_args, **_values: None)

    def unavailable() -> None:
        raise StoreUnavailable("no server")

    components.guarded(unavailable)
    assert tries == [[]]


def test_nothing_is_reported_about_fresh_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "_retrying", lambda _: pytest.fail("tried again"))
    components.stale_note(Loaded(value=1, version=1))

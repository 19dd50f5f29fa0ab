"""The page of models: what is measured and why, and how each model does."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.nightly import daily_first
from tests.support.pages.page_elements import (
    cells_of_rows,
    links_of,
    text_of,
    texts_of,
)
from tests.support.stores import dashboard_stores


@pytest.mark.usefixtures("seeded")
def test_every_model_has_its_health(open_page: OpenPage, words: SnapshotAssertion) -> None:
    page = open_page("models")
    assert not page.exception
    assert texts_of(page, "h1") == words
    rows = {row["model"]: row for row in cells_of_rows(page, "models")}
    modes = [rows["unet"][name] for name in dashboard_stores.MODES]
    assert modes == ["ok", "ok", "ok", "failed", "ok"]
    assert (rows["unet"]["passed"], rows["unet"]["max-autotune"]) == ("80 %", "failed")
    assert rows["bert"]["open alerts"] == "1"
    names = ("family", "last ok (UTC)", "noise (%)", "cold compile (s)")
    shown = ["transformer", "2026-01-16 02:30", "0.684", "31.5"]
    assert [rows["resnet50"][name] for name in names] == shown
    assert any(link.startswith("model?") and "model=unet" in link for link in links_of(page))


@pytest.mark.usefixtures("seeded")
def test_a_search_is_in_the_url_and_reports_when_nothing_fits(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("models", text="resnet")
    assert [row["model"] for row in cells_of_rows(page, "models")] == ["resnet50"]
    page.text_input(key="choice-text").input("zzz").run()
    assert page.query_params["text"] == "zzz"
    assert texts_of(page, "empty") == words


@pytest.mark.parametrize("page", daily_first(["overview", "models", "modes"], num_daily=1))
@pytest.mark.parametrize("num_nights", [1, 2])
def test_the_first_run_of_its_suite_is_not_offered_to_be_compared(
    open_page: OpenPage, store: Store, page: str, num_nights: int
) -> None:
    dashboard_stores.fill(store, num_nights=num_nights)
    # Older than all, of the same cases on the same machine, and of another suite.
    other = dashboard_stores.night(-1, plan=dashboard_stores.cases(), suite="other")
    for case in other.plan:
        store.ingest(other, dashboard_stores.result_of(other, case, number=-1), spool_id=case.key)
    store.save_run(other)
    opened = open_page(page)
    assert not opened.exception
    is_offered = any("compare?candidate=" in link for link in links_of(opened))
    assert is_offered is (num_nights > 1)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("path", ["overview", "models", "modes"])
def test_an_unknown_machine_is_named_with_those_that_have_results(
    open_page: OpenPage, path: str
) -> None:
    page = open_page(path, machine="lab-<7>", device="cuda")
    assert not page.exception
    assert "No such machine" in text_of(page)
    assert "lab-<7>" in text_of(page)
    assert any("machine=box&device=cuda" in link for link in links_of(page))
    # Steps that set up a schedule would not bring the machine.
    assert texts_of(page, "steps") == []
    assert "Learning" not in text_of(page)

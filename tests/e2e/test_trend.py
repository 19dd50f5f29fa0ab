"""The trend of a series in a real browser: what clicks, brushes and small buttons do."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Download, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.e2e.conftest import Watched
from tests.support.pages.dashboard import IDLE
from tests.support.pages.grids import grid_named
from tests.support.stores import dashboard_stores

pytestmark = pytest.mark.slow

SERIES = f"series?case={quote(dashboard_stores.REGRESSED.key, safe='')}"
POINTS = "[data-testid=stVegaLiteChart] g.mark-symbol path[aria-label*='run started']"
# On a busy machine a browser begins with a download when other work leaves it the time.
DOWNLOAD_MS = 60_000


def open_series(page: Page, address: str) -> None:
    page.goto(f"{address}/{SERIES}")
    expect(page.locator(POINTS)).to_have_count(dashboard_stores.NUM_NIGHTS)
    # Until the page is drawn to its end things still move.
    expect(grid_named(page, "points")).to_be_visible()
    page.wait_for_selector(IDLE)


def position_of(page: Page, number: int) -> tuple[float, float]:
    """Return where in the window the point of a night is."""
    box = page.locator(POINTS).nth(number).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_two_clicks_with_shift_compare_and_the_way_back_is_one_step(
    watched: Watched, address: str
) -> None:
    page = watched.page
    open_series(page, address)
    page.keyboard.down("Shift")
    page.mouse.click(*position_of(page, 11))
    # The point that was picked is drawn larger.
    expect(page.locator(POINTS).nth(11)).to_have_attribute("stroke-width", "8")
    page.mouse.click(*position_of(page, 8))
    page.keyboard.up("Shift")
    expect(page).to_have_url(
        re.compile(r"/compare\?baseline=run-008&candidate=run-011&model=bert$")
    )
    page.go_back()
    expect(page).to_have_url(re.compile(r"/series\?case=bert"))
    expect(page.get_by_role("heading", name="bert default")).to_be_visible()


@pytest.mark.nightly
def test_a_brushed_part_is_in_the_url_and_outlives_a_reload(watched: Watched, address: str) -> None:
    page = watched.page
    open_series(page, address)
    (first, y), (last, _) = position_of(page, 4), position_of(page, 8)
    page.mouse.move(first - 20, y - 40)
    page.mouse.down()
    page.mouse.move(last + 20, y - 30, steps=5)
    page.mouse.up()
    expect(page.locator(POINTS)).to_have_count(5)
    expect(page).to_have_url(re.compile("since=2026-01-04T.*until=2026-01-09T"))
    page.reload()
    expect(page.locator(POINTS)).to_have_count(5)
    page.get_by_role("button", name="Show all").click()
    expect(page.locator(POINTS)).to_have_count(dashboard_stores.NUM_NIGHTS)


def downloaded(page: Page, name: str) -> Download:
    """Return what the button `name` gives; a click while the page is drawn anew is lost."""
    for timeout_ms in (DOWNLOAD_MS / 4, DOWNLOAD_MS):
        page.wait_for_selector(IDLE)
        try:
            with page.expect_download(timeout=timeout_ms) as download:
                page.get_by_role("button", name=name, exact=True).click()
        except PlaywrightTimeout:
            continue
        return download.value
    pytest.fail(f"the button {name} gave nothing")


def test_a_view_can_be_taken_along(watched: Watched, address: str, tmp_path: Path) -> None:
    page = watched.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_series(page, address)
    copied = {}
    buttons = {"Copy link": "link", "Copy as Markdown": "Markdown", "Copy command": "command"}
    for name, what in buttons.items():
        page.get_by_role("button", name=name).click()
        expect(page.get_by_text(f"The {what} is copied.", exact=True)).to_be_visible()
        copied[name] = page.evaluate("navigator.clipboard.readText()")
    assert copied["Copy link"] == f"{address}/{SERIES}"
    assert f"- {address}/{SERIES}\n" in copied["Copy as Markdown"]
    assert copied["Copy command"].startswith("hud run --model bert --mode default")
    saved = {}
    for name in ("PNG", "SVG", "CSV"):
        download = downloaded(page, name)
        path = tmp_path / download.suggested_filename
        download.save_as(path)
        saved[path.name] = path.read_bytes()
    assert saved["bert-default-latency_s.png"].startswith(b"\x89PNG")
    assert b"regression: +20.0 %" in saved["bert-default-latency_s.svg"]
    assert saved["bert-default-latency_s.csv"].startswith(b"run_started_utc,median,")

    # What stands for the newest now stays what it is in a link.
    page.goto(f"{address}/compare")
    page.get_by_role("button", name="Copy as Markdown").click()
    expect(page.get_by_text("The Markdown is copied.", exact=True)).to_be_visible()
    text = page.evaluate("navigator.clipboard.readText()")
    assert f"- {address}/compare?baseline=run-014&candidate=run-015\n" in text
    assert "hud compare -- run-014 run-015" in text
    # The way back takes the filter along.
    verdict = page.get_by_role("combobox", name="Verdict")
    # A list that opens at the lower edge of the window scrolls the page, which closes it again.
    verdict.evaluate("element => element.scrollIntoView({block: 'center'})")
    verdict.click()
    page.get_by_role("option", name="unchanged").click()
    expect(page).to_have_url(f"{address}/compare?verdict=unchanged")
    expect(verdict).to_have_value("unchanged")
    page.go_back()
    expect(page).to_have_url(f"{address}/compare")
    expect(verdict).to_have_value("all")

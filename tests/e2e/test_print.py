"""Pages on paper, and the time of the browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from compile_hud.app.ui.urls import series_url
from tests.support.pages.dashboard import IDLE, window
from tests.support.stores.dashboard_stores import REGRESSED

pytestmark = pytest.mark.slow

PRESSED = ".stButton, .stDownloadButton, .hud-button, .stCheckbox, [data-testid=stHeader]"
AXIS_TEXT = "svg.marks .role-axis-label text"


@pytest.fixture
def printed(browser: Browser, address: str) -> Iterator[Page]:
    """Return the page of a series as a dark browser prints it."""
    with window(browser, scheme="dark") as context:
        view = context.new_page()
        view.goto(f"{address}/{series_url(REGRESSED.key)}")
        view.wait_for_selector(IDLE)
        expect(view.locator(AXIS_TEXT).first).to_be_visible()
        assert view.locator(PRESSED).locator("visible=true").count()
        view.emulate_media(media="print")
        yield view


@pytest.mark.nightly
def test_paper_has_nothing_to_press(printed: Page) -> None:
    assert printed.locator(PRESSED).locator("visible=true").count() == 0
    expect(printed.locator(".hud-h1").first).to_be_visible()
    expect(printed.locator(".hud-signs").first).to_be_visible()


@pytest.mark.nightly
def test_each_sign_of_the_legend_is_drawn(printed: Page) -> None:
    read = "signs => signs.map(sign => getComputedStyle(sign).backgroundImage)"
    images = printed.locator(".hud-sign i").evaluate_all(read)
    assert len(images) > 3
    assert all(image.startswith('url("data:image/svg+xml,') for image in images)


@pytest.mark.nightly
def test_a_dark_screen_prints_dark_text_on_white(printed: Page) -> None:
    def style(selector: str, name: str) -> str:
        read = "(element, name) => getComputedStyle(element)[name]"
        return str(printed.locator(selector).first.evaluate(read, name))

    assert style(AXIS_TEXT, "fill") == "rgb(20, 23, 27)"
    assert style("svg.marks", "backgroundColor") == "rgb(255, 255, 255)"
    assert style(".stApp", "backgroundColor") == "rgb(255, 255, 255)"
    assert style(".hud-h1", "color") == "rgb(20, 23, 27)"
    assert printed.evaluate("document.documentElement.dataset.scheme") == "dark"


def test_paper_holds_the_whole_page(printed: Page) -> None:
    height = printed.evaluate("document.documentElement.scrollHeight")
    assert height > printed.locator(".hud-foot").evaluate("foot => foot.getBoundingClientRect().y")
    assert height > 1000


def test_times_are_those_of_the_zone_of_the_browser(browser: Browser, address: str) -> None:
    context = browser.new_context(timezone_id="Asia/Kolkata")
    try:
        view = context.new_page()
        view.goto(f"{address}/compare")
        view.wait_for_selector(IDLE)
        cell = view.locator("table.hud td", has_text=re.compile(r"UTC\+5:30$")).first
        expect(cell).to_be_visible()
        shown, tooltip = cell.inner_text(), cell.get_attribute("title") or ""
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", tooltip)
        assert shown[:16] != tooltip[:16]
    finally:
        context.close()

"""Keys that lead to a search, and code that keys can scroll."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Watched
from tests.e2e.test_sign_in import press_until
from tests.support.pages.dashboard import IDLE
from tests.support.stores import dashboard_stores

# A box as it stands before the alerts of an event of several models.
BOX = """
document.body.insertAdjacentHTML(
  'beforeend', '<input type="checkbox" id="box" aria-label="select 6 of 41 cases in 2 models">')
"""
FOCUSED = "document.activeElement.getAttribute('aria-label')"

GRID = "[data-testid=stDataFrame]"

# Streamlit says so itself while a script runs; this one does not end.
DRAWING = """
const app = () => document.querySelector("[data-test-script-state]");
const draw = () => {
  if (app().dataset.testScriptState !== "running") app().dataset.testScriptState = "running";
};
draw();
// An observer runs before the next key is handled; a timer comes late on a busy machine.
new MutationObserver(draw).observe(
  document.body, { attributes: true, childList: true, subtree: true });"""


def ready(page: Page, address: str) -> None:
    page.goto(address)
    # A page that has not begun is idle as well.
    expect(page.get_by_role("heading").first).to_be_visible()
    page.wait_for_selector(IDLE)


@pytest.mark.nightly
def test_the_search_of_a_page_goes_before_its_choices(watched: Watched, address: str) -> None:
    page = watched.page
    ready(page, f"{address}/models")
    press_until(page, "/", lambda: page.evaluate(FOCUSED) == "Search")


@pytest.mark.nightly
def test_a_page_that_is_being_drawn_is_not_left_for_want_of_a_search(
    watched: Watched, address: str
) -> None:
    page = watched.page
    ready(page, f"{address}/modes")
    page.evaluate(DRAWING)
    for _ in range(20):
        page.keyboard.press("/")
        page.wait_for_timeout(100)
    expect(page).to_have_url(re.compile("/modes$"))
    page.evaluate("""document.body.insertAdjacentHTML(
        'beforeend', '<input type="text" aria-label="Search">')""")
    press_until(page, "/", lambda: page.evaluate(FOCUSED) == "Search")
    # Nor when nothing comes for as long as a person would wait.
    page.evaluate("document.querySelector('[aria-label=Search]').remove()")
    page.keyboard.press("/")
    page.wait_for_timeout(6_000)
    expect(page).to_have_url(re.compile("/modes$"))


def test_the_key_leads_from_any_page_to_the_search(watched: Watched, address: str) -> None:
    page = watched.page
    ready(page, f"{address}/modes")
    page.evaluate(BOX)
    press_until(page, "/", lambda: "modes" not in page.url)
    expect(page).to_have_url(re.compile(re.escape(address) + "/search$"))
    page.wait_for_function(f"{FOCUSED} === 'Search everything'")
    page.keyboard.type("bert default")
    expect(page.get_by_label("Search everything")).to_have_value("bert default")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="cases").get_by_role("link").first).to_be_visible()
    expect(page).to_have_url(re.compile("text=bert"))


def test_code_that_scrolls_is_reached_by_keys_and_other_code_is_not(
    watched: Watched, address: str
) -> None:
    page = watched.page
    query = urlencode({"run": "run-012", "case": dashboard_stores.FAILING.key})
    ready(page, f"{address}/run?{query}")
    code = page.locator("[data-testid=stCode] pre").first
    code.evaluate("code => { code.style.width = '40px'; code.style.overflow = 'auto'; }")
    expect(code).to_have_js_property("tabIndex", 0)
    code.evaluate("code => { code.style.width = '4000px'; }")
    expect(code).to_have_js_property("tabIndex", -1)


SELECTED = f"{GRID} td[aria-selected=true]"


def test_a_grid_obeys_keys_after_the_mouse_has_left_it_and_escape_leaves_the_search(
    watched: Watched, address: str
) -> None:
    page = watched.page
    ready(page, f"{address}/alerts")
    # Without a search of its own, the page is left for that of everything.
    expect(page.get_by_label("Search", exact=True).first).to_be_visible()
    page.wait_for_selector(IDLE)
    press_until(page, "/", lambda: page.evaluate(FOCUSED) == "Search")
    page.keyboard.type("bert")
    expect(page.get_by_label("Search", exact=True).first).to_have_value("bert")
    page.keyboard.press("Enter")
    clear = page.get_by_role("button", name="Clear filters")
    expect(clear).to_be_visible()
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUSED) is None
    grid = page.locator(GRID).first
    grid.hover()
    clear.click()
    expect(clear).to_have_count(0)
    # The cells for screen readers wait for a pause between two keys.
    press_until(page, "j", lambda: page.locator(SELECTED).count() > 0, every_ms=600)


def test_the_entry_of_the_present_page_leads_to_the_plain_page(
    watched: Watched, address: str
) -> None:
    page = watched.page
    for filtered, entry, plain in (
        ("alerts?alert=alert-1", re.compile("^Alerts"), "alerts"),
        ("?range=30", "Overview", ""),
        ("modes?device=cuda", "Modes", "modes"),
    ):
        ready(page, f"{address}/{filtered}")
        link = page.get_by_role("link", name=entry).locator("visible=true").last
        for _ in range(100):
            # A click that the script does not hear yet is lost, as a key is.
            link.click()
            page.wait_for_timeout(100)
            if "?" not in page.url:
                break
        expect(page).to_have_url(f"{address}/{plain}")

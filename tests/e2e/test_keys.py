"""Keys that lead to a search, and code that keys can scroll."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from playwright.sync_api import Page, expect

from tests.app import stores
from tests.e2e.conftest import Watched
from tests.e2e.dashboard import IDLE
from tests.e2e.test_sign_in import press_until

# A box as it stands before the alerts of an event of several models.
BOX = """
document.body.insertAdjacentHTML(
  'beforeend', '<input type="checkbox" id="box" aria-label="select 6 of 41 cases in 2 models">')
"""
FOCUSED = "document.activeElement.getAttribute('aria-label')"


def ready(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector(IDLE)


def test_the_search_of_a_page_goes_before_its_choices(watched: Watched, address: str) -> None:
    page = watched.page
    ready(page, f"{address}/models")
    press_until(page, "/", lambda: page.evaluate(FOCUSED) == "Search")


def test_a_box_that_names_models_is_no_search(watched: Watched, address: str) -> None:
    page = watched.page
    ready(page, f"{address}/alerts")
    page.evaluate(BOX)
    press_until(page, "/", lambda: "alerts" not in page.url)
    expect(page).to_have_url(re.compile(re.escape(address) + "/?$"))
    page.wait_for_function(f"{FOCUSED} === 'Model'")


def test_code_that_scrolls_is_reached_by_keys_and_other_code_is_not(
    watched: Watched, address: str
) -> None:
    page = watched.page
    query = urlencode({"run": "run-012", "case": stores.FAILING.key})
    ready(page, f"{address}/run?{query}")
    code = page.locator("[data-testid=stCode] pre").first
    code.evaluate("code => { code.style.width = '40px'; code.style.overflow = 'auto'; }")
    expect(code).to_have_js_property("tabIndex", 0)
    code.evaluate("code => { code.style.width = '4000px'; }")
    expect(code).to_have_js_property("tabIndex", -1)

"""Clicks from a first page to an answer, as docs/explanation/compare-to.md has them.

test_owner.py counts those of a decision.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.conftest import Watched
from tests.support.stores import kernel_stores

pytestmark = pytest.mark.slow


@dataclass(slots=True)
class Clicks:
    """Counts the clicks of a test."""

    number: int = 0

    def on(self, target: Locator) -> None:
        """Click `target`."""
        target.click()
        self.number += 1


def test_open_regressions_are_on_the_first_page(watched: Watched, address: str) -> None:
    watched.page.goto(address)
    expect(watched.page.get_by_text(re.compile("open regression")).first).to_be_visible()


def test_trends_of_every_mode_are_one_click_away(watched: Watched, address: str) -> None:
    page, clicks = watched.page, Clicks()
    page.goto(address)
    clicks.on(page.get_by_role("link", name="Trends", exact=True).first)
    expect(page).to_have_url(re.compile(r"/trends"))
    expect(page.get_by_role("combobox", name="Range")).to_have_value("90 days")
    assert clicks.number == 1


def test_code_behind_an_alert_is_one_click_away(watched: Watched, address: str) -> None:
    page, clicks = watched.page, Clicks()
    page.goto(f"{address}/alerts?alert=alert-1")
    clicks.on(page.get_by_role("link", name="triton_poi_fused_add_gelu_0").first)
    code = page.get_by_test_id("stCode")
    expect(code.filter(has_text=f"+    {kernel_stores.NEW_LINE}").first).to_be_visible()
    assert clicks.number == 1

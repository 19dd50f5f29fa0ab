"""Tables on a canvas, through the elements that they have for screen readers."""

from __future__ import annotations

from urllib.parse import quote, urljoin

from playwright.sync_api import Locator, Page, expect


def grid_named(page: Page, label: str) -> Locator:
    """Return the table with this accessible name."""
    return page.get_by_test_id("stDataFrame").filter(has=page.get_by_label(label, exact=True))


def rows_of(page: Page, label: str) -> Locator:
    """Return the rows of the table with this accessible name."""
    return grid_named(page, label).locator("canvas tbody tr")


def follow(page: Page, label: str, text: str, *, row: Locator | None = None) -> None:
    """Open the first link with this text in a table, or in one of its rows."""
    cells = (row or rows_of(page, label)).locator("td")
    cell = cells.filter(has_text=f"./{quote(text, safe='')}/../").first
    expect(cell).to_be_attached()
    page.goto(urljoin(page.url, cell.text_content() or ""))

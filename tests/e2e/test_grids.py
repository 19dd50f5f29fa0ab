"""Links in the grid of a long table."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from compile_hud.app.components.table.view import ROW_HEIGHT
from tests.e2e.conftest import Watched
from tests.support.pages.dashboard import IDLE
from tests.support.pages.grids import grid_named, rows_of
from tests.support.stores.dashboard_stores import NUM_NIGHTS


def point_at_link(page: Page, label: str, *, row: int) -> None:
    """Move the mouse to the link in the first column of a row."""
    grid = grid_named(page, label)
    box = grid.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 30, box["y"] + ROW_HEIGHT * (row + 1.5))
    # The grid knows the cell under the mouse when it has the shape for links.
    expect(grid.locator("canvas").first).to_have_css("cursor", "pointer")


def test_a_link_opens_in_this_window_and_with_a_modifier_in_another(
    watched: Watched, address: str
) -> None:
    page = watched.page
    page.goto(f"{address}/runs")
    page.wait_for_selector(IDLE)
    expect(rows_of(page, "runs")).to_have_count(NUM_NIGHTS)
    point_at_link(page, "runs", row=1)
    with page.context.expect_page() as opened:
        page.keyboard.down("Control")
        page.mouse.down()
        page.mouse.up()
        page.keyboard.up("Control")
    expect(opened.value).to_have_url(f"{address}/run?run=run-014")
    opened.value.close()
    point_at_link(page, "runs", row=2)
    page.mouse.down()
    page.mouse.up()
    expect(page).to_have_url(f"{address}/run?run=run-013")
    expect(page.get_by_role("heading", name=re.compile("^Run run-013$"))).to_be_visible()
    page.go_back()
    expect(page).to_have_url(f"{address}/runs")

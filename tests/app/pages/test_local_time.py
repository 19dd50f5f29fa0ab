"""Times on pages are those of the browser; tooltips and files have UTC."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

import pytest

from compile_hud.app import clock
from tests.app.conftest import OpenPage
from tests.support.pages.page_elements import html_of, text_of
from tests.support.stores import dashboard_stores

PARAMS = {
    "overview": {},
    "series": {"case": dashboard_stores.REGRESSED.key},
    "compare": {},
    "trends": {"range": "all"},
    "run": {},
    "kernel-diff": {},
}
MOMENT_UTC = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("path", PARAMS)
def test_pages_show_the_time_of_the_browser(
    path: str, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "zone", lambda: ZoneInfo("Australia/Adelaide"))
    page = open_page(path, **PARAMS[path])
    assert not page.exception
    shown = re.findall(rf"{MOMENT_UTC}[+\d:]*", text_of(page))
    assert any(text.endswith("UTC+10:30") for text in shown)
    # A sentence about an alert is copied into messages, so it keeps UTC.
    others = [text for text in shown if not text.endswith("UTC+10:30")]
    assert len(others) <= (2 if path == "series" else 0)


@pytest.mark.usefixtures("seeded")
def test_a_tooltip_has_utc(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = set(re.findall(MOMENT_UTC, text_of(open_page("compare"))))
    assert len(shown) == 2
    monkeypatch.setattr(clock, "zone", lambda: ZoneInfo("America/Bogota"))
    tooltips = re.findall(f'title="({MOMENT_UTC})"', html_of(open_page("compare")))
    assert shown <= set(tooltips)

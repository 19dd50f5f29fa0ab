"""axe reports nothing serious on the pages, in both themes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser

from compile_hud.app.main import VIEWS
from tests.e2e.conftest import Watched
from tests.support.pages.dashboard import IDLE, window
from tests.support.stores import dashboard_stores

pytestmark = pytest.mark.slow

CASE = dashboard_stores.REGRESSED.key
_DIFF = {"baseline_run": "run-008", "baseline_case": CASE, "candidate_run": "run-009", "row": "1"}
# What is opened on a page that has more to show then.
OPENED = {
    "series": {"case": CASE, "result": "run-003-bert-default"},
    "run": {"run": "run-012", "case": dashboard_stores.FAILING.key},
    "kernels": {"run": "run-009", "case": CASE},
    "model": {"model": dashboard_stores.REGRESSED.model},
    "kernel-diff": _DIFF,
}
PAGES = [
    "",
    "alerts?alert=alert-1",
    f"run?{urlencode({'run': 'run-009', 'case': CASE, 'samples': 'latency_s'})}",
    *(f"{view.path}?{urlencode(OPENED.get(view.path, {}))}".rstrip("?") for view in VIEWS[1:]),
]
# Of pages that share their parts one is enough for every change; the night looks at all.
DAILY = ("", "alerts", "kernel-diff", "modes", "series")
# The elements that a reader of a phone would have to scroll sideways for, with the whole page.
WIDER = """[...document.querySelectorAll(".stMain *")].filter(element => {
    const box = element.getBoundingClientRect();
    if (!box.width || box.right <= innerWidth + 1) return false;
    for (let above = element.parentElement; above; above = above.parentElement) {
        if (above.classList.contains("stMain")) return true;
        if (getComputedStyle(above).overflowX !== "visible") return false;
    }
    return false;
}).map(element => element.outerHTML.slice(0, 120))"""
PHONE = {"width": 390, "height": 900}
GRAVE = ("serious", "critical")
# A page is drawn in parts, and code is drawn again once its colours have been loaded.
SETTLED = """() => new Promise(resolve => {
    let timer = 0;
    const observer = new MutationObserver(() => later());
    const later = () => {
        clearTimeout(timer);
        timer = setTimeout(() => { observer.disconnect(); resolve(true); }, 400);
    };
    observer.observe(document.body, { childList: true, subtree: true });
    later();
})"""
# What scrolls gets its place among the stops of the keyboard in the frame after the next.
REACHABLE = """[...document.querySelectorAll("[data-testid=stCode] pre")].every(
    code => code.tabIndex === 0
        || (code.scrollWidth <= code.clientWidth && code.scrollHeight <= code.clientHeight)
)"""


@pytest.fixture(scope="module")
def shared(browser: Browser) -> Iterator[Watched]:
    """Return a page for all tests: what it has loaded once it has."""
    with window(browser) as context:
        # A whole page with its chunks, on machines that are slow at times.
        context.set_default_timeout(60_000)
        yield Watched(context.new_page())


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(page, marks=() if page.partition("?")[0] in DAILY else pytest.mark.nightly)
        for page in PAGES
    ],
)
def test_nothing_on_a_page_is_a_serious_hindrance(path: str, shared: Watched, address: str) -> None:
    page = shared.page
    page.emulate_media(color_scheme="light")
    page.goto(f"{address}/{path}")
    page.wait_for_selector(IDLE)
    page.wait_for_load_state("networkidle")
    page.evaluate(SETTLED)
    page.wait_for_function(REACHABLE)
    page.evaluate(Path(AXE_FILE_PATH).read_text(encoding="utf-8"))
    hindrances_by_theme = {
        "light": hindrances(page.evaluate("axe.run({resultTypes: ['violations']})"))
    }
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "getComputedStyle(document.querySelector('.stApp')).colorScheme === 'dark'"
    )
    # Colours change by and by.
    page.wait_for_function("document.getAnimations().every(item => item.playState !== 'running')")
    hindrances_by_theme["dark"] = hindrances(
        page.evaluate("axe.run({runOnly: ['color-contrast']})")
    )
    assert hindrances_by_theme == {"light": [], "dark": []}
    size = page.viewport_size
    assert size
    page.set_viewport_size(PHONE)
    page.evaluate(SETTLED)
    wider = page.evaluate(WIDER)
    page.set_viewport_size(size)
    assert wider == []
    assert shared.complaints == []


def hindrances(results: dict[str, Any]) -> list[str]:
    """Return the grave violations, a line for each element."""
    return [
        f"{item['id']}: {node['html']}: {node['failureSummary']}"
        for item in results["violations"]
        if item["impact"] in GRAVE
        for node in item["nodes"]
    ]

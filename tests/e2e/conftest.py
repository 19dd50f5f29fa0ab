"""One browser and one dashboard process for all end-to-end tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from compile_hud.db.alerts.action_links import LINK_SECRET_VARIABLE
from compile_hud.db.records.results import Run
from compile_hud.db.store import Store, utc_now
from tests.support.pages.dashboard import CHROMIUM, browsing, serving, window
from tests.support.stores import dashboard_stores, kernel_stores

LINK_SECRET = "0123456789abcdef0123456789abcdef"


class Watched:
    """A page with what went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.foreign_requests: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("response", self._on_response)
        page.on("request", lambda request: self._on_request(request.url))
        page.on("console", lambda message: self._on_console(message.type, message.text))

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} {response.url}")

    def _on_request(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.foreign_requests.append(url)

    def _on_console(self, kind: str, text: str) -> None:
        # Vega's own warnings; others are of the browser.
        if kind == "error" or (kind == "warning" and text.startswith("WARN")):
            self.complaints.append(text)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Return Debian's Chromium; without it CI fails and others skip.

    For these tests alone: as long as it lives its event loop runs in the main thread.
    """
    if not CHROMIUM.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{CHROMIUM} is missing: apt-get install chromium")
        pytest.skip(f"{CHROMIUM} is missing: apt-get install chromium")
    # Shared machines are slow at times; what fails has waited long enough by then.
    expect.set_options(timeout=20_000)
    with browsing() as instance:
        yield instance


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store with a history, alerts, and kernels of the case that regressed."""
    store = Store(f"duckdb:///{tmp_path_factory.mktemp('e2e') / 'hud.duckdb'}")
    dashboard_stores.fill(store, treated=kernel_stores.with_kernels)
    return store


@pytest.fixture(scope="session")
def address(store: Store) -> Iterator[str]:
    """Return where a dashboard process serves the store."""
    with serving(store.url, **{LINK_SECRET_VARIABLE: LINK_SECRET}) as url:
        yield url


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """Return a page of a fresh profile; the test fails when something went wrong in it."""
    with window(browser) as context:
        context.set_default_timeout(20_000)
        watched = Watched(context.new_page())
        yield watched
        assert watched.complaints == []
        assert watched.foreign_requests == []


@pytest.fixture
def going(tmp_path: Path) -> tuple[Store, Run]:
    """Return a store of its own in which a run is going, seven of twenty cases done."""
    store = Store(f"duckdb:///{tmp_path / 'hud.duckdb'}")
    started_at = utc_now() - timedelta(seconds=30)
    return store, dashboard_stores.fill_running(store, num_done=7, started_at=started_at)

"""The local user signs in with the link of the terminal, decides, and opens a trace."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from compile_hud.db.queries.alerts import load_changes
from compile_hud.db.shared.local_sign_in import local_user
from compile_hud.db.store import Store
from tests.support.pages.dashboard import READY, ROOT, free_port, window
from tests.support.stores import dashboard_stores

TRACE = ROOT / "tests" / "fixtures" / "traces" / "compiled_h200.json.gz"
HUD = [sys.executable, "-P", "-m", "compile_hud.runner"]


@dataclass
class OwnedDashboard:
    """A dashboard that `hud serve` serves to its local user; `later` is its output after `link`."""

    folder: Path
    store: Store
    port: int
    link: str = ""
    links: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def alert(self) -> str:
        return f"{self.address}/alerts?alert=alert-1"

    def next_link(self) -> str:
        """Return the link of the terminal, and later the output of `hud sign-in`."""
        link = self._next_link() if self.links else self.link
        self.links.append(link)
        return link

    def _next_link(self) -> str:
        command = [*HUD, "sign-in", "--config", str(self.folder / "hud.toml")]
        shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return shown.stdout.strip()


def token_of(link: str) -> str:
    return link.partition("token=")[2]


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnedDashboard]:
    tmp_path = tmp_path_factory.mktemp("owner")
    store = Store(f"duckdb:///{tmp_path / 'hud.duckdb'}")
    dashboard_stores.fill(store)
    (tmp_path / "hud.toml").touch()
    dashboard = OwnedDashboard(folder=tmp_path, store=store, port=free_port())
    options = ["--port", str(dashboard.port), "--store", store.url]
    process = subprocess.Popen(
        [*HUD, "serve", *options, "--config", str(tmp_path / "hud.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        assert READY in process.stdout
        dashboard.link = process.stdout.readline().removeprefix("sign in: ").strip()
        yield dashboard
    finally:
        process.terminate()
        dashboard.later += process.stdout.read().splitlines()
        process.wait(timeout=30)
        process.stdout.close()
    assert not any(token_of(link) in "".join(dashboard.later) for link in dashboard.links)
    assert list((tmp_path / ".hud" / "sign-in").iterdir()) == []


def test_the_link_of_the_terminal_signs_one_browser_in_once(
    browser: Browser, dashboard: OwnedDashboard
) -> None:
    requests: list[str] = []
    link = dashboard.next_link()
    with window(browser) as context:
        page = context.new_page()
        page.goto(dashboard.alert)
        expect(page.get_by_text("Read-only: ")).to_be_visible()
        expect(page.get_by_role("button", name="Noise")).to_have_count(0)
        page.goto(link)
        expect(page.get_by_text(f"signed in as {local_user()} (admin)")).to_be_visible()
        assert token_of(link) not in page.url
        page.on("request", lambda request: requests.append(str(request.headers)))
        page.goto(dashboard.alert)
        page.get_by_role("button", name="Acknowledge", exact=True).click()
        changes = page.get_by_role("table", name="changes")
        expect(changes.get_by_role("cell", name="acknowledged")).to_be_visible()
        assert token_of(link) not in "".join(requests)
        page.get_by_role("button", name="Undo").click()
        expect(changes.get_by_role("cell", name="undo")).to_be_visible()
        page.goto(link)
        expect(page.get_by_text("(admin)")).to_be_visible()
        page.goto("about:blank")
    decided = [(item.by, item.new) for item in load_changes(dashboard.store, alert_id="alert-1")]
    assert decided == [(local_user(), "acknowledged"), (local_user(), "open")]


def test_another_browser_needs_the_next_link_and_signs_out(
    browser: Browser, dashboard: OwnedDashboard
) -> None:
    link = dashboard.next_link()
    with window(browser) as first, window(browser) as second:
        page = first.new_page()
        page.goto(link)
        expect(page.get_by_text("(admin)")).to_be_visible()
        page.goto("about:blank")
        page = second.new_page()
        page.goto(link)
        expect(page.get_by_text("This sign-in link is not valid")).to_be_visible()
        page.goto(dashboard.next_link())
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_text(re.compile("read-only"))).to_be_visible()
        page.goto("about:blank")


def test_a_trace_of_the_local_user_is_shown_and_that_of_a_visitor_is_not_taken(
    browser: Browser, dashboard: OwnedDashboard, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with window(browser) as context:
        page = context.new_page()
        page.goto(f"{dashboard.address}/kernels")
        expect(page.get_by_role("heading", name="Open a trace file")).to_be_visible()
        expect(page.locator("input[type=file]")).to_have_count(0)
        page.goto(dashboard.next_link())
        page.goto(f"{dashboard.address}/kernels")
        page.locator("input[type=file]").set_input_files(broken)
        expect(page.get_by_text("broken.json: byte")).to_be_visible()
        page.locator("input[type=file]").set_input_files(TRACE)
        title = page.get_by_role("heading", name=f"Kernels of {TRACE.name}")
        expect(title).to_be_visible()
        expect(page.get_by_text("NVIDIA H200")).to_be_visible()
        expect(page.get_by_text("broken.json: byte")).to_have_count(0)
        page.goto("about:blank")


def test_one_click_acknowledges_an_event_of_the_first_page(
    browser: Browser, dashboard: OwnedDashboard
) -> None:
    with window(browser) as context:
        page = context.new_page()
        page.goto(dashboard.next_link())
        page.get_by_role("button", name="Acknowledge").first.click()
        expect(page.get_by_role("button", name="Undo")).to_be_visible()
        page.goto("about:blank")

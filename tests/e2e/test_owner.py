"""The local user signs in with the link of the terminal, and decides."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, expect

from compile_hud.db.queries.alerts import load_changes
from compile_hud.db.shared.local_sign_in import local_user
from compile_hud.db.store import Store
from tests.support.pages.dashboard import READY, ROOT, free_port, window
from tests.support.stores import dashboard_stores


def test_the_link_of_the_terminal_signs_one_browser_in_once(
    browser: Browser, tmp_path: Path
) -> None:
    store = Store(f"duckdb:///{tmp_path / 'hud.duckdb'}")
    dashboard_stores.fill(store)
    (tmp_path / "hud.toml").touch()
    port = free_port()
    hud = [sys.executable, "-P", "-m", "compile_hud.runner"]
    settings = ["--config", str(tmp_path / "hud.toml")]
    process = subprocess.Popen(
        [*hud, "serve", "--port", str(port), "--store", store.url, *settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        assert READY in process.stdout
        link = process.stdout.readline().removeprefix("sign in: ").strip()
        token = link.partition("token=")[2]
        page_of_alert = f"http://127.0.0.1:{port}/alerts?alert=alert-1"
        requests: list[str] = []
        with window(browser) as context:
            page = context.new_page()
            page.goto(page_of_alert)
            expect(page.get_by_text("Read-only: ")).to_be_visible()
            expect(page.get_by_role("button", name="Noise")).to_have_count(0)
            page.goto(link)
            expect(page.get_by_text(f"signed in as {local_user()} (admin)")).to_be_visible()
            assert token not in page.url
            page.on("request", lambda request: requests.append(str(request.headers)))
            page.goto(page_of_alert)
            page.get_by_role("button", name="Acknowledge", exact=True).click()
            changes = page.get_by_role("table", name="changes")
            expect(changes.get_by_role("cell", name="acknowledged")).to_be_visible()
            assert token not in "".join(requests)
            page.goto(link)
            expect(page.get_by_text("(admin)")).to_be_visible()
            page.goto("about:blank")
        with window(browser) as context:
            page = context.new_page()
            page.goto(link)
            expect(page.get_by_text("This sign-in link is not valid")).to_be_visible()
            shown = subprocess.run(
                [*hud, "sign-in", *settings], cwd=ROOT, capture_output=True, text=True, check=True
            )
            page.goto(shown.stdout.strip())
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_text(re.compile("read-only"))).to_be_visible()
            page.goto("about:blank")
    finally:
        process.terminate()
        rest = process.stdout.read()
        process.wait(timeout=30)
        process.stdout.close()
    assert token not in rest
    (change,) = load_changes(store, alert_id="alert-1")
    assert (change.by, change.new) == (local_user(), "acknowledged")
    assert list((tmp_path / ".hud" / "sign-in").iterdir()) == []

"""The local user opens a trace file on the page of kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, expect

from compile_hud.db.store import Store
from tests.support.pages.dashboard import READY, ROOT, free_port, window
from tests.support.stores import dashboard_stores

TRACE = ROOT / "tests" / "fixtures" / "traces" / "compiled_h200.json.gz"


def test_a_trace_of_the_local_user_is_shown_and_that_of_a_visitor_is_not_taken(
    browser: Browser, tmp_path: Path
) -> None:
    store = Store(f"duckdb:///{tmp_path / 'hud.duckdb'}")
    dashboard_stores.fill(store)
    (tmp_path / "hud.toml").touch()
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    port = free_port()
    hud = [sys.executable, "-P", "-m", "compile_hud.runner", "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*hud, "--store", store.url, "--config", str(tmp_path / "hud.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        assert READY in process.stdout
        link = process.stdout.readline().removeprefix("sign in: ").strip()
        address = f"http://127.0.0.1:{port}/kernels"
        with window(browser) as context:
            page = context.new_page()
            page.goto(address)
            expect(page.get_by_role("heading", name="Open a trace file")).to_be_visible()
            expect(page.locator("input[type=file]")).to_have_count(0)
            page.goto(link)
            page.goto(address)
            page.locator("input[type=file]").set_input_files(broken)
            expect(page.get_by_text("broken.json: byte")).to_be_visible()
            page.locator("input[type=file]").set_input_files(TRACE)
            title = page.get_by_role("heading", name=f"Kernels of {TRACE.name}")
            expect(title).to_be_visible()
            expect(page.get_by_text("NVIDIA H200")).to_be_visible()
            expect(page.get_by_text("broken.json: byte")).to_have_count(0)
            page.goto("about:blank")
    finally:
        process.terminate()
        process.stdout.read()
        process.wait(timeout=30)
        process.stdout.close()

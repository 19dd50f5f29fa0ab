"""A real dashboard process on a free loopback port, and a real Chromium that opens it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ROOT = Path(__file__).parents[3]
# `python -m compile_hud.app` prints this when it listens.
READY = "dashboard ready\n"
# A page has this element when its script has ended and everything is drawn.
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"


@contextmanager
def serving(
    store_url: str, *, config: Path | None = None, port: int = 0, **env: str
) -> Iterator[str]:
    """Serve the dashboard of the store and yield its address.

    With a hud.toml, `hud serve` serves it. `env` adds variables to its environment.
    """
    port = port or free_port()
    command = ["compile_hud.app", "--port", str(port), "--store", store_url]
    if config is not None:
        command = ["compile_hud.runner", "serve", *command[1:], "--config", str(config)]
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", **env},
    )
    assert process.stdout is not None
    # Unread output would block the dashboard once the pipe is full.
    rest = threading.Thread(target=process.stdout.read, daemon=True)
    try:
        if READY not in process.stdout:
            raise RuntimeError(f"the dashboard ended with status {process.wait()}")
        rest.start()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)
        if rest.is_alive():
            rest.join()
        process.stdout.close()


@contextmanager
def browsing() -> Iterator[Browser]:
    """Yield Debian's Chromium, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=list(CHROMIUM_FLAGS)
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def window(
    browser: Browser, *, width: int = 1440, scheme: str = "light"
) -> Iterator[BrowserContext]:
    """Yield a fresh browser profile with a window of this width and colour scheme."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    try:
        yield context
    finally:
        context.close()


@contextmanager
def profile(folder: Path) -> Iterator[BrowserContext]:
    """Yield a window of a profile whose caches are in `folder`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder,
            executable_path=str(CHROMIUM),
            args=list(CHROMIUM_FLAGS),
            viewport={"width": 1440, "height": 900},
            color_scheme="light",
        )
        try:
            yield context
        finally:
            context.close()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

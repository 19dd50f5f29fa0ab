"""A real dashboard process on a free loopback port, and a real Chromium to look at it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, BrowserContext, sync_playwright

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
ROOT = Path(__file__).parents[2]
_START_TIMEOUT_S = 60.0
_POLL_S = 0.05


@contextmanager
def serving(store_url: str) -> Iterator[str]:
    """Serve the dashboard of the store and yield its address."""
    port = _free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "--port", str(port), "--store", store_url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_until_up(process, address)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Yield Debian's Chromium, driven by Playwright."""
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_up(process: subprocess.Popen[bytes], address: str) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise RuntimeError(f"the dashboard ended with status {process.returncode}")
        try:
            with urlopen(f"{address}/healthz", timeout=1) as answer:
                if answer.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(_POLL_S)
    raise RuntimeError(f"the dashboard did not come up within {_START_TIMEOUT_S:.0f} s")

"""Pages in Chromium: how long until they are whole, beside an empty page of Streamlit.

All pages are opened in turn, again and again in one window, so that whatever else the machine does
slows each as much as the others. The first round, before anything is cached, is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
from playwright.sync_api import Page

from benchmarks.dashboard.history import TOOLCHAIN, History
from benchmarks.startup import BenchmarkError
from db.plans import load_plans
from db.store import Store
from tests.e2e.dashboard import browsing, free_port, serving, window

EMPTY: Final = "empty"
_SCRIPT: Final = 'import streamlit as st\n\nst.write("Nothing")\n'
_TIMEOUT_MS: Final = 120_000
# Nothing runs, nothing is still to be drawn, and something is there.
_IS_WHOLE: Final = """() => {
  const app = document.querySelector('[data-testid="stApp"]');
  return app && app.getAttribute("data-test-script-state") === "notRunning"
    && !document.querySelector('[data-testid="stSkeleton"]')
    && document.querySelectorAll('[data-testid="stMain"] [data-testid="stElementContainer"]').length
    && ![...document.querySelectorAll('[data-testid="stVegaLiteChart"]')]
      .some(chart => !chart.querySelector("canvas, svg"));
}"""


def measure_pages(store: Store, history: History, *, num_rounds: int) -> dict[str, Any]:
    """Return for each page how long it took, and over the empty one; and how long a filter took."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _serving_empty(Path(folder)) as empty,
        serving(store.url) as address,
        browsing() as browser,
        window(browser) as context,
    ):
        context.set_default_timeout(_TIMEOUT_MS)
        page = context.new_page()
        addresses = {EMPTY: empty, **_addresses(address, store, history)}
        took = [
            {name: _opened_ms(page, url) for name, url in addresses.items()}
            for _ in range(num_rounds + 1)
        ][1:]
        page.goto(addresses["overview"])
        page.wait_for_function(_IS_WHOLE)
        filtered = [_filtered_ms(page, number) for number in range(num_rounds + 1)][1:]
    empty_ms = _p50(took, EMPTY)
    return {
        "num_rounds": num_rounds,
        "pages": {
            name: {
                "p50_ms": _p50(took, name),
                "over_empty": round(_p50(took, name) / empty_ms, 2),
            }
            for name in addresses
        },
        "filter_p50_ms": round(float(np.median(filtered)), 1),
    }


def _addresses(address: str, store: Store, history: History) -> dict[str, str]:
    """Return a page of each kind, of the first machine and its first case that is no reference."""
    machine = history.machines[0]
    case = machine.cases[machine.num_references + 1].key
    runs = [run.id for run in load_plans(store) if run.machine == machine.name]
    where = {"machine": machine.name, "toolchain": TOOLCHAIN}
    sides = {
        "baseline_run": runs[-2],
        "baseline_case": case,
        "candidate_run": runs[-1],
        "candidate_case": case,
    }
    asked: dict[str, tuple[str, Mapping[str, str]]] = {
        "overview": ("", where),
        "modes": ("modes", where),
        "models": ("models", where),
        "series": ("series", {"case": case, **where}),
        "kernels": ("kernels", {"run": runs[-1], "case": case}),
        "kernel diff": ("kernel-diff", sides),
        "compare": ("compare", {"baseline": runs[-2], "candidate": runs[-1]}),
        "run": ("run", {"run": runs[-1]}),
        "runs": ("runs", {}),
        "alerts": ("alerts", {}),
        "health": ("health", {}),
    }
    return {name: f"{address}/{path}?{urlencode(words)}" for name, (path, words) in asked.items()}


def _opened_ms(page: Page, url: str) -> float:
    started_s = time.perf_counter()
    page.goto(url)
    page.wait_for_function(_IS_WHOLE)
    return 1000 * (time.perf_counter() - started_s)


def _filtered_ms(page: Page, number: int) -> float:
    """Return how long the overview takes to show another metric."""
    title = ("Latest results: latency", "Latest results: speedup")[number % 2]
    name = title.rpartition(" ")[2]
    page.get_by_role("combobox", name="Table shows").click()
    option = page.get_by_role("option", name=name, exact=True)
    option.wait_for()
    started_s = time.perf_counter()
    option.click()
    page.get_by_role("heading", name=title, exact=True).wait_for()
    page.wait_for_function(_IS_WHOLE)
    return 1000 * (time.perf_counter() - started_s)


def _p50(took: list[dict[str, float]], name: str) -> float:
    return round(float(np.median([round_[name] for round_ in took])), 1)


@contextmanager
def _serving_empty(folder: Path) -> Iterator[str]:
    """Serve a page of one word, as `streamlit run` does, and yield its address."""
    script, port = folder / "empty.py", free_port()
    script.write_text(_SCRIPT, encoding="ascii")
    flags = ["--server.headless=true", "--browser.gatherUsageStats=false", f"--server.port={port}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", str(script), *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": ""},
    )
    try:
        _wait(f"http://127.0.0.1:{port}/_stcore/health", process)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_MS / 1000
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise BenchmarkError("the empty page of Streamlit does not answer")

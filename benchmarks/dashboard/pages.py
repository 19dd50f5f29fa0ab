"""Load times of pages in Chromium, compared with bare pages of Streamlit.

The bare page of one of ours has as many choices, buttons, texts, charts and scrolling tables, and
nothing of ours. Its tables have as many cells and rows, and its charts as many points. The empty
one has a word. All pages are opened in turn, again and again, so that other load of the machine
slows all alike. Each is opened twice in a row, and the second time
counts: an earlier page of another server makes a page slower. The profile is permanent, as people's
are: Chromium caches no compiled scripts for a temporary one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from benchmarks.dashboard.history import TOOLCHAIN, History
from benchmarks.startup import BenchmarkError
from compile_hud.db.queries.runs import load_plans
from compile_hud.db.store import Store
from tests.support.pages.dashboard import free_port, profile, serving

EMPTY: Final = "empty"
_EMPTY: Final = 'import streamlit as st\n\nst.write("Nothing")\n'
_BARE: Final = """
import altair as alt
import pandas as pd
import streamlit as st

locals().update({name: int(number) for name, number in st.query_params.items()})
for place in range(num_choices):
    st.selectbox(f"Choice {place}", [f"Option {number}" for number in range(8)])
for place in range(num_buttons):
    st.button(f"Button {place}")
for place in range(num_texts - 1):
    st.html(f"<p>Text {place}</p>")
row = "".join(f"<td>{number}</td>" for number in range(9))
if num_texts:
    st.html("<table>" + f"<tr>{row}</tr>" * (num_cells // 9) + "</table>")
for place in range(num_charts):
    rows = [{"at": at, "value": at * 37 % 11} for at in range(num_points)]
    base = alt.Chart(alt.Data(values=rows)).encode(x="at:Q", y="value:Q")
    pick = alt.selection_point(name="pick", fields=["at"])
    height = 340 if num_panels == 1 else 92
    panels = [
        alt.layer(base.mark_line(), base.mark_point()).properties(height=height)
        for _ in range(num_panels)
    ]
    chart = panels[0] if num_panels == 1 else alt.vconcat(*panels)
    chart = chart.add_params(pick)
    st.altair_chart(chart, on_select="rerun", key=f"chart {place}")
for place in range(num_frames):
    st.dataframe(pd.DataFrame({f"column {number}": range(num_rows) for number in range(9)}))
"""
# The nights of the store are in the past.
ALL: Final = {"range": "all"}
_TIMEOUT_MS: Final = 120_000
_OPENING_MS, _NUM_CLICKS = 3_000, 5
# Nothing runs, nothing is still to be drawn, and the page has an element.
_IS_WHOLE: Final = """() => {
  const app = document.querySelector('[data-testid="stApp"]');
  return app && app.getAttribute("data-test-script-state") === "notRunning"
    && !document.querySelector('[data-testid="stSkeleton"]')
    && document.querySelectorAll('[data-testid="stMain"] [data-testid="stElementContainer"]').length
    && ![...document.querySelectorAll('[data-testid="stVegaLiteChart"]')]
      .some(chart => !chart.querySelector("canvas, svg"));
}"""


@dataclass(frozen=True)
class Shape:
    """The numbers of elements of a page that a browser works for, and their sizes.

    All cells are those of plain tables. Points are those of a panel, and rows of a scrolling table,
    both the mean of the page.
    """

    num_choices: int
    num_buttons: int
    num_texts: int
    num_cells: int
    num_charts: int
    num_panels: int
    num_points: int
    num_frames: int
    num_rows: int


# The panels above each other in a chart of a page, whose canvas does not show their number.
_NUM_PANELS: Final = {"trends": 5}
# By the names that Streamlit gives its elements in a page.
_CHOICES: Final = (
    "stSelectbox",
    "stMultiSelect",
    "stTextInput",
    "stNumberInput",
    "stDateInput",
    "stButtonGroup",
)
_BUTTONS: Final = ("stButton", "stDownloadButton", "stLinkButton", "stPageLink", "stPopover")
# A row of a chart has one of these, and is sent once.
_POINT_FIELDS: Final = (b'"at": "', b'"shown": "', b'"time": "')


def measure_pages(store: Store, history: History, *, num_rounds: int) -> dict[str, Any]:
    """Return the time of each page, over the empty and its bare one, and the time of a filter."""
    with (
        ExitStack() as stack,
        tempfile.TemporaryDirectory() as folder,
        serving(store.url) as address,
        profile(Path(folder)) as context,
    ):
        empty, bare = (
            stack.enter_context(_serving_bare(Path(folder) / name, script))
            for name, script in (("empty.py", _EMPTY), ("bare.py", _BARE))
        )
        context.set_default_timeout(_TIMEOUT_MS)
        page = context.new_page()
        ours = _addresses(address, store, history)
        sent: list[bytes | str] = []
        page.on(
            "websocket", lambda socket: socket.on("framereceived", lambda data: sent.append(data))
        )
        shapes = {name: _shape(page, url, sent, name=name) for name, url in ours.items()}
        addresses: dict[str | Shape, str] = {EMPTY: empty, **ours}
        addresses |= {shape: f"{bare}?{urlencode(asdict(shape))}" for shape in shapes.values()}
        took = [
            {name: _opened_ms(page, url) for name, url in addresses.items()}
            for _ in range(num_rounds + 1)
        ][1:]
        page.goto(addresses["overview"])
        page.wait_for_function(_IS_WHOLE)
        filtered = [_filtered_ms(page, number) for number in range(num_rounds + 1)][1:]
    p50 = {name: float(np.median([round_[name] for round_ in took])) for name in addresses}
    return {
        "num_rounds": num_rounds,
        "empty_p50_ms": round(p50[EMPTY], 1),
        "pages": {
            name: {
                "p50_ms": round(p50[name], 1),
                "over_empty": round(p50[name] / p50[EMPTY], 2),
                **asdict(shape),
                "bare_over_empty": round(p50[shape] / p50[EMPTY], 2),
                "over_bare": round(p50[name] / p50[shape], 2),
            }
            for name, shape in shapes.items()
        },
        "filter_p50_ms": round(float(np.median(filtered)), 1),
    }


def _shape(page: Page, url: str, sent: Sequence[bytes | str], *, name: str) -> Shape:
    before = len(sent)
    page.goto(url)
    page.wait_for_function(_IS_WHOLE)
    num_charts = _count(page, ("stVegaLiteChart",))
    num_frames = _count(page, ("stDataFrame",))
    num_panels = _NUM_PANELS.get(name, 1)
    num_points = sum(
        max(data.count(field) for field in _POINT_FIELDS)
        for data in sent[before:]
        if isinstance(data, bytes)
    )
    # The text of a scrolling table, for who cannot see its canvas, has the number of its rows.
    grids = page.locator('[data-testid="stDataFrame"] table[role="grid"]')
    if num_frames:
        grids.first.wait_for(state="attached")
    num_rows = sum(int(grid.get_attribute("aria-rowcount") or 0) for grid in grids.all())
    return Shape(
        num_choices=_count(page, _CHOICES),
        num_buttons=_count(page, _BUTTONS),
        num_texts=_count(page, ("stHtml",)),
        num_cells=page.locator('[data-testid="stHtml"] td').count(),
        num_charts=num_charts,
        num_panels=num_panels,
        num_points=num_points // max(1, num_charts * num_panels),
        num_frames=num_frames,
        num_rows=num_rows // max(1, num_frames),
    )


def _count(page: Page, names: Iterable[str]) -> int:
    return page.locator(", ".join(f'[data-testid="{name}"]' for name in names)).count()


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
    addresses: dict[str, tuple[str, Mapping[str, str]]] = {
        "overview": ("", {**where, **ALL}),
        "modes": ("modes", where),
        "models": ("models", where),
        "model": (
            "model",
            {"model": machine.cases[machine.num_references + 1].model, **where, **ALL},
        ),
        "trends": ("trends", {**where, **ALL}),
        "series": ("series", {"case": case, **where, **ALL}),
        "kernels": ("kernels", {"run": runs[-1], "case": case}),
        "kernel diff": ("kernel-diff", sides),
        "compare": ("compare", {"baseline": runs[-2], "candidate": runs[-1]}),
        "run": ("run", {"run": runs[-1]}),
        "runs": ("runs", {}),
        "alerts": ("alerts", {}),
        "health": ("health", {}),
    }
    return {
        name: f"{address}/{path}?{urlencode(words)}" for name, (path, words) in addresses.items()
    }


def _opened_ms(page: Page, url: str) -> float:
    page.goto(url)
    page.wait_for_function(_IS_WHOLE)
    started_s = time.perf_counter()
    page.goto(url)
    page.wait_for_function(_IS_WHOLE)
    return 1000 * (time.perf_counter() - started_s)


def _filtered_ms(page: Page, number: int) -> float:
    """Return the milliseconds until the overview shows another metric."""
    title = ("Latest results: latency", "Latest results: speedup")[number % 2]
    name = title.rpartition(" ")[2]
    option = page.get_by_role("option", name=name, exact=True)
    for _ in range(_NUM_CLICKS):
        # A list that is clicked while the page still draws may close again.
        page.get_by_role("combobox", name="Table shows").click()
        with suppress(PlaywrightTimeoutError):
            option.wait_for(timeout=_OPENING_MS)
            break
    started_s = time.perf_counter()
    option.click()
    page.get_by_role("heading", name=title, exact=True).wait_for()
    page.wait_for_function(_IS_WHOLE)
    return 1000 * (time.perf_counter() - started_s)


@contextmanager
def _serving_bare(script: Path, text: str) -> Iterator[str]:
    """Serve a page of `text`, as `streamlit run` does, and yield its address."""
    port = free_port()
    script.write_text(text, encoding="ascii")
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
    raise BenchmarkError("a bare page of Streamlit does not answer")

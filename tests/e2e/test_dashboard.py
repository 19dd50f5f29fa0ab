"""A person's way through the dashboard, in a real browser on a real server."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from contextlib import suppress
from urllib.request import urlopen

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from compile_hud.app.ui.theme import REGRESSION
from compile_hud.db.jobs.live_log import LiveLog, LogLine
from compile_hud.db.records.results import Run
from compile_hud.db.store import Store
from tests.e2e.conftest import Watched
from tests.support.pages.dashboard import IDLE, ROOT, serving
from tests.support.pages.grids import rows_of
from tests.support.stores import dashboard_stores

pytestmark = pytest.mark.slow

MATRIX = "latest results, model by variant"
HOLD = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.read()"
INGEST = """
import sys
from compile_hud.db.queries.runs import load_run
from compile_hud.db.store import Store
from tests.support.stores import dashboard_stores

store = Store(sys.argv[1])
run = load_run(store, "latest")
result = dashboard_stores.result_of(run, run.plan[int(sys.argv[2])], number=0)
store.ingest(run, result, spool_id=result.id)
"""


def test_from_a_regression_to_its_evidence_to_its_run(watched: Watched, address: str) -> None:
    page = watched.page
    page.goto(address)
    expect(page.get_by_role("article")).to_have_count(2)
    expect(page).to_have_title("Overview - Compile HUD")
    page.get_by_role("article").get_by_role("link", name="bert / default").click()

    expect(page.get_by_role("heading", name="bert / default")).to_be_visible()
    expect(page).to_have_title("Alerts - Compile HUD")
    chart = page.get_by_test_id("stVegaLiteChart").first
    expect(chart.locator("canvas, svg").first).to_be_visible()
    click_regression(page, chart, leads_to=page.get_by_role("heading", name="Run run-009"))

    expect(page).to_have_url(re.compile(r"/run\?run=run-009&case=bert%2Finference"))
    expect(rows_of(page, "cases of the run").filter(has_text="latency +20.0 %")).to_have_count(1)


@pytest.mark.nightly
def test_a_filter_survives_a_reload_and_the_way_back(watched: Watched, address: str) -> None:
    page = watched.page
    page.goto(address)
    matrix = page.get_by_role("table", name=MATRIX)
    expect(matrix.locator("tbody tr")).to_have_count(4)
    page.get_by_role("combobox", name="Model").click()
    page.get_by_role("option", name="llama").click()
    expect(page).to_have_url(re.compile(r"\?model=llama$"))
    expect(matrix.locator("tbody tr")).to_have_count(1)

    page.reload()
    expect(matrix.locator("tbody tr")).to_have_count(1)
    expect(matrix.get_by_text("fell back to default")).to_be_visible()

    matrix.get_by_role("link", name="1.40x").click()
    expect(page.get_by_role("heading", name="llama default")).to_be_visible()
    page.go_back()
    expect(matrix.locator("tbody tr")).to_have_count(1)


@pytest.mark.nightly
def test_a_failed_cell_leads_to_its_log(watched: Watched, address: str) -> None:
    page = watched.page
    page.goto(address)
    page.get_by_role("link", name="log", exact=True).click()
    # The list of failed cases, further down, has it folded.
    log = page.get_by_test_id("stExpanderDetails")
    expect(log.get_by_text("Traceback (most recent call last):")).to_be_visible()
    expect(page.get_by_text("LoweringException: no choices to select")).to_be_visible()


def test_navigation_reaches_every_page(watched: Watched, address: str) -> None:
    page = watched.page
    page.goto(address)
    for name, seen in (
        ("Runs", "Runs"),
        ("Compare", "20 cases in both runs"),
        ("Modes", "Ship "),
        ("Admin", "Health"),
        ("Settings", "Settings"),
        ("Overview", "2 open regressions"),
    ):
        page.get_by_role("link", name=name, exact=True).first.click()
        expect(page.get_by_role("heading", name=seen).first).to_be_visible()
    expect(page.get_by_role("link", name="Alerts (2)", exact=True)).to_be_visible()
    expect(page.get_by_alt_text("Logo")).to_be_visible()


def test_a_page_follows_a_run_that_another_process_measures(
    watched: Watched, going: tuple[Store, Run]
) -> None:
    store, _ = going
    page = watched.page
    with serving(store.url) as address:
        page.goto(address)
        expect(page.get_by_text("7 of 20 cases")).to_be_visible()
        expect(page.get_by_text("now resnet50 reduce-overhead")).to_be_visible()
        ingest(store, number=7)
        expect(page.get_by_text("8 of 20 cases")).to_be_visible()
        matrix = page.get_by_role("table", name=MATRIX)
        expect(matrix.get_by_role("row", name="resnet50").get_by_text("1.80x")).to_be_visible()
        check_live_log(watched.page, store, address=address)
        page.goto("about:blank")


def check_live_log(page: Page, store: Store, *, address: str) -> None:
    """Look whether what a log adds leaves what is selected and where one has scrolled to."""
    lines = [LogLine(offset=10 * number, text=f"line {number:04}") for number in range(61)]

    def tell(lines: list[LogLine]) -> None:
        store.heartbeat("run-going", log=LiveLog(case_key="a/case", lines=tuple(lines)))

    tell(lines[:60])
    page.goto(f"{address}/run?run=run-going")
    log = page.get_by_role("log")
    expect(log.get_by_text("line 0059")).to_be_in_viewport()
    log.evaluate(
        "box => { box.scrollTop = 90; getSelection().selectAllChildren(box.children[10]); }"
    )
    tell(lines[20:])
    expect(log.locator("div")).to_have_count(61)
    position = log.evaluate("box => [box.scrollTop, String(getSelection())]")
    assert position == [90, "line 0010"]


@pytest.mark.nightly
def test_an_empty_store_fills_the_open_page(watched: Watched, going: tuple[Store, Run]) -> None:
    store, _ = going
    later = Store(store.url.replace("hud.duckdb", "later.duckdb"))
    page = watched.page
    with serving(later.url) as address:
        page.goto(address)
        expect(page.get_by_text("Nothing has been measured yet")).to_be_visible()
        dashboard_stores.fill_running(later, num_done=2, started_at=going[1].started_at)
        expect(page.get_by_text("2 of 20 cases")).to_be_visible()
        page.goto("about:blank")


@pytest.mark.nightly
def test_a_locked_page_comes_back_by_itself(watched: Watched, going: tuple[Store, Run]) -> None:
    store, _ = going
    page = watched.page
    holding = [sys.executable, "-c", HOLD, store.name]
    with (
        serving(store.url) as address,
        subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder,
    ):
        assert holder.stdout is not None
        holder.stdout.readline()
        page.goto(address)
        expect(page.get_by_text("The store is locked")).to_be_visible()
        expect(page.get_by_text(str(holder.pid))).to_be_visible()
        holder.communicate()
        expect(page.get_by_text("7 of 20 cases")).to_be_visible(timeout=30_000)
        page.goto("about:blank")


def test_the_evidence_is_whole_in_a_narrow_window(watched: Watched, address: str) -> None:
    page = watched.page
    page.set_viewport_size({"width": 800, "height": 900})
    page.goto(address)
    events = page.get_by_role("article")
    expect(events).to_have_count(2, timeout=30_000)
    cut = "event => event.scrollWidth > event.parentElement.clientWidth"
    assert not any(event.evaluate(cut) for event in events.all())


def test_a_heading_sorts_the_matrix_without_loading_the_page_again(
    watched: Watched, address: str
) -> None:
    page = watched.page
    page.goto(address)
    matrix = page.get_by_role("table", name=MATRIX)
    expect(matrix.locator("tbody tr").first).to_contain_text("unet")
    # The script arrives after the table.
    page.wait_for_selector("body.hud-follows", state="attached")
    page.evaluate("window.isSame = true")
    matrix.get_by_role("link", name="model", exact=True).click()
    expect(page).to_have_url(re.compile(r"\?sort=model$"))
    expect(matrix.locator("tbody tr").first).to_contain_text("bert")
    expect(matrix.locator("th").first).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("link", name="change", exact=True).click()
    expect(page).to_have_url(re.compile("heat=change"))
    expect(matrix.locator("tbody tr").first).to_contain_text("%")
    assert page.evaluate("window.isSame")
    page.go_back()
    expect(page).to_have_url(re.compile(r"\?sort=model$"))


def test_the_next_visit_sees_what_changed_since_the_last_one(
    watched: Watched, address: str
) -> None:
    page = watched.page
    page.goto(address)
    expect(page.get_by_text("Since the run before")).to_be_visible()
    page.wait_for_function("document.cookie.includes('hud_visit=0.')")
    page.evaluate("document.cookie = 'hud_visit=0.1767500000; Path=/'")
    page.goto(f"{address}/?range=365")
    expect(page.get_by_text("Since your last visit")).to_be_visible()


def test_the_overview_answers_at_its_name_too(address: str) -> None:
    with urlopen(f"{address}/overview?model=bert") as answer:
        assert answer.url == f"{address}/?model=bert"
    with urlopen(f"{address}/overview") as answer:
        assert answer.url == f"{address}/"


def test_the_server_reports_that_it_is_up(address: str) -> None:
    with urlopen(f"{address}/healthz") as answer:
        assert (answer.status, answer.read()) == (200, b"ok\n")


def ingest(store: Store, *, number: int) -> None:
    """Store the result of the run's case `number` from a process of its own."""
    subprocess.run(
        [sys.executable, "-c", INGEST, store.url, str(number)], cwd=ROOT, check=True, timeout=60
    )


def click_regression(page: Page, chart: Locator, *, leads_to: Locator) -> None:
    """Click the regression's triangle until `leads_to` is there.

    A chart is drawn some milliseconds before it listens, and again when its page is complete. The
    place beside it ends a selection that it made and told nobody of.
    """
    page.wait_for_selector(IDLE)
    for _ in range(3):
        x, y = position_of_regression(chart)
        page.mouse.click(x, y)
        with suppress(AssertionError):
            expect(leads_to).to_be_visible()
            return
        page.mouse.click(x + 40, y)
    expect(leads_to).to_be_visible()


def position_of_regression(chart: Locator) -> tuple[float, float]:
    """Return where in the window the regression's triangle is drawn, by its colour."""
    box = chart.bounding_box()
    assert box is not None
    # A canvas is there before it is drawn on.
    position = next((point for _ in range(40) if (point := triangle_in(chart.screenshot()))), None)
    assert position, "no regression is drawn"
    return box["x"] + position[0], box["y"] + position[1]


def triangle_in(picture: bytes) -> tuple[int, int] | None:
    """Return the lowest place with seven pixels of the verdict's colour side by side.

    The alert's line is thin, and the strokes of its words are.
    """
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    colour = tuple(int(REGRESSION[start : start + 2], 16) for start in (1, 3, 5))
    coloured = {
        (x, y)
        for x in range(image.width)
        for y in range(image.height)
        if max(abs(a - b) for a, b in zip(image.getpixel((x, y)), colour, strict=True)) < 24
    }
    tips = [(x, y) for x, y in coloured if all((x + step, y) in coloured for step in range(-3, 4))]
    return max(tips, key=lambda point: point[1]) if tips else None


# What has moved by itself, with each share of the window that it took; below 0.1 is good.
SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => window.shifts.push(...list.getEntries().map(item => item.value)))
  .observe({type: "layout-shift", buffered: true});
"""


@pytest.mark.nightly
def test_a_page_with_charts_comes_without_jumps_in_a_narrow_window(
    watched: Watched, address: str
) -> None:
    page = watched.page
    page.set_viewport_size({"width": 800, "height": 900})
    page.add_init_script(SHIFTS)
    page.goto(f"{address}/run?run=run-009&case={dashboard_stores.REGRESSED.key}&samples=latency_s")
    expect(page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first).to_be_attached()
    page.wait_for_load_state("networkidle")
    assert sum(page.evaluate("window.shifts")) < 0.1

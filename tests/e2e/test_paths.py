"""The ways that people go to their ends: the code behind an alert, and a run of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.jobs.health import load_health
from compile_hud.db.queries.runs import load_run
from compile_hud.db.records.results import Run, RunDocument, RunState
from compile_hud.db.store import Store
from tests.e2e.conftest import Watched
from tests.e2e.test_dashboard import ingest
from tests.support.builders import make_case, make_result, make_run
from tests.support.pages.dashboard import ROOT, serving
from tests.support.pages.grids import follow, rows_of
from tests.support.runs.runs import wait_until
from tests.support.stores import dashboard_stores, kernel_stores

pytestmark = pytest.mark.slow

CASE = dashboard_stores.REGRESSED.key
HUD_TOML = """
[auth]
anonymous = "triager"
[suites.ours]
models = ["lstm"]
modes = ["eager"]
shape = "tiny"
[run]
launches = 2
max_launches = 2
target_interval = 0
rounds = 100000
budget_s = 4
kernels = false
reference_cases = false
"""
# Dies with a result half written.
WRITE = """
import sys
from compile_hud.db.ingest import results as ingest
from compile_hud.db.queries.runs import load_run
from compile_hud.db.store import Store
from tests.support.stores import dashboard_stores

store = Store(sys.argv[1])
run = load_run(store, "latest")
result = dashboard_stores.result_of(run, run.plan[9], number=0)
with store.write() as connection:
    ingest.put_result(connection, run, result=result, spool_id=result.id, at=result.finished_at)
    print(flush=True)
    sys.stdin.read()
"""


@pytest.mark.nightly
def test_alert_leads_to_its_series_its_kernels_and_their_code(
    watched: Watched, address: str
) -> None:
    page = watched.page
    page.goto(f"{address}/alerts?alert=alert-1")
    page.locator('a[href^="series?case=bert"]').first.click()
    expect(page.get_by_role("heading", name="bert default")).to_be_visible()

    first_bad = rows_of(page, "points").filter(has_text="regression: +20.0 %")
    follow(page, "points", "diff", row=first_bad)
    expect(page.get_by_text("+1,825.6 us").first).to_be_visible()

    follow(page, "changes of kernels", "triton_poi_fused_add_gelu_0")
    expect(page).to_have_url(re.compile(r"/kernel-diff\?.*row=1"))
    code = page.get_by_test_id("stCode")
    expect(code.filter(has_text=f"-    {kernel_stores.OLD_LINE}").first).to_be_visible()
    expect(code.filter(has_text=f"+    {kernel_stores.NEW_LINE}").first).to_be_visible()


def test_link_shows_what_its_sender_saw(watched: Watched, address: str) -> None:
    page = watched.page
    seen = {
        "case": CASE,
        "metric": "speedup",
        "since": "2026-01-03T00:00",
        "until": "2026-01-12T00:00",
    }
    link = f"{address}/series?{urlencode(seen)}"
    page.goto(link)
    expect(page.get_by_text("latest speedup")).to_be_visible()
    expect(page.get_by_text("2026-01-03").first).to_be_visible()
    expect(page).to_have_url(link)

    diff = {"baseline_run": "run-003", "baseline_case": CASE, "candidate_run": "run-012"}
    page.goto(f"{address}/kernel-diff?{urlencode({**diff, 'change': 'unchanged'})}")
    changes = rows_of(page, "changes of kernels")
    expect(changes).to_have_count(1)
    expect(changes).to_contain_text("ampere_sgemm_128x64_tn")
    page.reload()
    expect(changes).to_have_count(1)


@pytest.mark.nightly
def test_page_outlives_a_writer_that_is_killed(watched: Watched, going: tuple[Store, Run]) -> None:
    store, _ = going
    page = watched.page
    with serving(store.url) as address:
        page.goto(address)
        expect(page.get_by_text("7 of 20 cases")).to_be_visible()
        writing = [sys.executable, "-c", WRITE, store.url]
        with subprocess.Popen(
            writing, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            page.get_by_role("link", name="Runs", exact=True).click()
            stale = page.get_by_text("Shown as it was last read")
            expect(stale).to_be_visible()
            writer.kill()
        assert writer.returncode == -signal.SIGKILL
        expect(stale).not_to_be_visible(timeout=60_000)
        # The half of a result that was written is not there.
        expect(page.get_by_text("7 of 20 cases")).to_be_visible()
        ingest(store, number=7)
        expect(page.get_by_text("8 of 20 cases")).to_be_visible()
        page.goto("about:blank")


@contextmanager
def scheduling(store_url: str, *, config: Path) -> Iterator[None]:
    """Run the scheduler in a process of its own."""
    command = [sys.executable, "-m", "compile_hud.runner", "schedule", "--store", store_url]
    with subprocess.Popen(
        [*command, "--config", str(config)],
        cwd=config.parent,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


@pytest.mark.nightly
def test_run_that_one_asks_for_is_measured_before_ones_eyes(
    watched: Watched, tmp_path: Path
) -> None:
    store = Store(f"duckdb:///{tmp_path / 'hud.duckdb'}")
    case = make_case("lstm", mode="eager", shape="tiny")
    before = make_run(
        "before", plan=[case], suite="ours", toolchain="current", finished_at=dashboard_stores.NOW
    )
    result = make_result("before", run=before, case=case)
    with store.write() as connection:
        put_documents(
            connection, [RunDocument(run=before, results=(result,))], at=dashboard_stores.NOW
        )
    config = tmp_path / "hud.toml"
    config.write_text(HUD_TOML, encoding="utf-8")

    page = watched.page
    with serving(store.url, config=config) as address, scheduling(store.url, config=config):
        page.goto(f"{address}/runs")
        page.get_by_role("button", name="Run now").click()
        page.get_by_label("Your name").fill("eve")
        page.get_by_label("Reason").fill("to see")
        page.get_by_role("button", name="Queue run").dblclick()
        expect(page.get_by_text("0 of 1 case")).to_be_visible(timeout=60_000)
        runs = rows_of(page, "runs")
        expect(runs).to_have_count(2)
        expect(runs.first).to_contain_text("finished", timeout=120_000)
        page.goto(f"{address}/run")
        expect(page.get_by_text("1 of 1: 1 ok")).to_be_visible()
        page.goto("about:blank")
        # The job ends when its run is judged.
        wait_until(lambda: bool(load_health(store).ended_jobs))
    run = load_run(store, "latest")
    assert (run.state, run.suite, len(run.plan)) == (RunState.FINISHED, "ours", 1)
    # However often one clicks.
    assert [job.trigger for job in load_health(store).ended_jobs] == ["eve (not signed in): to see"]


def test_an_address_of_a_section_opens_the_named_tab(watched: Watched, address: str) -> None:
    page = watched.page
    page.goto(f"{address}/compare?tab=modes&phase=inference")
    expect(page).to_have_url(re.compile(r"/modes\?phase=inference$"))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.goto(f"{address}/compare?tab=runs")
    expect(page).to_have_url(re.compile(r"/compare$"))

"""The page of a run: the log of the case that runs now, and those of cases that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.jobs.live_log import STATE_VARIABLE, LiveLog, LogLine, work_name
from compile_hud.db.records.results import Outcome
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import make_result
from tests.support.pages.page_elements import html_of, text_of, texts_of
from tests.support.stores import dashboard_stores

CASE = dashboard_stores.cases()[7].key
RUN = "run-going"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return what the pages of this test hand to the log in the browser."""
    import streamlit as st

    calls: list[dict[str, Any]] = []
    make = st.components.v2.component

    def component(name: str, **parts: Any) -> Any:
        if name != "hud_live_log":
            return make(name, **parts)
        return lambda data, **_: calls.append(data)

    monkeypatch.setattr(st.components.v2, "component", component)
    return calls


def running(store: Store) -> None:
    """Let a run go in the store, seven of its cases done."""
    dashboard_stores.fill_running(store, num_done=7, started_at=dashboard_stores.NOW)


def test_a_run_on_this_machine_shows_what_its_worker_writes(
    open_page: OpenPage,
    store: Store,
    drawn: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: SnapshotAssertion,
) -> None:
    running(store)
    folder = tmp_path / "work" / work_name(RUN, pid=1, unique="a")
    folder.mkdir(parents=True)
    (folder / "case.txt").write_text(CASE)
    (folder / "log.txt").write_text("compiling\n<script>x</script> TOKEN=s3cretv4lue")
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    page = open_page("run", run=RUN)
    text = text_of(page)
    lines = [[0, "compiling"], [10, "<script>x</script> TOKEN=***"]]
    assert drawn == [{"log": CASE, "lines": lines}]
    assert f"Log of {CASE}" in text
    assert texts_of(page, "caption") == words


def test_a_run_elsewhere_shows_what_its_runner_told_the_store(
    open_page: OpenPage, store: Store, drawn: list[dict[str, Any]], words: SnapshotAssertion
) -> None:
    running(store)
    log = LiveLog(case_key=CASE, lines=(LogLine(offset=4096, text="autotuning"),))
    store.heartbeat(RUN, log=log)
    page = open_page("run", run=RUN)
    assert drawn == [{"log": CASE, "lines": [[4096, "autotuning"]]}]
    assert texts_of(page, "caption") == words


def test_a_run_that_printed_nothing_or_is_over_has_no_live_log(
    open_page: OpenPage, store: Store, drawn: list[dict[str, Any]]
) -> None:
    running(store)
    assert not open_page("run", run=RUN).exception
    dashboard_stores.fill(store)
    assert "Log of" not in text_of(open_page("run", run="run-012"))
    assert drawn == []


@pytest.mark.usefixtures("seeded")
def test_each_case_that_failed_has_the_end_of_its_log(open_page: OpenPage) -> None:
    html = html_of(open_page("run", run="run-012"))
    _, _, logs = html.partition("Logs of cases that failed")
    assert "unet max-autotune: failed</summary>" in logs
    assert "Traceback (" in logs


def test_logs_are_text_and_cut_at_their_beginning(open_page: OpenPage, store: Store) -> None:
    cases = dashboard_stores.cases()
    run = dashboard_stores.night(0, plan=cases[:1])
    store.save_run(run)
    log = "lost " + "\u202e</pre><script>x</script>" * 400 + "the end"
    result = make_result(run=run, case=cases[0], outcome=Outcome.FAILED, log_tail=log)
    store.ingest(run, result, spool_id="1")
    html = html_of(open_page("run", run=run.id))
    logs = html.partition("Logs of cases that failed")[2]
    assert "?&lt;/pre&gt;&lt;script&gt;" in logs
    assert "<script>" not in logs
    assert "the end</pre>" in logs
    assert "lost" not in logs

"""Machine drift on every page."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.notifications import NotificationState
from compile_hud.db.records.results import RunDocument
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_measurement,
    make_notification,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.pages.page_elements import (
    cells_of_rows,
    headings_of,
    text_of,
    texts_of,
    texts_of_rows,
)
from tests.support.stores.stored_results import save_alerts

NUM_RUNS = 8
MODEL = make_case("bert", mode="eager")
REFERENCES = tuple(
    make_case(name, family="reference", mode="eager")
    for name in ("ref_gemm", "ref_copy", "ref_chain")
)


@pytest.fixture
def moved(store: Store) -> Store:
    """Return a store whose last run is that of a machine with memory a fifth slower."""
    documents = []
    for number in range(NUM_RUNS):
        at = START + timedelta(days=number)
        run = make_run(
            f"run-{number}",
            plan=(*REFERENCES, MODEL),
            started_at=at,
            finished_at=at + timedelta(minutes=9),
        )
        results = []
        for case in run.plan:
            is_slower = number == NUM_RUNS - 1 and case.model == "ref_copy"
            level_s = 0.010 * (1 + 0.001 * (number % 3)) * (1.2 if is_slower else 1)
            measured = make_measurement("latency_cpu_s", samples=(level_s,) * 3)
            results.append(
                make_result(f"{run.id}-{case.model}", run=run, case=case, measurements=[measured])
            )
        documents.append(RunDocument(run=run, results=tuple(results)))
    with store.write() as connection:
        put_documents(connection, documents, at=START + timedelta(days=NUM_RUNS))
    last = make_run_ref(documents[-1].run)
    slower = {"first_bad": last, "cause_kind": "machine", "metric": "latency_cpu_s"}
    save_alerts(
        store,
        [
            make_alert("its", case=REFERENCES[1], **slower),
            make_alert("ours", case=MODEL, **slower),
        ],
    )
    return store


@pytest.mark.usefixtures("moved")
def test_the_run_reports_that_the_machine_moved_and_by_how_much(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("run")
    assert texts_of(page, "notice") == words
    rows = texts_of_rows(page, "reference cases")
    assert [row[0] for row in rows] == ["ref_gemm", "ref_copy", "ref_chain"]
    assert [row[-2:] for row in rows] == [["steady", "-"], ["moved", "-"], ["steady", "-"]]
    assert "latency (CPU time)" in headings_of(page, "reference cases")


@pytest.mark.usefixtures("moved")
def test_a_run_before_reports_nothing(open_page: OpenPage) -> None:
    assert "Machine drift" not in text_of(open_page("run", run="run-6"))


@pytest.mark.usefixtures("moved")
def test_reference_cases_are_in_no_table_of_models(open_page: OpenPage) -> None:
    run, overview = open_page("run"), open_page("overview")
    assert [row[0] for row in texts_of_rows(run, "cases of the run")] == ["bert"]
    matrix = texts_of_rows(overview, "latest results, model by variant")
    assert [row[0] for row in matrix] == ["bert"]
    assert "4 of 4: 4 ok" in text_of(run)


@pytest.mark.usefixtures("moved")
def test_the_overview_distinguishes_a_slow_machine_from_regressions(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("overview")
    text = text_of(page)
    assert texts_of(page, "notice") == words
    assert "No open regressions" in text
    assert "to the machine: 2" in text
    rows = texts_of_rows(page, "machine side")
    assert {row[1].split()[0] for row in rows} == {"bert", "ref_copy"}


@pytest.mark.usefixtures("moved")
def test_filters_leave_the_reference_cases_in(open_page: OpenPage) -> None:
    page = open_page("overview", dtype="bf16")
    assert [row[1].split()[0] for row in texts_of_rows(page, "machine side")] == ["ref_copy"]


@pytest.mark.usefixtures("moved")
def test_the_list_of_runs_reports_in_which_the_machine_moved(open_page: OpenPage) -> None:
    rows = [row["machine drift"] for row in cells_of_rows(open_page("runs"), "runs")]
    assert rows[:3] == ["memory +20.0 %", "steady", "steady"]
    # With few runs before, nobody knows.
    assert rows[-3:] == ["-", "-", "-"]


@pytest.mark.usefixtures("moved")
def test_a_reference_case_has_a_page_like_any_other(open_page: OpenPage) -> None:
    key = REFERENCES[1].key
    assert "ref_copy eager" in text_of(open_page("run", case=key))
    assert "ref_copy eager" in text_of(open_page("series", case=key, metric="latency_cpu_s"))


def test_the_overview_reports_what_receivers_never_got(
    moved: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    assert "Failed notifications" not in text_of(open_page("overview"))
    dead = replace(make_notification(), state=NotificationState.DEAD)
    with moved.write() as connection:
        put_notifications(connection, [dead, make_notification("waits")])
    assert texts_of(open_page("overview"), "notice") == words

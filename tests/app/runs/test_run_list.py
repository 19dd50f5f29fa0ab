"""The list of runs: its filters are in the URL, and its numbers sort as numbers."""

from __future__ import annotations

import dataclasses
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app import clock
from compile_hud.app.data.runs import MAX_RUNS
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import Outcome, RunDocument, RunState
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import make_case, make_result
from tests.support.pages.page_elements import cells_of_rows, texts_of
from tests.support.stores import dashboard_stores

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

PLAN = (make_case("bert"), make_case("vit"))
# Id, machine, suite, toolchain, and whether a case fails.
RUNS = (
    ("a1", "rack-1", "nightly", "stable", False),
    ("b2", "rack-1", "weekly", "nightly", True),
    ("c3", "desk", "nightly", "stable", False),
    ("d4", "desk", "nightly", "nightly", False),
)


@pytest.fixture
def runs(store: Store) -> None:
    """Fill the store with a run a day; the third one was interrupted."""
    documents = []
    for number, (name, machine, suite, toolchain, fails) in enumerate(RUNS):
        run = dataclasses.replace(
            dashboard_stores.night(number, plan=PLAN, suite=suite),
            id=name,
            machine=machine,
            toolchain=toolchain,
            state=RunState.INTERRUPTED if name == "c3" else RunState.FINISHED,
        )
        results = [make_result(f"{name}-1", run=run, case=PLAN[0])]
        if fails:
            results.append(
                make_result(f"{name}-2", run=run, case=PLAN[1], outcome=Outcome.TIMEOUT, reason="x")
            )
        documents.append(RunDocument(run=run, results=tuple(results)))
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)


def ids(page: AppTest) -> list[str]:
    assert not page.exception
    return [row["run"] for row in cells_of_rows(page, "runs")]


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({}, ["d4", "c3", "b2", "a1"]),
        ({"machine": "desk"}, ["d4", "c3"]),
        ({"suite": "weekly"}, ["b2"]),
        ({"toolchain": "nightly"}, ["d4", "b2"]),
        ({"state": "interrupted"}, ["c3"]),
        ({"outcome": "timeout"}, ["b2"]),
        ({"text": "DESK stable"}, ["c3"]),
        ({"text": "dev20260102"}, ["b2"]),
        ({"since": "2026-01-03"}, ["d4", "c3"]),
        # A last day is included whole.
        ({"until": "2026-01-02"}, ["b2", "a1"]),
        ({"since": "2026-01-02", "until": "2026-01-02"}, ["b2"]),
        ({"since": "2026-01-02T03:00", "until": "2026-01-04T01:00"}, ["c3"]),
        # An old link to all rows of a long table.
        ({"rows": "all"}, ["d4", "c3", "b2", "a1"]),
    ],
)
def test_filters_of_the_url_leave_the_runs_that_fit(
    params: dict[str, str], shown: list[str], open_page: OpenPage
) -> None:
    page = open_page("runs", **params)
    assert ids(page) == shown
    assert texts_of(page, "notice") == []


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("params", "days_later", "shown"),
    [
        # The ranges begin between the second and the third night.
        ({"range": "30"}, 32.0, ["d4", "c3"]),
        ({}, 92.0, ["d4", "c3"]),
        ({"range": "all"}, 91.6, ["d4", "c3", "b2", "a1"]),
        ({"since": "2026-01-02"}, 91.6, ["d4", "c3", "b2"]),
        # No run is in the range.
        ({}, 500.0, ["d4", "c3", "b2", "a1"]),
    ],
)
def test_the_range_leaves_its_runs_or_all_where_it_has_none(
    params: dict[str, str],
    days_later: float,
    shown: list[str],
    open_page: OpenPage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = dashboard_stores.night(0, plan=PLAN).started_at + timedelta(days=days_later)
    monkeypatch.setattr(clock, "now", lambda: now)
    assert ids(open_page("runs", **params)) == shown


@pytest.mark.usefixtures("runs")
def test_choices_are_saved_in_the_url_and_cleared_at_once(open_page: OpenPage) -> None:
    page = open_page("runs")
    assert "clear-filters" not in [button.key for button in page.button]
    page.selectbox(key="choice-machine").select("rack-1").run()
    page.date_input(key="choice-since").set_value(date(2026, 1, 2)).run()
    assert ids(page) == ["b2"]
    assert dict(page.query_params) == {"machine": "rack-1", "since": "2026-01-02"}
    page.date_input(key="choice-since").set_value(None).run()
    assert ids(page) == ["b2", "a1"]
    page.text_input(key="choice-text").input("weekly").run()
    assert ids(page) == ["b2"]
    page.button(key="clear-filters").click().run()
    assert ids(page) == ["d4", "c3", "b2", "a1"]
    assert not dict(page.query_params)


@pytest.mark.usefixtures("runs")
def test_a_page_that_is_drawn_again_leaves_a_field_that_is_typed_in_alone(
    open_page: OpenPage,
) -> None:
    page = open_page("runs", text="weekly", since="2026-01-02")
    fields = [page.text_input(key="choice-text"), page.date_input(key="choice-since")]
    assert [field.value for field in fields] == ["weekly", date(2026, 1, 2)]
    # The URL decides what a field shows, also after a visit of another page.
    for text in ("", "weekly", ""):
        page.query_params["text"] = text
        page.run()
        field = page.text_input(key="choice-text")
        assert (field.value, field.proto.set_value) == (text, True)
    page.run()
    fields = [page.text_input(key="choice-text"), page.date_input(key="choice-since")]
    assert [field.proto.set_value for field in fields] == [False, False]


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
@pytest.mark.parametrize("name", ["since", "until"])
def test_days_beyond_the_calendar_of_the_field_are_no_error(
    name: str, day: str, open_page: OpenPage
) -> None:
    assert not open_page("runs", **{name: day}).exception


@pytest.mark.usefixtures("runs")
def test_filters_that_leave_nothing_are_named(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("runs", machine="desk", text="weekly")
    assert texts_of(page, "empty") == words


def test_a_filter_with_one_value_is_no_choice(seeded: object, open_page: OpenPage) -> None:  # noqa: ARG001
    offered = {item.key for item in open_page("runs").selectbox}
    assert offered == {"choice-range", "choice-outcome"}


def test_a_long_history_is_one_table(store: Store, open_page: OpenPage) -> None:
    documents = []
    for number in range(75):
        run = dashboard_stores.night(0, plan=PLAN[:1])
        run = dataclasses.replace(
            run, id=f"n{number}", started_at=run.started_at + timedelta(hours=number)
        )
        result = make_result(f"n{number}", run=run, case=PLAN[0])
        documents.append(RunDocument(run=run, results=(result,)))
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)
    page = open_page("runs")
    assert len(ids(page)) == 75 < MAX_RUNS
    assert "rows" not in [button.key for button in page.button]

"""The page that compares two revisions: the runs that stand for them, and empty states."""

from __future__ import annotations

import dataclasses

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.ui.urls import RevisionsState
from compile_hud.app.views.compare.data import choose_revisions
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import Run, RunDocument, RunState
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.pages.page_elements import (
    html_of,
    link_buttons_of,
    text_of,
    texts_of,
    texts_of_rows,
)
from tests.support.stores import dashboard_stores

CASE = make_case("bert", device="cuda")


def put(store: Store, *runs: Run) -> None:
    documents = [
        RunDocument(
            run=run,
            results=(
                make_result(f"r-{run.id}", run=run, case=CASE, measurements=[make_measurement()]),
            ),
        )
        for run in runs
    ]
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)


def night(number: int, **changes: object) -> Run:
    return dataclasses.replace(dashboard_stores.night(number, plan=[CASE]), **changes)  # type: ignore[arg-type]


def sides(store: Store, **state: str) -> tuple[str, str]:
    del store
    choice = choose_revisions(RevisionsState(**state), load_newest_runs().value)
    runs = (choice.baseline_run, choice.candidate_run)
    return tuple("" if run is None else run.id for run in runs)  # type: ignore[return-value]


def fill(store: Store) -> None:
    """Store six runs of two machines, with two builds and two commits of an own model."""
    code = [{"model_commits": {"net": name}} for name in ("c1", "c2")]
    runs = (
        night(1, id="a1", revision="2.13.0@aa", environment=code[0]),
        night(2, id="a2", revision="2.13.0@aa", environment=code[0], toolchain="other"),
        night(3, id="b1", revision="2.14.0@bb", environment=code[0]),
        night(4, id="b2", revision="2.14.0@bb", environment=code[1]),
        night(5, id="far", revision="2.15.0@cc", environment={}, machine="far"),
        night(6, id="going", revision="2.16.0@dd", environment={}, state=RunState.RUNNING),
    )
    put(store, *runs)


def test_the_newest_revision_of_the_machine_is_compared_with_the_one_before(store: Store) -> None:
    fill(store)
    machine = dashboard_stores.night(0, plan=[CASE]).machine
    # The newest finished run is that of the other machine, which has one revision.
    assert sides(store) == ("", "far")
    assert sides(store, machine=machine) == ("a1", "b2")


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (("2.13.0@aa", "2.14.0@bb"), ("a1", "b2")),
        (("2.13.0", "bb"), ("a1", "b2")),
        (("c1", "c2"), ("b1", "b2")),
        (("2.14.0@bb", "2.13.0@aa"), ("b2", "a2")),
        (("elsewhere", "2.14.0@bb"), ("", "b2")),
        (("2.13.0@aa", "2.16.0@dd"), ("a2", "")),
    ],
)
def test_the_newest_run_of_the_same_toolchain_stands_for_a_revision(
    store: Store, names: tuple[str, str], ids: tuple[str, str]
) -> None:
    fill(store)
    machine = dashboard_stores.night(0, plan=[CASE]).machine
    assert sides(store, machine=machine, baseline=names[0], candidate=names[1]) == ids


def test_a_toolchain_narrows_the_runs(store: Store) -> None:
    fill(store)
    machine = dashboard_stores.night(0, plan=[CASE]).machine
    assert sides(store, machine=machine, toolchain="other") == ("", "a2")


@pytest.mark.usefixtures("seeded")
def test_two_revisions_have_the_comparison_of_their_runs(open_page: OpenPage) -> None:
    names = {"baseline": "2.13.0.dev20260103", "candidate": "0000000004"}
    page = open_page("revisions", **names)
    assert not page.exception
    assert [row[1] for row in texts_of_rows(page, "sides")] == ["run-002", "run-004"]
    runs = open_page("compare", baseline="run-002", candidate="run-004")
    for label in ("comparisons", "geometric means", "environment changes"):
        assert texts_of_rows(page, label) == texts_of_rows(runs, label)
    filtered = open_page("revisions", **names, verdict="regression", model="elsewhere")
    assert (
        link_buttons_of(filtered)["Show everything"]
        == "revisions?baseline=2.13.0.dev20260103&candidate=0000000004"
    )


def test_one_revision_has_nothing_to_compare_with(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    put(store, night(1, revision="2.13.0@aa"), night(2, revision="2.13.0@aa"))
    assert texts_of(open_page("revisions"), "h1", "empty") == words


@pytest.mark.parametrize(("machine", "toolchain"), [("nosuch", ""), ("", "nosuch")])
def test_an_unknown_machine_or_toolchain_is_named(
    machine: str, toolchain: str, open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    fill(store)
    page = open_page("revisions", machine=machine, toolchain=toolchain)
    assert not page.exception
    assert texts_of(page, "empty") == words


def test_a_commit_of_several_models_is_one_choice_that_names_them(
    store: Store, words: SnapshotAssertion
) -> None:
    def code(**names: str) -> dict[str, object]:
        return {"model_commits": names}

    put(
        store,
        night(2, environment=code(head="e1", tower="e1", a="x1", b="x1", c="x1")),
        night(3, environment=code(head="e2", tower="e2", a="x2", b="x2", c="x2")),
    )
    labels = choose_revisions(RevisionsState(), load_newest_runs().value).labels
    assert labels == words


@pytest.mark.usefixtures("seeded")
def test_an_unknown_revision_is_named(open_page: OpenPage, words: SnapshotAssertion) -> None:
    assert texts_of(open_page("revisions", baseline="1.0"), "h1", "empty") == words
    same = open_page("revisions", baseline="2.13.0.dev20260103", candidate="2.13.0.dev20260103")
    assert texts_of(same, "h1", "empty") == words


def test_hostile_revisions_are_text(open_page: OpenPage, store: Store) -> None:
    odd = "<script>1</script>\N{RIGHT-TO-LEFT OVERRIDE}@" + "x" * 900
    put(store, night(1, revision="2.13.0@aa"), night(2, revision=odd))
    page = open_page("revisions")
    assert not page.exception
    assert "<script" not in html_of(page)
    assert "\u202e" not in text_of(page)

"""Two runs, revisions, variants, toolchains and environments side by side."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.urls import CompareState
from compile_hud.app.views.compare import data as compare_data
from compile_hud.app.views.compare.records import ComparePage
from compile_hud.app.views.compare.tables import compared_csv, verdict_tiles
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.results import load_document
from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import REFERENCE_FAMILY, RunDocument
from compile_hud.db.shared.model_code import code_change_text
from compile_hud.db.shared.model_sources import MODEL_LANGUAGE, to_text
from compile_hud.db.store import Store
from compile_hud.runner.analysis.comparison.runs import compare_results
from compile_hud.runner.documents.stored_runs import recent_histories
from tests.app.conftest import OpenPage
from tests.support.builders import make_case, make_run
from tests.support.pages.page_elements import (
    cells_of_rows,
    commands_of,
    html_of,
    links_of,
    text_of,
    texts_of,
    texts_of_rows,
)
from tests.support.stores import dashboard_stores

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

# The night before something changed, the one in which it did, and one with another driver.
GOOD, BAD, OTHER = "run-008", "run-009", "run-004"


def compared(open_page: OpenPage, **params: str) -> AppTest:
    page = open_page("compare", **params)
    assert not page.exception
    return page


@pytest.mark.usefixtures("seeded")
def test_by_default_the_newest_run_is_compared_with_the_one_before(open_page: OpenPage) -> None:
    sides = texts_of_rows(compared(open_page), "sides")
    assert [row[:2] for row in sides] == [["baseline", "run-014"], ["candidate", "run-015"]]


def with_code(number: int, revision: str, *, text: str = "") -> RunDocument:
    """Return a night with this revision of the code of `bert`, and `text` as its file."""
    case = dashboard_stores.make_case("bert", device="cuda")
    night = dashboard_stores.night(number, plan=[case])
    facts = {**night.environment, "model_commits": {"bert": revision, "models_zoo": "aaaa"}}
    sources = ()
    if text:
        content = to_text({"net.py": text}, is_cut=False)
        sources = (KernelSource(hash=f"hash-{number}", language=MODEL_LANGUAGE, text=content),)
        facts["model_sources"] = {"bert": f"hash-{number}"}
    run = dataclasses.replace(night, environment=facts)
    result = dashboard_stores.make_result(
        f"r{number}", run=run, case=case, measurements=[dashboard_stores.make_measurement()]
    )
    return RunDocument(run=run, results=(dataclasses.replace(result, sources=sources),))


def test_the_files_that_both_runs_kept_are_a_diff(open_page: OpenPage, store: Store) -> None:
    documents = [with_code(8, "aaa1", text="x = 1"), with_code(9, "bbb2", text="</code><b>")]
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)
    page = compared(open_page, baseline=GOOD, candidate=BAD)
    (shown,) = (item for item in page.code if item.language == "diff")
    assert shown.value.splitlines()[-2:] == ["-x = 1", "+</code><b>"]
    assert "</code><b>" not in html_of(page)


def test_other_code_of_a_model_is_the_first_of_the_differences(
    open_page: OpenPage, store: Store
) -> None:
    documents = [with_code(8, "aaa1"), with_code(9, "aaa1+dirty(<b>)")]
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)
    page = compared(open_page, baseline=GOOD, candidate=BAD)
    notices = texts_of(page, "notice")
    assert "[models.bert] keep_source = true" in text_of(page)
    assert f"bert: {code_change_text('aaa1', 'aaa1+dirty(<b>)')}" in notices
    assert "aaa1+dirty(<b>)" in text_of(open_page("runs"))
    assert "aaa1+dirty(<b>)" in text_of(open_page("run", run=BAD))


@pytest.mark.usefixtures("seeded")
def test_what_changed_comes_first_and_the_worst_of_it_before_all(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = compared(open_page, baseline=GOOD, candidate=BAD)
    rows = cells_of_rows(page, "comparisons")
    changed = [row for row in rows if row["verdict"][0] in "\u25b2\u25bc"]
    # All others come after them.
    assert changed == rows[: len(changed)]
    assert [(row["change"], row["in words"]) for row in changed] == [
        ("-", "fails"),
        ("+21.0 %", "-"),
        ("-16.7 %", "-"),
    ]
    assert changed[0]["model and variant"] == "unet max-autotune"
    assert (changed[1]["model and variant"], changed[1]["metric"]) == ("bert default", "latency")
    # Rows of several units have theirs in the cell.
    assert changed[1]["candidate"].endswith(" ms")
    # The tiles count comparisons, the title cases: both say so.
    assert texts_of(page, "h1", "tile") == words


@pytest.mark.usefixtures("seeded")
def test_the_page_equals_the_command(open_page: OpenPage, seeded: Path) -> None:
    compared(open_page, baseline=GOOD, candidate=BAD)
    page = compare_data.load_compare(CompareState(baseline=GOOD, candidate=BAD)).value
    store = Store(f"duckdb:///{seeded}")
    before, after = load_document(store, GOOD), load_document(store, BAD)
    rows = compare_results(before, after, histories=recent_histories(after.run, store=store))
    lines = [
        (row.candidate_case.key, row.metric, row.ratio, row.low, row.high, row.verdict, row.reason)
        for row in page.rows
    ]
    # The command lists them by case.
    assert sorted(lines, key=lambda row: row[:2]) == [
        (
            *(row.case.key, row.metric, row.comparison.ratio, row.comparison.low),
            *(row.comparison.high, row.comparison.verdict, row.comparison.reason),
        )
        for row in sorted(rows, key=lambda row: (row.case.key, row.metric))
    ]


@pytest.mark.usefixtures("seeded")
def test_a_mean_reports_over_how_many_cases_it_is(open_page: OpenPage) -> None:
    page = compared(open_page, baseline=GOOD, candidate=BAD)
    rows = {row[0]: row[1] for row in texts_of_rows(page, "geometric means")}
    assert rows["max-autotune"].endswith("3 of 4 cases")
    assert rows["reduce-overhead"].endswith("4 of 4 cases")


@pytest.mark.usefixtures("seeded")
def test_another_driver_is_refused_with_the_fact_and_the_levels_of_both(
    open_page: OpenPage,
    words: SnapshotAssertion,
) -> None:
    page = compared(open_page, baseline=OTHER, candidate=BAD)
    text = text_of(page)
    assert texts_of(page, "notice", "empty") == words
    assert "driver_version: '550.54' -> '560.28'" in text
    assert not texts_of_rows(page, "comparisons")
    levels = cells_of_rows(page, "levels of both runs")
    rows = {row["model and variant"]: row for row in levels}
    assert "bert eager" not in rows
    assert rows["unet max-autotune"]["candidate outcome"] == "failed"
    assert rows["unet max-autotune"]["candidate / baseline"] == "-"
    assert rows["bert default"]["candidate / baseline"] == "0.83x"
    assert any(link.startswith(f"run?run={OTHER}&case=bert%2F") for link in links_of(page))
    driver = next(row for row in texts_of_rows(page, "environment changes") if "driver" in row)
    assert driver == ["driver", "550.54", "560.28"]


@pytest.mark.usefixtures("seeded")
def test_two_modes_of_one_run_compare(open_page: OpenPage) -> None:
    page = compared(
        open_page,
        baseline=GOOD,
        candidate=GOOD,
        baseline_variant="default",
        candidate_variant="max-autotune",
    )
    rows = cells_of_rows(page, "comparisons")
    name = "llama default -> max-autotune"
    (latency,) = (
        row for row in rows if (row["model and variant"], row["metric"]) == (name, "latency")
    )
    assert latency["change"] == "-31.7 %"


@pytest.mark.usefixtures("seeded")
def test_a_run_does_not_differ_from_itself(open_page: OpenPage, words: SnapshotAssertion) -> None:
    page = compared(open_page, baseline=GOOD, candidate=GOOD)
    text = text_of(page)
    assert "Both sides are the same" in text
    assert texts_of(page, "notice", "empty") == words


@pytest.mark.usefixtures("seeded")
def test_a_revision_stands_for_its_newest_run(open_page: OpenPage) -> None:
    page = compared(open_page, baseline="2.13.0.dev20260103", candidate="0000000004")
    sides = texts_of_rows(page, "sides")
    assert [row[1] for row in sides] == ["run-002", "run-004"]


def test_two_toolchains_compare(open_page: OpenPage, store: Store) -> None:
    dashboard_stores.fill_two_toolchains(store)
    page = compared(open_page, baseline="stable-3", candidate="nightly-3")
    rows = cells_of_rows(page, "comparisons")
    names = ("model and variant", "metric", "in words", "verdict")
    failing = ["vit default", "outcome", "fails", "\u25b2 regression"]
    assert [rows[0][name] for name in names] == failing
    assert [row["change"] for row in rows[1:3]] == ["-50.0 %", "-50.0 %"]
    (lonely,) = texts_of_rows(page, "cases in only one run")
    assert lonely[0] == "bert/inference/tiny/fp32/max-autotune/cpu"
    # Only the button that swaps the sides has the baseline as a candidate.
    swapped = [href for href in links_of(page) if "candidate=stable-3" in href]
    assert all("baseline=nightly-3" in href for href in swapped)
    assert any("baseline=nightly-2" in link for link in links_of(page))


@pytest.mark.usefixtures("seeded")
def test_the_filters_are_in_the_url_and_say_what_to_take_back(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = compared(open_page, baseline=GOOD, candidate=BAD, model="bert", verdict="regression")
    rows = cells_of_rows(page, "comparisons")
    assert {row["model and variant"] for row in rows} == {"bert default"}
    filters = {"model": "bert", "metric": "latency_s", "verdict": "regression"}
    page = compared(open_page, baseline=GOOD, candidate=BAD, **filters)
    (row,) = cells_of_rows(page, "comparisons")
    # Levels of one unit are numbers with the unit in the heading.
    assert (row["baseline (ms)"], row["candidate (ms)"]) == ("8.71", "10.5")
    page = compared(open_page, baseline=GOOD, candidate=BAD, model="resnet50", verdict="regression")
    assert texts_of(page, "notice", "empty") == words


@pytest.mark.usefixtures("seeded")
def test_choosing_a_run_puts_it_into_the_url(open_page: OpenPage) -> None:
    page = compared(open_page)
    page.selectbox(key="choice-baseline").select(GOOD).run()
    assert page.query_params["baseline"] == GOOD
    assert texts_of_rows(page, "sides")[0][1] == GOOD


@pytest.mark.usefixtures("seeded")
def test_the_first_run_has_none_before_it(open_page: OpenPage, words: SnapshotAssertion) -> None:
    page = compared(open_page, candidate="run-000")
    assert texts_of(page, "notice", "empty") == words


@pytest.mark.parametrize(
    ("toolchain", "commands"),
    [("nightly", ["hud run --suite nightly --toolchain nightly"]), ("imported:hud", [])],
)
def test_a_store_of_one_run_reports_that_a_second_is_needed(
    open_page: OpenPage, store: Store, toolchain: str, commands: list[str], words: SnapshotAssertion
) -> None:
    eager = dashboard_stores.make_case("bert", mode="eager", device="cuda")
    run = dataclasses.replace(
        dashboard_stores.night(8, plan=[eager, dashboard_stores.REGRESSED]), toolchain=toolchain
    )
    results = tuple(
        dashboard_stores.make_result(
            f"r8-{case.variant}",
            run=run,
            case=case,
            measurements=[dashboard_stores.make_measurement()],
        )
        for case in run.plan
    )
    with store.write() as connection:
        put_documents(connection, [RunDocument(run=run, results=results)], at=dashboard_stores.NOW)
    page = compared(open_page)
    text = text_of(page)
    assert texts_of(page, "notice", "empty") == words
    assert "Choose another run" not in text
    assert commands_of(page) == commands
    (link,) = [link for link in links_of(page) if link.startswith("compare?")]
    chosen = {name: value for name, (value,) in parse_qs(urlsplit(link).query).items()}
    assert chosen["baseline"] == chosen["candidate"] == run.id
    page = compared(open_page, **chosen)
    shown = text_of(page)
    assert "Both sides are the same" not in shown
    assert "Case by case" in shown


@pytest.mark.usefixtures("seeded")
def test_a_run_that_is_not_there_is_reported(open_page: OpenPage) -> None:
    text = text_of(compared(open_page, baseline="zzz"))
    assert "hud runs lists them. No run has a revision of that name either. Choose" in text


@pytest.mark.usefixtures("seeded")
def test_two_runs_that_are_not_there_are_both_named(open_page: OpenPage) -> None:
    text = text_of(compared(open_page, baseline="zzz", candidate="yyy"))
    assert "'zzz' nor 'yyy'" in text


def test_the_file_has_every_row_and_no_formula(open_page: OpenPage, store: Store) -> None:
    case = dashboard_stores.make_case('=HYPERLINK("http://x")', device="cuda")
    documents = []
    for number in (8, 9):
        run = dashboard_stores.night(number, plan=[case])
        result = dashboard_stores.make_result(
            f"r{number}", run=run, case=case, measurements=[dashboard_stores.make_measurement()]
        )
        documents.append(RunDocument(run=run, results=(result,)))
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)
    assert '<a href="http://x' not in html_of(compared(open_page))
    page = compare_data.load_compare(CompareState()).value
    rows = list(csv.DictReader(io.StringIO(compared_csv(page.rows, page=page))))
    assert {row["model"] for row in rows} == {'\'=HYPERLINK("http://x")'}
    ratios = {row["metric"]: row["ratio"] for row in rows}
    assert set(ratios) == {"outcome", "latency_s"}
    assert float(ratios["latency_s"]) == 1.0


@pytest.mark.parametrize(("num_references", "note"), [(0, ""), (1, "1 reference case<"), (4, "4 ")])
def test_cases_in_both_runs_leave_out_reference_cases(num_references: int, note: str) -> None:
    references = [
        dataclasses.replace(make_case(f"ref_{number}"), family=REFERENCE_FAMILY)
        for number in range(num_references)
    ]
    runs = [make_run(f"run-{number}", plan=(make_case("dlrm"), *references)) for number in (3, 8)]
    page = ComparePage(baseline=runs[0], candidate=runs[1], environment={})
    tiles = verdict_tiles(page)
    assert ("reference" in tiles) is bool(note)
    assert note in tiles

"""Findings on the pages of a case, of a run and of an alert."""

from __future__ import annotations

from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.kernels import Kernel
from compile_hud.db.records.results import Case, CaseResult, RunDocument
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import START, make_alert, make_case, make_run, make_run_ref
from tests.support.pages.page_elements import links_of, text_of, texts_of_rows
from tests.support.records.gpu_results import gpu_kernel, gpu_result
from tests.support.stores.stored_results import save_alerts

CASE = make_case("gpt2", device="cuda", dtype="bf16")
OTHER = make_case("vit", device="cuda", dtype="bf16")
WORK = gpu_kernel("triton_poi_fused_gelu_0", count=10, mean_us=70, operators=("aten::gelu",))
COPY = gpu_kernel(
    "triton_poi_fused_clone_1", count=4, mean_us=30, operators=("aten::clone",), module="blocks.3"
)


def night(number: int, *kernels: Kernel) -> RunDocument:
    """Return a run of two cases; only the first has `kernels` in addition."""
    run = make_run(f"run-{number}", plan=(CASE, OTHER), started_at=START + timedelta(days=number))
    return RunDocument(
        run=run,
        results=(
            _result(f"a{number}", run.id, CASE, WORK, *kernels),
            _result(f"b{number}", run.id, OTHER, WORK),
        ),
    )


def _result(id: str, run_id: str, case: Case, *kernels: Kernel) -> CaseResult:
    return gpu_result(*kernels, id=id, run_id=run_id, case=case)


@pytest.fixture(autouse=True)
def _two_nights(store: Store) -> None:
    with store.write() as connection:
        put_documents(connection, [night(0), night(1, COPY)], at=START)


def test_a_finding_has_cost_location_kernel_and_remedy(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("run", run="run-1", case=CASE.key, tab="findings")
    assert texts_of_rows(page, "findings") == words
    (link,) = [url for url in links_of(page) if url.startswith("kernels?") and "kernel=" in url]
    opened = open_page("kernels", **dict(part.split("=", 1) for part in _query(link)))
    assert COPY.name in text_of(opened)


def _query(link: str) -> list[str]:
    text = link.partition("?")[2].replace("&amp;", "&").replace("%2F", "/")
    return text.split("&")


def test_a_case_without_findings_says_so(open_page: OpenPage) -> None:
    page = open_page("run", run="run-1", case=OTHER.key, tab="findings")
    assert "No findings" in text_of(page)


def test_a_run_names_the_first_finding_of_each_case(open_page: OpenPage) -> None:
    (frame,) = [item.value for item in open_page("run", run="run-1").dataframe]
    (link,) = frame["findings"].dropna()
    assert link.startswith("./layout-copies%20120%20us/")
    assert "tab=findings" in link
    (frame,) = [item.value for item in open_page("run", run="run-0").dataframe]
    assert "findings" not in frame


def test_the_history_of_a_case_names_the_findings_of_its_newest_run(open_page: OpenPage) -> None:
    page = open_page("series", case=CASE.key)
    assert "layout-copies: 120 us;" in text_of(page)
    (link,) = [url for url in links_of(page) if "tab=findings" in url and "run-1" in url][:1]
    assert "No findings" not in text_of(open_page("run", **dict(_pairs(link))))
    assert "layout-copies" not in text_of(open_page("series", case=OTHER.key))


def _pairs(link: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (part.partition("=") for part in _query(link))]


def test_an_alert_names_findings_that_the_last_good_run_lacks(
    store: Store, open_page: OpenPage
) -> None:
    good, bad = (make_run_ref(night(number).run) for number in (0, 1))
    alerts = [
        make_alert("new", case=CASE, last_good=good, first_bad=bad),
        make_alert("old", case=CASE, last_good=bad, first_bad=bad),
        make_alert("none", case=OTHER, last_good=good, first_bad=bad),
    ]
    save_alerts(store, alerts)
    assert texts_of_rows(open_page("alerts", alert="new"), "findings")[0][0] == "layout-copies"
    for name in ("old", "none"):
        assert "New findings" not in text_of(open_page("alerts", alert=name))

"""The page of the kernel diff, and the pages that lead to it."""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui import code as kernelcode
from compile_hud.app.ui.share import HERE, Share
from compile_hud.app.views.kernel_diff import view as diffview
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.kernels import Kernel, KernelSource, Origin
from compile_hud.db.records.results import CaseResult, Run, RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.analysis.kernels.diff import devices_text
from tests.app.conftest import OpenPage
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_kernel,
    make_measurement,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.pages.page_elements import (
    cells_of_rows,
    html_of,
    link_buttons_of,
    links_of,
    markdown_of,
    text_of,
    texts_of,
    texts_of_rows,
)
from tests.support.stores import dashboard_stores
from tests.support.stores.stored_results import save_alerts

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

CASE, EAGER = make_case("bert"), make_case("bert", mode="eager")
OLD_CODE = KernelSource(hash="a" * 64, language="cpp", text="void kernel() {\n    slow();\n}\n")
NEW_CODE = KernelSource(hash="b" * 64, language="cpp", text="void kernel() {\n    fast();\n}\n")
FUSED = dataclasses.replace(
    make_kernel(source_hash=OLD_CODE.hash, mean_s=0.001),
    config={"num_warps": 4},
    origins=(Origin(node="add_1", target="aten.add", file="net.py", line=7, code="x + y"),),
)
GEMM = make_kernel("mkl_gemm", label="mkl_gemm", kind="gemm", library="mkl", mean_s=0.002)
GELU = make_kernel(
    "aten::gelu", label="aten::gelu", library="aten", operators=["aten.gelu"], mean_s=0.0005
)
CHANGES = "changes of kernels"


def night(number: int, **values: Any) -> Run:
    """Return the run of a night."""
    at = START + timedelta(days=number)
    return make_run(f"run-{number}", plan=[EAGER, CASE], started_at=at, **values)


def result_of(run: Run, *kernels: Kernel, latency_s: float = 0.007, **values: Any) -> CaseResult:
    """Return the result of `CASE` with these kernels."""
    case = values.pop("case", CASE)
    profile = {
        "num_iterations": 10,
        "iteration_s": latency_s + 0.001,
        "latency_s": latency_s,
        "parts": {
            "fused": 0.002,
            "gemm": 0.004,
            "python": values.pop("python_s", latency_s - 0.005),
        },
    }
    return make_result(
        f"{run.id}-{case.variant}",
        run=run,
        case=case,
        measurements=[make_measurement(samples=(latency_s,) * 3)],
        kernels=kernels,
        sources=[OLD_CODE, NEW_CODE] if kernels else [],
        details={"profile": profile} if kernels else {},
        **values,
    )


def save(store: Store, *results: tuple[Run, CaseResult]) -> None:
    """Write results, each with its run."""
    by_run: dict[str, tuple[Run, list[CaseResult]]] = {}
    for run, result in results:
        by_run.setdefault(run.id, (run, []))[1].append(result)
    documents = [
        RunDocument(run=run, results=tuple(run_results)) for run, run_results in by_run.values()
    ]
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)


def save_two_nights(store: Store, **values: Any) -> None:
    """Write a night, and one in which the fused kernel has other code that takes longer.

    Python takes `python_s` of both iterations, or as much more as the latency.
    """
    slower = dataclasses.replace(
        FUSED, source_hash=NEW_CODE.hash, mean_s=0.0014, total_s=0.0028, min_s=0.0014
    )
    before, after = night(0), night(1)
    save(
        store,
        (before, result_of(before, GEMM, FUSED, **values)),
        (after, result_of(after, GEMM, slower, latency_s=0.0078, **values)),
        (after, result_of(after, GEMM, GELU, case=EAGER, latency_s=0.009)),
    )


NIGHTS = {"baseline_run": "run-0", "baseline_case": CASE.key, "candidate_run": "run-1"}


def test_the_parts_of_the_headline_add_up(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    save_two_nights(store)
    page = open_page("kernel-diff", **NIGHTS)
    assert not page.exception
    text = text_of(page)
    assert "baseline, latency 7,000.0 us" in text
    assert "candidate, latency 7,800.0 us" in text
    assert "difference +800.0 us +11.4 %" in text
    # The fused kernel 800 us, and Python 800 us: one of them was disturbed.
    assert texts_of(page, "tile") == words
    assert "unexplained -800.0 us" in text


def test_rows_that_changed_are_counted_among_those_of_the_table(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    save_two_nights(store, python_s=0.002)
    page = open_page("kernel-diff", **NIGHTS)
    text = text_of(page)
    assert texts_of(page, "tile") == words
    assert len(texts_of_rows(page, CHANGES)) == 3
    assert "unexplained +0.0 us" in text
    assert "what profiling costs" not in text
    assert ">unexplained<" not in html_of(page).partition("What contributes")[2]


def test_a_bar_of_the_waterfall_opens_its_row(open_page: OpenPage, store: Store) -> None:
    save_two_nights(store)
    page = open_page("kernel-diff", **NIGHTS)
    bars = re.findall(
        r'<a href="([^"]*)">(?:[^<]*)  #(\d+)</a></div><div class="bar"', html_of(page)
    )
    # Python, which is no kernel, is below the kernels.
    assert [number for _, number in bars] == ["1", "3", "2"]
    assert all(url.endswith(f"row={number}") for url, number in bars)


def test_each_change_is_a_row_with_class_and_sentence(open_page: OpenPage, store: Store) -> None:
    save_two_nights(store)
    rows = cells_of_rows(open_page("kernel-diff", **NIGHTS), CHANGES)
    by_label = {row["kernel"]: row for row in rows}
    changed = by_label["cpp_fused_add"]
    assert (changed["contributes (us)"], changed["class"]) == ("+800.0", "other code")
    names = ("calls before", "calls now", "time before (us)", "time now (us)")
    assert [changed[name] for name in names] == ["2", "2", "2,000.0", "2,800.0"]
    assert changed["why"].startswith("Other code, ")
    assert by_label["mkl_gemm"]["class"] == "unchanged"
    assert [by_label["python"][name] for name in names[2:]] == ["2,000.0", "2,800.0"]


def test_the_sums_of_both_sides_are_above_the_rows(open_page: OpenPage, store: Store) -> None:
    save_two_nights(store)
    rows = texts_of_rows(open_page("kernel-diff", **NIGHTS), "sums of kernels")
    assert ["kind", "fused", "2,000.0", "2,800.0", "+800.0"] in rows


def test_a_class_filters_the_rows(open_page: OpenPage, store: Store) -> None:
    save_two_nights(store)
    page = open_page("kernel-diff", **NIGHTS)
    page.selectbox(key="choice-change").select("unchanged").run()
    assert "unchanged" in page.query_params["change"]
    assert [row["kernel"] for row in cells_of_rows(page, CHANGES)] == ["mkl_gemm"]


def test_a_class_that_no_row_has_is_reported(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    save_two_nights(store)
    assert texts_of(open_page("kernel-diff", **NIGHTS, change="split"), "notice")[-1] == words


def test_an_opened_row_shows_code_of_both_sides_and_how_it_differs(
    open_page: OpenPage, store: Store
) -> None:
    save_two_nights(store)
    page = _opened(open_page, "cpp_fused_add", **NIGHTS)
    codes = [item.value for item in page.code]
    assert any("-    slow();\n+    fast();" in code for code in codes)
    assert OLD_CODE.text.rstrip() in [code.rstrip() for code in codes]
    assert NEW_CODE.text.rstrip() in [code.rstrip() for code in codes]
    (origin,) = texts_of_rows(page, "origins")
    assert origin == ["both", "add_1", "aten.add", "-", "net.py:7", "x + y"]
    assert [row[0] for row in texts_of_rows(page, "kernels of the row")] == [
        "baseline",
        "candidate",
    ]


def _opened(open_page: OpenPage, label: str, **params: str) -> AppTest:
    rows = cells_of_rows(open_page("kernel-diff", **params), CHANGES)
    number = next(row["row"] for row in rows if row["kernel"] == label)
    return open_page("kernel-diff", **params, row=number)


def test_code_of_one_side_alone_is_reported(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    save_two_nights(store)
    modes = {"baseline_run": "run-1", "baseline_case": EAGER.key, "candidate_case": CASE.key}
    page = _opened(open_page, "cpp_fused_add", candidate_run="run-1", **modes)
    assert texts_of(page, "caption") == words
    page = _opened(open_page, "aten::gelu", candidate_run="run-1", **modes)
    assert texts_of(page, "notice") == words


def test_code_that_is_the_same_is_there_once(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    before, after = night(0), night(1)
    save(store, (before, result_of(before, FUSED)), (after, result_of(after, FUSED)))
    page = _opened(open_page, "cpp_fused_add", **NIGHTS)
    assert texts_of(page, "caption") == words
    assert [item.value for item in page.code].count(OLD_CODE.text.rstrip()) == 1


def test_an_opened_row_can_be_closed_and_the_sides_be_swapped(
    open_page: OpenPage, store: Store
) -> None:
    save_two_nights(store)
    page = open_page("kernel-diff", **NIGHTS, row="1")
    urls = link_buttons_of(page)
    assert "row=" not in urls["Close the row"]
    assert "baseline_run=run-1" in urls["Swap sides"]
    assert "row=1" in urls["Swap sides"]


def test_a_row_that_is_not_there_is_reported(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    save_two_nights(store)
    page = open_page("kernel-diff", **NIGHTS, row="99")
    assert texts_of(page, "notice")[-1] == words


def test_two_modes_of_one_run_can_be_compared(open_page: OpenPage, store: Store) -> None:
    save_two_nights(store)
    page = open_page(
        "kernel-diff",
        baseline_run="run-1",
        baseline_case=EAGER.key,
        candidate_run="run-1",
        candidate_case=CASE.key,
    )
    classes = {row["kernel"]: row["class"] for row in cells_of_rows(page, CHANGES)}
    assert classes["aten::gelu"] == "vanished"
    assert classes["cpp_fused_add"] == "new"


def test_the_same_result_twice_is_reported(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    save_two_nights(store)
    page = open_page("kernel-diff", **{**NIGHTS, "candidate_run": "run-0"})
    assert not page.exception
    assert texts_of(page, "notice")[-1] == words


def test_environments_that_do_not_compare_are_shown_with_a_warning(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    before = night(0, environment={"device_name": "A"}, fingerprint="a" * 64)
    after = night(1, environment={"device_name": "B"}, fingerprint="b" * 64)
    save(store, (before, result_of(before, FUSED)), (after, result_of(after, FUSED)))
    page = open_page("kernel-diff", **NIGHTS)
    assert texts_of(page, "notice")[-1] == words
    assert devices_text("A", candidate="B") in texts_of(page, "notice")
    assert texts_of_rows(page, "environment") == [["device_name", "A", "B"]]
    assert texts_of_rows(page, CHANGES)


def test_a_side_without_kernels_names_which_and_how_to_get_them(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    before, after = night(0), night(1)
    save(store, (before, result_of(before)), (after, result_of(after, FUSED)))
    page = open_page("kernel-diff", **NIGHTS)
    text = text_of(page)
    assert "Nothing to compare" in text
    assert texts_of(page, "empty") == words
    assert "run-1 has no kernels" not in text
    assert "hud run --model bert --mode default" in text


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(night(0, toolchain="imported:hud"), id="imported"),
        pytest.param(dataclasses.replace(night(0), plan=(EAGER,)), id="unplanned"),
        pytest.param(night(0), id="pending"),
    ],
)
def test_why_there_are_no_kernels_is_reported(
    run: Run, open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    after = night(1)
    save(store, (run, result_of(run, case=EAGER)), (after, result_of(after, FUSED)))
    assert texts_of(open_page("kernel-diff", **NIGHTS), "empty") == words


def test_a_case_that_failed_reports_how_it_ended(open_page: OpenPage, store: Store) -> None:
    before, after = night(0), night(1)
    failed = make_result("failed", run=before, case=CASE, outcome="failed")
    save(store, (before, failed), (after, result_of(after, FUSED)))
    assert "it ended failed" in text_of(open_page("kernel-diff", **NIGHTS))


def test_a_damaged_profile_is_reported(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    before, after = night(0), night(1)
    profile = {"num_iterations": 5, "iteration_s": 0.001, "parts": 1}
    damaged = dataclasses.replace(result_of(before, FUSED), details={"profile": profile})
    save(store, (before, damaged), (after, result_of(after, FUSED)))
    page = open_page("kernel-diff", **NIGHTS)
    assert not page.exception
    assert texts_of(page, "empty") == words


def test_numbers_that_no_profiler_gives_are_reported(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    before, after = night(0), night(1)
    absurd = dataclasses.replace(FUSED, total_s=1e300)
    save(store, (before, result_of(before, absurd)), (after, result_of(after, FUSED)))
    save_alerts(store, [alert_between(("run-0", "run-1"))])
    page = open_page("kernel-diff", **NIGHTS)
    assert not page.exception
    assert texts_of(page, "empty") == words
    page = open_page("alerts", alert="alert-1")
    assert not page.exception
    assert "Kernel-level cause" not in text_of(page)


def test_code_that_is_too_long_is_shown_and_not_compared(
    open_page: OpenPage, store: Store, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(kernelcode, "MAX_DIFF_LINES", 1)
    save_two_nights(store)
    page = _opened(open_page, "cpp_fused_add", **NIGHTS)
    assert texts_of(page, "notice")[-1] == words
    assert OLD_CODE.text.rstrip() in [item.value for item in page.code]


def test_without_a_case_the_page_asks_for_one(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    save_two_nights(store)
    page = open_page("kernel-diff")
    assert "Which kernels?" in text_of(page)
    page.selectbox(key="choice-baseline_case").select(CASE.key).run()
    assert texts_of(page, "notice")[-1] == words
    page.selectbox(key="choice-baseline_run").select("run-0").run()
    assert texts_of_rows(page, CHANGES)


def test_an_unknown_run_is_a_page_with_a_way_on(open_page: OpenPage, store: Store) -> None:
    save_two_nights(store)
    page = open_page("kernel-diff", **{**NIGHTS, "baseline_run": "nothing"})
    assert not page.exception
    assert "No such run" in text_of(page)


def test_two_unknown_runs_are_both_named(open_page: OpenPage, store: Store) -> None:
    save_two_nights(store)
    names = {"baseline_run": "nothing", "candidate_run": "naught"}
    text = text_of(open_page("kernel-diff", **{**NIGHTS, **names}))
    assert "'nothing' nor 'naught'" in text


def save_a_night_with_a_hostile_kernel(store: Store) -> None:
    """Write a night, and one with a kernel more whose trace has markup wherever a text can be."""
    name = dashboard_stores.HOSTILE_NAME
    hostile = dataclasses.replace(
        make_kernel(name, label=name, operators=[name], shapes=name, source_hash=OLD_CODE.hash),
        module=name,
        config={name: name},
        launch={name: name, "counters": {name: {"value": 1.5, "unit": name}}},
        origins=(Origin(node=name, target=name, module=name, file=name, line=1, code=name),),
    )
    before, after = night(0), night(1)
    save(store, (before, result_of(before, GEMM)), (after, result_of(after, GEMM, hostile)))


def test_names_of_kernels_that_are_markup_are_shown_as_text(
    open_page: OpenPage, store: Store
) -> None:
    save_a_night_with_a_hostile_kernel(store)
    for row in ("", "1", "2", "3"):
        page = open_page("kernel-diff", **NIGHTS, row=row)
        assert not page.exception
        html = html_of(page)
        assert "<script>alert('x')</script>" in text_of(page)
        assert not [tag for tag in ("<script", "<b>", "<i>", "<img") if tag in html]
        assert len(html) < 100_000
        assert "alert(" not in markdown_of(page)


def test_names_of_kernels_behind_an_alert_are_shown_as_text(
    open_page: OpenPage, store: Store
) -> None:
    save_a_night_with_a_hostile_kernel(store)
    save_alerts(store, [alert_between(("run-0", "run-1"))])
    page = open_page("alerts", alert="alert-1")
    assert not page.exception
    (row,) = texts_of_rows(page, "kernels behind the alert")
    assert row[2].startswith("<script>alert('x')</script>")
    assert not [tag for tag in ("<script", "<b>", "<i>", "<img") if tag in html_of(page)]
    assert "alert('x')" not in markdown_of(page)


def test_the_diff_can_be_copied_as_markdown_with_its_address(
    open_page: OpenPage, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared: list[Share] = []
    monkeypatch.setattr(diffview, "show_share", shared.append)
    save_two_nights(store)
    open_page("kernel-diff", baseline_run="run-0", baseline_case=CASE.key)
    (share,) = shared
    assert "| +800.0 | other code | `cpp_fused_add` | Other code" in share.markdown
    assert share.markdown.endswith(f"\n{HERE}\n")
    # The latest run is another one tomorrow.
    assert "candidate_run=run-1" in share.url


def test_of_many_cases_those_of_a_model_can_be_chosen(
    open_page: OpenPage, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffview, "_MAX_CASES", 2)
    plan = [
        EAGER,
        CASE,
        make_case("vit", mode="eager"),
        make_case("vit"),
        make_case("a", dtype="bf16"),
    ]
    run = make_run("run-0", plan=plan)
    save(store, (run, result_of(run, GEMM)))
    page = open_page("kernel-diff", baseline_case=CASE.key)
    offered = page.selectbox(key="choice-candidate_case")
    assert offered.options == ["choose one", EAGER.key, CASE.key]

    page.selectbox(key="diff-model").select("vit").run()
    assert page.query_params["baseline_case"] == plan[3].key
    offered = page.selectbox(key="choice-candidate_case")
    assert (offered.value, offered.options[1:]) == (plan[3].key, [plan[2].key, plan[3].key])

    # It has no case like the one before.
    page.selectbox(key="diff-model").select("a").run()
    assert page.query_params["baseline_case"] == plan[4].key


def test_of_few_cases_all_can_be_chosen(open_page: OpenPage, store: Store) -> None:
    save_two_nights(store)
    page = open_page("kernel-diff", **NIGHTS)
    assert "diff-model" not in [item.key for item in page.selectbox]
    assert page.selectbox(key="choice-baseline_case").options[1:] == [EAGER.key, CASE.key]


def test_the_page_of_a_case_leads_to_eager_and_to_the_run_before(
    open_page: OpenPage, store: Store
) -> None:
    save_two_nights(store)
    page = open_page("run", run="run-1", case=CASE.key)
    urls = link_buttons_of(page)
    assert "baseline_run=run-0" in urls["Kernels since the run before"]
    assert "eager" in urls["Kernels against eager"]
    page = open_page("run", run="run-0", case=CASE.key)
    assert "Kernels since the run before" not in link_buttons_of(page)


def test_a_point_of_a_series_leads_to_the_diff_with_the_one_before(
    open_page: OpenPage, store: Store
) -> None:
    save_two_nights(store)
    page = open_page("series", case=CASE.key)
    links = [url for url in links_of(page) if url.startswith("kernel-diff?")]
    (link,) = links
    assert "baseline_run=run-0" in link
    assert "candidate_run=run-1" in link


def alert_between(run_ids: tuple[str, str], **values: Any) -> Any:
    """Return an alert about `CASE` between the last good and the first bad run."""
    good, bad = (make_run_ref(make_run(run_id)) for run_id in run_ids)
    return make_alert(case=CASE, last_good=good, first_bad=bad, **values)

"""The kernels page of a result, and its texts without kernels."""

from __future__ import annotations

import ast
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.views.kernels.tables import kernel_id
from compile_hud.db.ingest import results as ingest
from compile_hud.db.records.kernels import Kernel, KernelSource, Origin
from compile_hud.db.records.results import Run
from compile_hud.db.shared.trace_paths import TRACES_VARIABLE
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import make_case, make_kernel, make_result, make_run
from tests.support.pages.page_elements import (
    cells_of_rows,
    commands_of,
    html_of,
    link_buttons_of,
    links_of,
    markdown_of,
    text_of,
    texts_of,
)
from tests.support.stores import dashboard_stores

CASE = make_case("bert", mode="default")
RUN = make_run("run-1", plan=[CASE])
GENERATED = dataclasses.replace(
    make_kernel(source_hash="ab" * 32),
    origins=(Origin(node="add_1", target="aten.add.Tensor", file="net.py", line=7, code="x + y"),),
    launch={"arguments": [{"dtype": "float32", "sizes": [4], "strides": [1]}]},
)
PRODUCT = make_kernel(
    "aten::addmm", label="aten::addmm", kind="gemm", library="aten", mean_s=0.002, flops=8e6
)
SOURCE = KernelSource(
    hash="ab" * 32, language="cpp", text='extern "C" void kernel(float* x) { /* <b>code</b> */ }'
)
PROFILE: dict[str, Any] = {
    "num_iterations": 10,
    "iteration_s": 0.008,
    "latency_s": 0.0062,
    "parts": {"gemm": 0.004, "fused": 0.002, "python": 0.002},
    "strip": [[1000, 4_000_000, 0, 0], [5_000_000, 2_000_000, 0, 1]],
    "trace": "result-1.json.gz",
}


def save(
    store: Store,
    *kernels: Kernel,
    run: Run = RUN,
    profile: dict[str, Any] | None = PROFILE,
    result_id: str = "result-1",
) -> None:
    """Write a run with one result that has these kernels."""
    result = make_result(
        result_id,
        run=run,
        case=run.plan[0],
        details={} if profile is None else {"profile": profile},
    )
    result = dataclasses.replace(result, kernels=kernels, sources=(SOURCE,))
    with store.write() as connection:
        ingest.put_run(connection, run, at=run.started_at)
        ingest.put_result(connection, run, result=result, spool_id=result_id, at=run.started_at)


PARAMS = {"run": "run-1", "case": CASE.key}


def test_a_result_has_its_parts_its_kernels_and_its_figures(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    save(store, GENERATED, PRODUCT)
    page = open_page("kernels", **PARAMS)
    assert not page.exception
    text = text_of(page)
    assert "gemm 4.00" in text
    assert "python 2.00" in text
    assert "latency without profiler 6.20" in text
    assert "remainder -1.80" in text
    assert "cost of profiling" in text
    assert "2, 4 calls an iteration" in text
    frame = page.dataframe[0].value
    assert list(frame["label"]) == ["aten::addmm", "cpp_fused_add"]
    assert list(frame["time"]) == pytest.approx([4.0, 2.0])
    # Icicle and timeline; without measured peaks there is no roof to draw.
    assert len(page.get("vega_lite_chart")) == 2
    assert texts_of(page, "notice") == words
    assert "Not drawn, since" not in text


def test_the_roofline_has_the_peaks_of_the_run_and_names_what_is_not_drawn(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    peaks = {"fp32_flops_per_s": 9e10, "copy_bytes_per_s": 3e10}
    save(
        store, GENERATED, PRODUCT, run=make_run("run-1", plan=[CASE], environment={"peaks": peaks})
    )
    page = open_page("kernels", **PARAMS)
    assert len(page.get("vega_lite_chart")) == 3
    assert texts_of(page, "caption") == words


def test_filters_of_the_url_hold(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    save(store, GENERATED, PRODUCT)
    page = open_page("kernels", **PARAMS, text="ADDMM", kind="gemm", library="aten")
    assert list(page.dataframe[0].value["label"]) == ["aten::addmm"]
    assert "1 of 2 rows" in text_of(page)
    page.query_params["kind"] = "attention"
    page.run()
    assert not page.exception
    assert texts_of(page, "notice") == words
    page.query_params["kind"] = "zzz"
    page.run()
    assert texts_of(page, "notice") == words


def test_a_link_opens_a_kernel_with_origin_code_and_script(
    store: Store, open_page: OpenPage
) -> None:
    save(store, GENERATED, PRODUCT)
    page = open_page("kernels", **PARAMS, kernel=kernel_id(GENERATED))
    assert not page.exception
    text = text_of(page)
    assert "add_1 aten.add.Tensor" in text
    assert "net.py:7" in text
    assert "x + y" in text
    codes = [item.value for item in page.code]
    assert SOURCE.text in codes
    assert commands_of(page) == [f"hud kernels run-1 {CASE.key} --repro cpp_fused_add_0"]
    (script,) = [code for code in codes if code.startswith('"""cpp_fused_add_0 alone, as bert/')]
    assert SOURCE.text in script
    assert "value_0 = strided(torch.float32, [4], [1])" in script


def test_a_kernel_without_a_script_has_a_reason_and_a_command(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    unseen = dataclasses.replace(GENERATED, launch={})
    missing = dataclasses.replace(GENERATED, source_hash="cd" * 32)
    save(store, unseen, missing)
    page = open_page("kernels", **PARAMS, kernel=kernel_id(unseen))
    assert texts_of(page, "notice") == words
    (command,) = commands_of(page)
    assert command.startswith("hud run --model bert")
    page.query_params["kernel"] = kernel_id(missing)
    page.run()
    assert texts_of(page, "notice") == words


def test_the_kernel_that_is_open_is_selected_in_the_table(
    store: Store, open_page: OpenPage
) -> None:
    def selected() -> list[int]:
        selection = json.loads(page.dataframe[0].proto.selection_state or "{}")
        return list(selection.get("selection", selection).get("rows", []))

    save(store, GENERATED, PRODUCT)
    page = open_page("kernels", **PARAMS, kernel=kernel_id(GENERATED))
    assert selected() == [1]
    # A click in a chart opens another one.
    page.query_params["kernel"] = kernel_id(PRODUCT)
    page.run()
    assert selected() == [0]
    page.query_params["text"] = "fused_add"
    page.query_params["kernel"] = kernel_id(GENERATED)
    page.run()
    assert selected() == [0]
    page.query_params["kernel"] = kernel_id(PRODUCT)
    page.run()
    assert (selected(), page.exception) == ([], [])
    assert "aten::addmm" in text_of(page)


def test_ready_made_code_has_no_source_and_an_unknown_kernel_is_reported(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    save(store, PRODUCT)
    page = open_page("kernels", **PARAMS, kernel=kernel_id(PRODUCT))
    assert "Library kernel (aten)" in text_of(page)
    assert not page.code
    page.query_params["kernel"] = "ffff"
    page.run()
    assert texts_of(page, "notice") == words


def test_without_a_case_the_page_lists_those_with_kernels(
    store: Store, open_page: OpenPage
) -> None:
    save(store, PRODUCT)
    page = open_page("kernels")
    (row,) = cells_of_rows(page, "cases with kernels")
    assert "bert" in row["case"]
    assert (row["kernels"], row["longest kernel"]) == ("1", PRODUCT.label)


def test_the_page_of_a_case_leads_to_its_kernels(store: Store, open_page: OpenPage) -> None:
    save(store, PRODUCT)
    page = open_page("run", **PARAMS)
    links = link_buttons_of(page)
    assert links["Kernels"].startswith("kernels?run=run-1&case=bert%2F")


def test_a_result_without_kernels_explains_how_to_get_them(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    save(store, profile=None)
    page = open_page("kernels", **PARAMS)
    text = text_of(page)
    assert texts_of(page, "empty") == words
    assert "[run] kernels = true" in text


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("params", [{"run": "none"}, {"case": "no/such/case"}])
def test_what_is_not_in_the_store_has_a_way_on(params: dict[str, str], open_page: OpenPage) -> None:
    page = open_page("kernels", **params)
    assert not page.exception
    assert "No such result" in text_of(page)


def test_a_stored_trace_leads_to_perfetto_and_to_the_file(
    store: Store, store_path: Path, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    save(store, PRODUCT)
    folder = store_path.with_name(store_path.name + ".traces")
    folder.mkdir()
    (folder / "result-1.json.gz").write_bytes(b"")
    page = open_page("kernels", **PARAMS)
    assert {"perfetto/result-1", "traces/result-1"} <= set(links_of(page))
    assert texts_of(page, "notice") == words
    # A rule removes it, and nothing is written to the store.
    (folder / "result-1.json.gz").unlink()
    page.run()
    assert not {"perfetto/result-1", "traces/result-1"} & set(links_of(page))
    assert texts_of(page, "notice") == words


def test_a_trace_that_was_removed_names_its_rule(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    save(store, PRODUCT)
    page = open_page("kernels", **PARAMS)
    text = text_of(page)
    assert texts_of(page, "notice") == words
    assert "[traces] nights" in text


def test_the_folder_that_the_runner_names_counts(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_page: OpenPage
) -> None:
    monkeypatch.setenv(TRACES_VARIABLE, str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "result-1.json.gz").write_bytes(b"")
    save(store, PRODUCT)
    assert "traces/result-1" in links_of(open_page("kernels", **PARAMS))


def test_a_damaged_profile_costs_no_table(store: Store, open_page: OpenPage) -> None:
    save(store, PRODUCT, profile={"num_iterations": "many"})
    page = open_page("kernels", **PARAMS)
    assert not page.exception
    assert "cannot be read" in text_of(page)
    assert len(page.dataframe[0].value) == 1


def test_names_of_a_hostile_trace_are_text(store: Store, open_page: OpenPage) -> None:
    name = dashboard_stores.HOSTILE_NAME
    origin = Origin(node=name, target=name, module=name, file=name, line=1, code=name)
    hostile = dataclasses.replace(
        GENERATED,
        name=name,
        label=name,
        kind=name,
        library=name,
        operators=(name,),
        module=name,
        shapes=name,
        config={name: name},
        launch={
            name: name,
            "arguments": GENERATED.launch["arguments"],
            "counters": {name: {"value": 3.5, "unit": name}, "told": {"value": name, "unit": "%"}},
        },
        origins=(origin,),
    )
    # With peaks there is a roofline.
    peaks = {"fp32_flops_per_s": 9e10, "copy_bytes_per_s": 3e10}
    run = make_run("run-1", plan=[CASE], environment={"peaks": peaks})
    save(store, hostile, run=run, profile=PROFILE | {"parts": {name: 0.008}})
    page = open_page("kernels", **PARAMS, kernel=kernel_id(hostile))
    assert not page.exception
    html = html_of(page)
    for element in ("<script", "<b>", "<img"):
        assert element not in html
    assert "<script>alert('x')</script>" in text_of(page)
    assert "alert(" not in markdown_of(page)
    frame = page.dataframe[0]
    assert max(map(len, frame.value["label"])) <= 300
    assert list(frame.value["counter_0"]) == [3.5]
    assert len(frame.proto.columns) < 10_000
    # In the script it is a word of its first line.
    (script,) = [
        code.value for code in page.code if SOURCE.text in code.value and "def " in code.value
    ]
    ast.parse(script)

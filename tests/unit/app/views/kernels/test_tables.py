"""The table of kernels, its filters, and one kernel in full."""

from __future__ import annotations

import dataclasses
import re

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.data.page_records import AlertPage, KernelsPage
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.urls import OUTCOME, KernelsState
from compile_hud.app.views.alerts.tables import alert_facts, run_ref_cell
from compile_hud.app.views.kernels.breakdown import (
    header_facts,
    no_trace_text,
    ordered_parts,
    parts_bars,
    parts_table,
    profiler_texts,
)
from compile_hud.app.views.kernels.counters import MAX_COLUMNS, counter_columns, hidden_counters
from compile_hud.app.views.kernels.tables import (
    counter_table,
    find_kernel,
    kernel_facts,
    kernel_id,
    kernel_table,
    launch_text,
    matching,
    module_text,
    origin_table,
    repro_command,
    uncounted_text,
)
from compile_hud.app.views.kernels.timeline import strip_text
from compile_hud.app.views.kernels.view import row_id
from compile_hud.app.views.series.tables import point_facts
from compile_hud.db.records.kernels import MODULES, Kernel, Origin, Profile, with_latency_shares
from tests.support.builders import (
    make_alert,
    make_case,
    make_kernel,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.records.page_results import header, point, series_page

FUSED = dataclasses.replace(
    make_kernel(source_hash="ab" * 32, operators=("aten::add", "aten::gelu")),
    module="encoder.layer.0",
    config={"num_warps": 4, "XBLOCK": 1024},
    launch={"grid": [8, 1, 1], "registers": 32, "arguments": ["float32 8"], "streams": [7]},
)
PRODUCT = make_kernel("aten::mm", label="aten::mm", kind="gemm", library="mkl", flops=4e6)
KERNELS = [FUSED, PRODUCT]
PROFILE = Profile(
    num_iterations=10,
    iteration_s=0.008,
    latency_s=0.006,
    components={"python": 0.003, "fused": 0.001, "gemm": 0.004},
)


def test_modules_are_reported_without_the_wrapper_and_one_by_one() -> None:
    layers = [{"path": f"inner.layer.{n}", "count": 2.0, "total_s": 1e-6} for n in range(8)]
    product = dataclasses.replace(PRODUCT, module="inner.layer", launch={MODULES: layers})
    facts = {name: cell.text for name, cell in kernel_facts(product)}
    assert facts["module"] == "8 in layer"
    assert facts["in each module"].startswith("layer.0 (2.00 calls, 1.00 us), layer.1 (")
    assert facts["in each module"].endswith(", 2 more")
    assert list(kernel_table([product]).frame["module"]) == ["8 in layer"]
    assert matching([product], KernelsState(text="layer.7")) == [product]


def test_what_all_of_the_model_shares_is_the_model() -> None:
    modules = [{"path": f"inner.{name}", "count": 1.0, "total_s": 1e-6} for name in "ab"]
    product = dataclasses.replace(PRODUCT, module="inner", launch={MODULES: modules})
    assert list(kernel_table([product]).frame["module"]) == ["2 in the model"]
    assert module_text(dataclasses.replace(PRODUCT, module="inner")) == ""
    assert module_text(dataclasses.replace(PRODUCT, module="innermost.a")) == "innermost.a"


@pytest.mark.parametrize("text", ["FUSED", "aten::gelu", "layer.0", " gelu "])
def test_a_text_is_looked_for_in_label_operators_and_module(text: str) -> None:
    assert matching(KERNELS, KernelsState(text=text)) == [FUSED]


def test_all_filters_hold_at_once() -> None:
    assert matching(KERNELS, KernelsState()) == KERNELS
    assert matching(KERNELS, KernelsState(kind="gemm", library="mkl")) == [PRODUCT]
    assert matching(KERNELS, KernelsState(kind="gemm", library="triton")) == []


def test_each_column_has_one_unit_and_unknown_numbers_none() -> None:
    table = kernel_table(KERNELS)
    labels = {number.key: number.label for number in table.numbers}
    assert labels["time"] == "time (ms)"
    assert labels["bandwidth"] == "memory throughput (GB/s)"
    assert labels["rate"] == "compute (GFLOP/s)"
    assert list(table.frame["time"]) == pytest.approx([2.0, 2.0])
    assert list(table.frame["rate"].isna()) == [True, False]
    assert list(table.frame["share"]) == pytest.approx([20.0, 20.0])
    assert table.ids == (kernel_id(FUSED), kernel_id(PRODUCT))


def test_an_id_is_that_of_the_name_the_code_and_the_shapes() -> None:
    assert kernel_id(FUSED) == kernel_id(dataclasses.replace(FUSED, total_s=9.0))
    others = [{"name": "other"}, {"shapes": "[9]"}, {"source_hash": ""}, {"library": "aten"}]
    ids = {kernel_id(dataclasses.replace(FUSED, **other)) for other in others}  # type: ignore[arg-type]
    assert len(ids | {kernel_id(FUSED)}) == 5


def test_a_kernel_is_found_by_its_id_its_name_and_its_label() -> None:
    assert find_kernel(KERNELS, kernel_id(PRODUCT)) is PRODUCT
    assert find_kernel(KERNELS, FUSED.name) is FUSED
    assert find_kernel(KERNELS, FUSED.label) is FUSED
    assert find_kernel(KERNELS, "aten::bmm") is None
    assert find_kernel(KERNELS, "") is None


def test_a_row_that_was_selected_is_its_kernel() -> None:
    ids = ("a", "b")
    assert row_id({"selection": {"rows": [1]}}, ids) == "b"
    assert row_id({"selection": {"rows": []}}, ids) == ""
    assert row_id({"selection": {"rows": [7]}}, ids) == ""
    assert row_id({}, ids) == ""


def test_an_unknown_value_is_left_out_of_the_facts() -> None:
    names = [name for name, _ in kernel_facts(PRODUCT)]
    assert "operations" in names
    assert [name for name in names if "roofline" in name or "launch" in name] == []


def test_configuration_and_launch_are_reported_without_the_arguments() -> None:
    facts = {name: cell.text for name, cell in kernel_facts(FUSED)}
    assert facts["autotune configuration"] == "num_warps 4, XBLOCK 1024"
    assert launch_text(FUSED) == facts["launch"] == "grid 8x1x1, registers 32, streams 7"


def test_origins_have_their_line_of_code() -> None:
    origin = Origin(node="add_1", target="aten.add", file="net.py", line=7, code="x + <y>")
    html = origin_table(dataclasses.replace(FUSED, origins=(origin,)))
    assert "net.py:7" in html
    assert "x + &lt;y&gt;" in html
    assert origin_table(FUSED) == ""
    many = tuple(dataclasses.replace(origin, node=f"add_{number}") for number in range(11))
    assert "3 further origins" in origin_table(dataclasses.replace(FUSED, origins=many))


@pytest.mark.parametrize("counters", [{}, "none", None])
def test_without_counters_there_is_no_table(counters: object) -> None:
    assert counter_table(dataclasses.replace(FUSED, launch={"counters": counters})) == ""


def test_counters_have_a_row_each() -> None:
    counted = {"inst<x>": {"value": 12.5, "unit": "%"}, "odd": 3}
    html = counter_table(dataclasses.replace(FUSED, launch={"counters": counted}))
    assert "inst&lt;x&gt;" in html
    assert "12.5" in html
    assert ">3<" in html


SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"


def _counting(kernel: Kernel, **counters: object) -> Kernel:
    return dataclasses.replace(kernel, launch={"counters": counters})


def test_counters_are_columns_the_best_known_first() -> None:
    kernels = [
        _counting(
            FUSED,
            **{"dram__bytes": {"value": 4 * 2**20, "unit": "B"}, SM: {"value": 61.5, "unit": "%"}},
        ),
        _counting(PRODUCT, odd=3, text={"value": "much"}),
    ]
    table = kernel_table(kernels)
    labels = {number.key: number.label for number in table.numbers}
    assert (labels["counter_0"], labels["counter_1"]) == ("SM (%)", "dram__bytes (MiB)")
    assert "counter_2" not in labels
    assert list(table.frame["counter_0"].fillna(-1)) == [61.5, -1]
    assert list(table.frame["counter_1"].fillna(-1)) == [4.0, -1]
    assert list(table.frame).index("counter_1") < list(table.frame).index("operators")
    assert hidden_counters(kernels) == ""


def test_of_hundreds_of_counters_some_are_columns_and_the_others_are_counted() -> None:
    counters = {f"c{index:03}": {"value": index, "unit": ""} for index in range(100)}
    columns = counter_columns([_counting(FUSED, **counters)])
    assert [column.label for column in columns] == [f"c{index:03}" for index in range(MAX_COLUMNS)]
    text = f"The list of each opened kernel has {100 - MAX_COLUMNS} more counters."
    assert hidden_counters([_counting(FUSED, **counters)]) == text


def test_a_counter_in_two_units_is_shown_as_it_was_counted() -> None:
    kernels = [
        _counting(FUSED, x={"value": 5e9, "unit": "B"}),
        _counting(PRODUCT, x={"value": 2e9, "unit": "s"}),
    ]
    (column,) = counter_columns(kernels)
    assert (column.label, column.values) == ("x", (5e9, 2e9))


def test_the_command_for_the_script_is_quoted_for_a_shell() -> None:
    run, case = make_run("run-1"), make_case("my net")
    hostile = dataclasses.replace(FUSED, name='a; rm -rf "$HOME"')
    command = repro_command(run, case, hostile)
    assert command.startswith("hud kernels run-1 'my net/")
    assert command.endswith("--repro 'a; rm -rf \"$HOME\"'")


def test_uncounted_kernels_are_named_up_to_a_few(words: SnapshotAssertion) -> None:
    many = [make_kernel(f"k{number}", label=f"k{number}", share=0.01) for number in range(8)]
    text = uncounted_text(many)
    assert text == words
    assert uncounted_text([FUSED]) == words


def test_what_no_kernel_accounts_for_comes_last() -> None:
    assert [name for name, _ in ordered_parts(PROFILE)] == ["gemm", "fused", "python"]


def test_parts_have_the_colour_of_their_kind_and_their_number() -> None:
    html = parts_bars(PROFILE)
    assert 'class="k-gemm" style="width:50.00%" title="gemm: 4.00 ms"' in html
    assert 'title="remainder: 2.00 ms"' in html
    assert ">6.00 ms<" in html


def test_a_latency_that_is_longer_leaves_the_remainder_on_the_side_of_the_parts(
    words: SnapshotAssertion,
) -> None:
    longer = dataclasses.replace(PROFILE, latency_s=0.010)
    html = parts_bars(longer)
    assert html.index("remainder: 2.00 ms") < html.index("latency: 10.0 ms")
    assert profiler_texts(longer) == words


def test_the_overhead_of_the_profiler_is_reported(words: SnapshotAssertion) -> None:
    assert profiler_texts(PROFILE, is_noisy=True) == words
    text = profiler_texts(PROFILE)
    assert text == words
    without = dataclasses.replace(PROFILE, latency_s=None)
    assert profiler_texts(without) == words
    assert "remainder" not in parts_table(without)


# What an H200 took for an eager BERT: recording cost its host 61 us a kernel.
SLOWED = Profile(
    num_iterations=10,
    iteration_s=0.0172,
    latency_s=0.0062,
    components={"idle": 0.0118, "gemm": 0.0054},
    busy=0.0054 / 0.0172,
)


def test_gaps_that_recording_adds_are_no_idle_of_the_device(words: SnapshotAssertion) -> None:
    html = parts_bars(SLOWED)
    assert html.index(": 0.800 ms") < html.index(": 11.0 ms")
    assert html.index(">6.20 ms<") < html.index(">17.2 ms<")
    numbers = parts_table(SLOWED)
    assert "87.1 %" in numbers
    assert "idle, profiled" in numbers
    assert profiler_texts(SLOWED) == words


def test_device_utilisation_is_relative_to_the_latency(words: SnapshotAssertion) -> None:
    slowed = dataclasses.replace(page(trace=""), result=make_result(), profile=SLOWED)
    device = dict(header_facts(slowed))["device"]
    assert device.text == words
    assert [note.text for note in device.notes] == ["31.4 % under the profiler"]
    assert strip_text(SLOWED) == words


@pytest.mark.parametrize("latency_s", [None, 0.0168, 0.0172, 0.02])
def test_a_profile_that_took_no_longer_is_reported_as_it_was_recorded(
    latency_s: float | None, words: SnapshotAssertion
) -> None:
    same = dataclasses.replace(SLOWED, latency_s=latency_s)
    unslowed = dataclasses.replace(page(trace=""), result=make_result(), profile=same)
    device = dict(header_facts(unslowed))["device"]
    assert (device.text, device.notes) == words
    assert "idle: 11.8 ms" in parts_bars(same)
    assert "profiled iteration</div>" in parts_table(same)
    assert "idle, profiled" not in parts_table(same)
    assert "gaps" not in strip_text(same) + " ".join(profiler_texts(same))
    assert with_latency_shares(KERNELS, same) == tuple(KERNELS)


def test_shares_of_kernels_are_of_the_iteration_that_is_reported() -> None:
    (product,) = with_latency_shares([dataclasses.replace(PRODUCT, share=0.0054 / 0.0172)], SLOWED)
    assert product.share == pytest.approx(0.0054 / 0.0062)
    # Of kernels that alone take longer than the latency nothing was idle.
    short = dataclasses.replace(SLOWED, latency_s=0.005)
    assert short.busy_without_profiler == 1.0
    assert "100 %" in parts_table(short)


def test_a_part_of_no_known_kind_is_shown_as_other() -> None:
    odd = dataclasses.replace(PROFILE, components={"<b>": 0.008})
    assert 'class="k-other"' in parts_bars(odd)
    assert "<b>" not in parts_bars(odd) + parts_table(odd)


def page(*, trace: str, has_trace: bool = False, has_traces: bool = True) -> KernelsPage:
    profile = dataclasses.replace(PROFILE, trace=trace)
    return KernelsPage(
        run=make_run(),
        result=None,
        cases=(),
        profile=profile,
        has_trace=has_trace,
        has_traces=has_traces,
    )


def test_a_missing_trace_says_why(words: SnapshotAssertion) -> None:
    assert no_trace_text(page(trace="a.json.gz", has_trace=True)) == ""
    assert "is gone" in no_trace_text(page(trace="a.json.gz"))
    assert no_trace_text(page(trace="")) == words
    assert "[traces] folder" in no_trace_text(page(trace="a.json.gz", has_traces=False))


def test_shapes_of_an_argument_list_stay_readable() -> None:
    long: Kernel = dataclasses.replace(FUSED, launch={"streams": [1, 2, 3, 4, 5]})
    assert launch_text(long) == "streams [1, 2, 3, 4, 5]"
    words: Kernel = dataclasses.replace(FUSED, launch={"flags": ["a", "b"]})
    assert launch_text(words) == 'flags ["a", "b"]'


def test_points_and_alerts_lead_to_the_kernels_of_their_runs() -> None:
    series = series_page([point(3)], headers=[header()])
    facts = point_facts(series, point(3), metric="latency_s", profiled=["run-3"])
    (link,) = [cell.href for _, cell in facts if cell.href]
    assert not any(cell.href for _, cell in point_facts(series, point(3), metric="latency_s"))
    assert link.startswith("kernels?run=run-3&case=bert%2F")
    run_9 = make_run_ref(make_run("run-9"))
    ref_cell = run_ref_cell(run_9, case_key="bert/x", has_kernels=True)
    assert [note.href for note in ref_cell.notes] == ["", "kernels?run=run-9&case=bert%2Fx"]
    assert len(run_ref_cell(run_9, case_key="bert/x").notes) == 1


@pytest.mark.parametrize("profiled", [[], ["good"], ["good", "bad"]])
def test_a_run_of_which_no_kernels_are_stored_leads_to_none(profiled: list[str]) -> None:
    first_bad, last_good = (make_run_ref(make_run(name)) for name in ("bad", "good"))
    alert = make_alert(kind="outcome", metric=OUTCOME, first_bad=first_bad, last_good=last_good)
    page = AlertPage(
        alert=alert,
        text=alert_text(alert),
        event=None,
        num_other_alerts=0,
        series=None,
        changes=(),
        profiled=frozenset(profiled),
    )
    shown = alert_facts(page, now=alert.last_seen)
    assert sorted(re.findall(r"kernels\?run=(\w+)", shown)) == sorted(profiled)

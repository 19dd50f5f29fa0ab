"""The pure parts of the page of the kernel diff: waterfall, tables, Markdown, code."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.code import MAX_DIFF_LINES, HighlightedCode, code_of, unified_diff
from compile_hud.app.ui.format import microseconds
from compile_hud.app.ui.urls import KernelDiffState, kernel_diff_url, swapped
from compile_hud.app.views.kernel_diff.records import DiffPage, DiffRow, DiffSide, KernelSum
from compile_hud.app.views.kernel_diff.tables import (
    diff_table,
    differing_facts,
    headline,
    kernel_table,
    markdown,
    side_table,
    sum_table,
)
from compile_hud.app.views.kernel_diff.waterfall import (
    MAX_BARS,
    waterfall,
    waterfall_legend,
    waterfall_steps,
)
from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import Verdict
from compile_hud.db.shared.text import signed_us
from tests.support.builders import make_case, make_kernel, make_run
from tests.support.pages.table_cells import cells_of, links_in
from tests.support.texts import html_words

US = 1e-6
STATE = KernelDiffState(baseline_run="a", baseline_case="x", candidate_run="b", candidate_case="y")


def _row(number: int, contribution_us: float, **values: Any) -> DiffRow:
    verdict = Verdict.REGRESSION if contribution_us > 0 else Verdict.IMPROVEMENT
    fields = {"kind": "other_code", "label": f"kernel_{number}", "verdict": verdict, **values}
    return DiffRow(
        number=number,
        contribution_s=contribution_us * US,
        text="Other code.",
        matched_by="code",
        **fields,
    )


def _page(*rows: DiffRow, change_us: float = 100.0) -> DiffPage:
    case = make_case("bert")
    side = DiffSide(run=make_run(), case_key=case.key, case=case, num_kernels=1)
    return DiffPage(
        baseline=side,
        candidate=side,
        environment={},
        is_comparable=True,
        basis="latency",
        baseline_s=1000 * US,
        candidate_s=(1000 + change_us) * US,
        change_s=change_us * US,
        unexplained_s=round(change_us * US - sum(row.contribution_s for row in rows), 7),
        rows=rows,
    )


def test_each_bar_begins_where_the_one_above_ends_and_all_end_at_the_difference() -> None:
    part = _row(3, -30, label="idle", is_part=True, verdict=Verdict.UNCHANGED)
    steps = waterfall_steps(_page(_row(1, 90), _row(2, -20), part))
    assert [signed_us(step.size_s) for step in steps] == [
        "+90.0",
        "-20.0",
        "-30.0",
        "+60.0",
        "+100.0",
    ]
    assert [round(step.start_s / US, 6) for step in steps] == [0, 90, 70, 40, 0]
    assert [round(step.end_s / US, 6) for step in steps] == [90, 70, 40, 100, 100]
    assert [step.name for step in steps[-3:]] == ["idle  #3", "unexplained", "difference"]


def test_what_is_beyond_the_largest_is_one_bar() -> None:
    rows = [_row(number, 40 - number) for number in range(1, MAX_BARS + 4)]
    steps = waterfall_steps(_page(*rows))
    assert len(steps) == MAX_BARS + 3
    assert steps[-2].name == "unexplained"
    rest = steps[MAX_BARS]
    assert rest.name == "3 other rows"
    assert rest.size_s == pytest.approx(US * sum(40 - number for number in range(15, 18)))


def test_only_what_was_judged_has_the_colour_of_a_verdict(words: SnapshotAssertion) -> None:
    within = _row(2, 10, kind="unchanged", verdict=Verdict.UNCHANGED)
    steps = waterfall_steps(_page(_row(1, 90), within, _row(3, -20)))
    assert [step.words for step in steps][:4] == ["slower", "within noise", "faster", "not judged"]
    assert html_words(headline(_page(_row(1, 90), within, _row(3, -20)))) == words
    styles = re.findall(r'<div class="(\w*)" style="left', waterfall(steps, STATE))
    assert styles == ["bad", "", "good", "", ""]
    signs = [item.sign for item in waterfall_legend(steps)]
    assert signs == ["bar-bad", "bar-good", "bar-grey"]


def test_the_legend_of_the_bars_has_no_verdict_that_none_of_them_has() -> None:
    steps = waterfall_steps(_page(_row(1, -70)))
    assert [item.sign for item in waterfall_legend(steps)] == ["bar-good", "bar-grey"]


def test_a_bar_starts_at_its_offset_and_has_the_length_of_its_number() -> None:
    html = waterfall(waterfall_steps(_page(_row(1, -50), change_us=-100.0)), STATE)
    # The difference takes what is left of the room for the numbers, and ends at its left.
    assert "--zero:86.00%" in html
    places = re.findall(r"left:([\d.]+)%;width:([\d.]+)%", html)
    assert places == [("43.00", "43.00"), ("0.00", "43.00"), ("0.00", "86.00")]
    assert re.findall(r">([+-][\d.]+)</span>", html) == ["-50.0", "-50.0", "-100.0"]


def test_without_any_difference_the_bars_have_no_length() -> None:
    html = waterfall(waterfall_steps(_page(change_us=0.0)), STATE)
    assert re.findall(r"width:([\d.]+)%", html) == ["0.00"]


def test_what_nothing_is_left_of_has_no_bar_and_no_words() -> None:
    page = _page(_row(1, 99.97), _row(2, 0.02, verdict=Verdict.UNCHANGED, kind="unchanged"))
    assert [step.name for step in waterfall_steps(page)][2:] == ["difference"]
    assert "unexplained" not in markdown(page)
    assert "| +0.0 | | the rest | |" in markdown(page)
    assert ">+0.0 us<" in headline(page)
    # One row that says all needs no rest.
    assert "rest" not in markdown(_page(_row(1, 100)))


def test_the_bar_of_a_row_opens_it_and_says_all_of_it(words: SnapshotAssertion) -> None:
    html = waterfall(waterfall_steps(_page(_row(1, 90))), STATE)
    opened = kernel_diff_url(dataclasses.replace(STATE, row="1")).replace("&", "&amp;")
    assert f'<a href="{opened}">kernel_1  #1</a>' in html
    assert html_words(html) == words
    assert html.count("<a ") == 1


def test_two_kernels_of_one_label_keep_a_bar_each_and_long_names_are_cut_and_text() -> None:
    long = "<script>" + 10_000 * "x"
    steps = waterfall_steps(_page(_row(1, 90, label=long), _row(2, 50, label=long)))
    names = [step.name for step in steps]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) < 60
    html = waterfall(steps, STATE)
    assert "<script>" not in html
    assert len(html) < 4000


def test_every_row_is_listed_and_the_opened_one_is_marked() -> None:
    rows = [_row(number, number) for number in range(1, 34)]
    table = diff_table(_page(*rows), KernelDiffState(row="33"))
    assert table is not None
    cells = cells_of(table)
    assert [row["row"] for row in cells] == [str(row.number) for row in rows]
    assert [row["row"] for row in cells if row["kernel"].endswith("(open)")] == ["33"]
    # A link opens its row, and closes the opened one.
    links = links_in(table, "kernel")
    assert ("row=1" in links[0], "row=" in links[-1]) == (True, False)
    assert cells[0]["contributes (us)"] == signed_us(rows[0].contribution_s)
    assert diff_table(_page(*rows), dataclasses.replace(STATE, change="new")) is None


def test_what_differs_of_configuration_and_launch_is_listed() -> None:
    before = dataclasses.replace(
        make_kernel(), config={"num_warps": 4, "XBLOCK": 64}, launch={"grid": [8, 1, 1]}
    )
    after = dataclasses.replace(
        before,
        config={"num_warps": 8, "XBLOCK": 64},
        launch={"grid": [4, 1, 1], "arguments": ["not told"]},
    )
    row = _row(1, 5, baseline=(before,), candidate=(after,))
    assert differing_facts(row) == {"num_warps": ("4", "8"), "grid": ("8x1x1", "4x1x1")}


def test_of_several_kernels_each_value_is_reported_once() -> None:
    one, other = make_kernel(shapes="[2]"), make_kernel(shapes="[4]")
    row = _row(1, 5, baseline=(one, other, one), candidate=(other,))
    assert differing_facts(row) == {"shapes": ("[2], [4]", "[4]")}


def test_counters_of_the_kernels_of_a_row_are_columns() -> None:
    counters = {"counters": {"<b>sm</b>": {"value": 61.5, "unit": "%"}}}
    before = make_kernel("k")
    after = dataclasses.replace(before, launch=counters)
    html = kernel_table(_row(1, 5, baseline=(before,), candidate=(after,)))
    assert "&lt;b&gt;sm&lt;/b&gt; (%)" in html
    assert html.index(">-<") < html.index(">61.5<")
    assert "<b>" not in html


def test_names_in_markdown_stay_text(words: SnapshotAssertion) -> None:
    row = _row(1, 90, label="a|b`c\n<script>")
    text = markdown(_page(dataclasses.replace(row, text="[link](x) <b>*bold*</b> | cell")))
    (line,) = [line for line in text.splitlines() if line.startswith("| +90.0")]
    assert line == (words)
    assert "| +10.0 | | what is unexplained | |" in text
    same = _row(2, 4, kind="unchanged")
    both = markdown(_page(row, same))
    assert [line for line in both.splitlines() if "| +10.0 | |" in line] == words


def test_the_code_of_a_side_is_there_once_and_without_what_steers_a_page() -> None:
    kernel = make_kernel(source_hash="h")
    sources = {"h": KernelSource(hash="h", language="triton", text="def k():\x1b\n    pass")}
    before = code_of((kernel, kernel), sources)
    assert before == HighlightedCode(text="def k():?\n    pass", language="python")
    assert code_of((make_kernel(),), sources) == HighlightedCode(text="", language=None)


def test_code_of_too_many_lines_is_not_compared() -> None:
    long = HighlightedCode(text="x\n" * (MAX_DIFF_LINES + 1), language=None)
    with pytest.raises(ValueError, match="more than 3000 lines"):
        unified_diff(long, HighlightedCode(text="x", language=None))


def test_swapped_twice_is_what_it_was() -> None:
    assert swapped(swapped(STATE)) == STATE
    assert swapped(STATE).baseline_run == "b"


def test_two_equal_cases_are_named_once_in_a_url() -> None:
    state = dataclasses.replace(STATE, candidate_case="x", row="3")
    assert kernel_diff_url(state) == (
        "kernel-diff?baseline_run=a&baseline_case=x&candidate_run=b&row=3"
    )


@pytest.mark.parametrize(
    ("time_s", "plain", "signed"),
    [(0.0123456, "12,345.6", "+12,345.6"), (-1e-9, "0.0", "+0.0"), (-2e-6, "-2.0", "-2.0")],
)
def test_microseconds_have_one_decimal_and_no_minus_before_zero(
    time_s: float, plain: str, signed: str
) -> None:
    assert (microseconds(time_s), signed_us(time_s)) == (plain, signed)


def test_the_device_of_each_side_is_in_the_table_of_sides() -> None:
    page = _page()
    run = make_run(environment={"device_name": "Quadro GV9"})
    page = dataclasses.replace(page, candidate=dataclasses.replace(page.candidate, run=run))
    assert "Quadro GV9" in html_words(side_table(page))
    assert page.baseline.device == ""


def test_changed_sums_are_in_a_table_by_kind_operator_and_module() -> None:
    sums = tuple(
        KernelSum(
            property=name, name=label, label=label, baseline_s=before * US, candidate_s=after * US
        )
        for name, label, before, after in (("kind", "gemm", 130, 329), ("operator", "sum", 5, 0))
    )
    shown = html_words(sum_table(dataclasses.replace(_page(), sums=sums)))
    assert shown[-10:-5] == ["kind", "gemm", "130.0", "329.0", "+199.0"]
    assert shown[-5:] == ["operator", "sum", "5.0", "0.0", "-5.0"]
    assert sum_table(_page()) == ""

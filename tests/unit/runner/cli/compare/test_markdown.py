"""A comparison as Markdown; whatever a name is, it stays a name."""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Verdict
from compile_hud.db.shared.text import markdown_code
from compile_hud.runner.analysis.comparison.measurements import Comparison
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.cli.compare.markdown import (
    Compared,
    Trends,
    comparison_markdown,
)
from tests.support.builders import make_case, make_run

HOSTILE = (
    "<script>alert(1)</script>",
    "@octocat #1 owner/repo#2 https://example.org",
    "a | b | c",
    "`` ` [x](http://example.org) ![y](z) **b** _i_ ~~s~~",
    "</code><img src=x>",
    "two\nlines\r\n| forged | row |",
    "\u202eright to left\x1b[31m",
    "<!-- comment -->",
    "&lt;b&gt;",
)


def row(
    model: str = "bert", *, verdict: Verdict = Verdict.REGRESSION, reason: str = ""
) -> CaseComparison:
    return CaseComparison(
        case=make_case(model),
        metric="latency_s",
        unit="s",
        baseline=0.010,
        candidate=0.012,
        comparison=Comparison(
            ratio=1.2,
            low=1.15,
            high=1.25,
            verdict=verdict,
            is_significant=True,
            is_relevant=True,
            reason=reason,
        ),
    )


def test_other_code_of_a_model_is_reported_before_the_rows() -> None:
    runs = [
        make_run(name, environment={"model_commits": {"bert": revision}})
        for name, revision in (("before", "aaa1"), ("after", "aaa1+dirty(5f3a)"))
    ]
    compared = Compared(baseline=runs[0], candidate=runs[1], rows=[row()], machine="box")
    text = comparison_markdown(compared)
    line = markdown_code("bert: model code changed: aaa1 -> aaa1+dirty(5f3a)")
    assert text.index(line) < text.index("| case |")


def text_of(*rows: CaseComparison, trends: Trends | None = None) -> str:
    compared = Compared(
        baseline=make_run("before"),
        candidate=make_run("after"),
        rows=rows,
        machine="steady",
        trends=trends or {},
    )
    return comparison_markdown(compared)


def test_a_table_says_what_changed_worst_first(words: SnapshotAssertion) -> None:
    better = row("vit", verdict=Verdict.IMPROVEMENT)
    same = row("gpt2", verdict=Verdict.UNCHANGED)
    worse = row(reason="confirmed")
    trends = {(make_case().key, "latency_s"): [0.010, 0.010, 0.012]}
    lines = text_of(same, better, worse, trends=trends).splitlines()
    assert lines[0] == (words)
    table = [line for line in lines if line.startswith("| ")]
    assert len(table) == 4
    assert "<code>bert&#47;inference" in table[2]
    assert " | 10.0 ms | 12.0 ms | +20.0 % | [+15.0, +25.0] % | \u2581\u2581\u2588 | " in table[2]
    assert table[2].endswith(" | **regression** | <code>confirmed</code> |")
    assert "vit" in table[3]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_code_of_one_line_without_any_markup(name: str) -> None:
    inside = re.fullmatch(r"<code>(.*)</code>", markdown_code(name))
    assert inside is not None
    assert re.fullmatch(r"(\w| |&#\d+;)*", inside[1])
    assert not re.search(r"[`<>@|\[\]*_~\n\r\x1b\u202e]", inside[1].replace("&#", ""))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_adds_no_row_and_no_column(name: str) -> None:
    plain, hostile = text_of(row()), text_of(row(name, reason=name))
    assert len(hostile.splitlines()) == len(plain.splitlines())
    assert hostile.splitlines()[-1].count("|") == plain.splitlines()[-1].count("|")


def test_a_long_name_is_cut() -> None:
    assert markdown_code("x" * 500) == f"<code>{'x' * 157}&#46;&#46;&#46;</code>"


def test_a_comment_stays_below_what_github_takes() -> None:
    text = text_of(*[row(f"{number}" + "|" * 500, reason="|" * 500) for number in range(100)])
    num_shown = text.count("**regression**")
    assert f"{100 - num_shown} more rows" in text
    assert num_shown > 20
    assert len(text) < 65_536

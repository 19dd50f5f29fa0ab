"""Runs, comparisons and alerts as Markdown, in which names stay names."""

from __future__ import annotations

import dataclasses
import re

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.data.commands import comparing_command, run_command, transplanting_command
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.share import HERE, block
from compile_hud.app.views.alerts.markdown import alert_markdown, event_markdown
from compile_hud.app.views.compare.markdown import compare_markdown
from compile_hud.app.views.compare.records import ComparedRow, ComparePage
from compile_hud.app.views.runs.markdown import run_markdown
from compile_hud.db.records.findings import Finding
from compile_hud.db.records.results import Outcome, Verdict
from tests.support.builders import make_alert, make_case, make_run
from tests.support.records.page_results import result_summary, run_page

HOSTILE = "x`\n```\n# [a](http://evil.example) <img src=x> **b**"
OK, BAD = make_case("bert"), make_case("vit")


def row(name: str = "bert", **values: object) -> ComparedRow:
    """Return a comparison of the latency of a model that became a fifth slower."""
    case = make_case(name)
    summary = ComparedRow(
        baseline_case=case,
        candidate_case=case,
        metric="latency_s",
        unit="s",
        baseline=0.010,
        candidate=0.012,
        ratio=1.2,
        machine_ratio=None,
        low=1.18,
        high=1.22,
        verdict=Verdict.REGRESSION,
        is_significant=True,
        is_relevant=True,
        reason="slower",
    )
    return dataclasses.replace(summary, **values)  # type: ignore[arg-type]


def compared(*rows: ComparedRow, refusal: str = "") -> ComparePage:
    """Return the comparison of two runs."""
    before, after = make_run("run-1"), make_run("run-2")
    return ComparePage(baseline=before, candidate=after, environment={}, rows=rows, refusal=refusal)


def test_a_run_says_how_it_went_and_what_failed(words: SnapshotAssertion) -> None:
    failed = result_summary(BAD, outcome=Outcome.FAILED, reason="Error: no\nmore")
    page = run_page([result_summary(OK), failed])
    text = run_markdown(page, case="", command="hud run --suite quick")
    assert text == words
    assert "of 2 cases, 1 ok\n" in text
    assert f"- `{BAD.key}`: failed, `Error: no`\n- {HERE}\n" in text
    assert text.endswith("```\nhud run --suite quick\n```\n")


def test_a_case_of_a_run_comes_first_with_its_numbers() -> None:
    page = run_page([result_summary(OK), result_summary(BAD, outcome=Outcome.FAILED)])
    lines = run_markdown(page, case=OK.key, command="").splitlines()
    assert lines[2:4] == [f"- `{OK.key}`: ok", "- latency: 12.0 ms [11.9, 12.1]"]
    assert "```" not in lines


def test_a_case_of_a_run_names_its_first_findings() -> None:
    result = result_summary(OK)
    findings = [Finding(code="hidden-sync", text="the `host` waits", remedy="")] * 4
    findings[0] = Finding(code="host-bound", text="waits", remedy="", cost_s=0.0012)
    page = dataclasses.replace(run_page([result]), findings={result.id: tuple(findings)})
    lines = run_markdown(page, case=OK.key, command="").splitlines()
    shown = [line for line in lines if "finding" in line]
    second = "- finding hidden-sync: `the 'host' waits`"
    assert shown == ["- finding host-bound 1.20 ms: `waits`", second, second]


def test_a_message_names_ten_of_many_failures(words: SnapshotAssertion) -> None:
    cases = [make_case(f"m{number}") for number in range(12)]
    page = run_page([result_summary(case, outcome=Outcome.TIMEOUT) for case in cases])
    text = run_markdown(page, case="", command="")
    assert text.count(": timeout") == 10
    assert text == words


def test_a_comparison_names_what_changed_and_counts_the_rest(words: SnapshotAssertion) -> None:
    rows = [row(), row("vit", verdict=Verdict.UNCHANGED)]
    text = compare_markdown(compared(*rows), rows=rows, command="hud compare -- run-1 run-2")
    assert text.startswith("Comparison of run `run-1` (")
    assert "1 regression" in text
    assert "1 unchanged" in text
    assert text == words
    assert "vit" not in text


def test_a_comparison_that_is_refused_says_why(words: SnapshotAssertion) -> None:
    text = compare_markdown(compared(refusal="other devices"), rows=[], command="")
    assert text == words


def test_an_alert_says_what_changed_since_when() -> None:
    alert = dataclasses.replace(make_alert(), cause_text="a new kernel")
    text = alert_markdown(alert, text=alert_text(alert), command="hud run --model bert")
    assert text.startswith("regression: `bert ")
    assert "- `latency`: +20.0 % [+18.0, +22.0] %, " in text
    assert "- first bad: `" in text
    assert "- cause: `a new kernel`\n" in text
    assert "hud run --model bert" in text


def test_an_event_lists_its_alerts() -> None:
    alerts = [make_alert(f"a{number}") for number in range(22)]
    text = event_markdown("many are slower", alerts, command="")
    assert text.startswith("`many are slower`\n")
    assert text.count("+20.0 %` (open)") == 20
    assert "- 2 more\n" in text


def summaries_of_odd_names() -> list[str]:
    case = make_case(HOSTILE)
    failed = result_summary(case, outcome=Outcome.FAILED, reason=HOSTILE)
    odd = dataclasses.replace(
        make_alert(case=case), cause_text=HOSTILE, note=HOSTILE, machine=HOSTILE
    )
    return [
        run_markdown(run_page([failed]), case="", command=HOSTILE),
        run_markdown(run_page([failed]), case=case.key, command=HOSTILE),
        compare_markdown(compared(row(HOSTILE)), rows=[row(HOSTILE)], command=HOSTILE),
        compare_markdown(compared(refusal=HOSTILE), rows=[], command=HOSTILE),
        alert_markdown(odd, text=alert_text(odd), command=HOSTILE),
        event_markdown(HOSTILE, [odd], command=HOSTILE),
    ]


@pytest.mark.parametrize("text", summaries_of_odd_names())
def test_nothing_in_a_name_is_markdown(text: str) -> None:
    summary, _, command = text.partition(HERE)
    outside = re.sub(r"`[^`\n]*`", "", summary)
    assert not re.search(r"[`<#\[*!]", outside.replace("[+18.0, +22.0]", ""))
    assert command == f"\n\n{block(HOSTILE)}\n"


def test_nothing_in_a_command_ends_its_block() -> None:
    assert block("a\n````\nb") == "`````\na\n````\nb\n`````"


def test_commands_quote_names_and_are_none_where_nothing_can_repeat(
    words: SnapshotAssertion,
) -> None:
    run = make_run(suite="a b", toolchain="current")
    assert run_command(run) == words
    assert run_command(make_run(suite="quick", toolchain="x")) == words
    assert run_command(make_run(suite="custom")) == ""
    assert run_command(make_run(toolchain="imported:main")) == ""
    one, two = make_run("-x"), make_run("$(rm)")
    assert comparing_command(one, two) == "hud compare -- -x '$(rm)'"
    assert transplanting_command(make_alert("-x")) == "hud kernels transplant -- -x"
    assert transplanting_command(make_alert("$(rm)")).endswith(" '$(rm)'")
    assert transplanting_command(make_alert(verdict="improvement")) == ""

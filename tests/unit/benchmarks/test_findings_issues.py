"""The answers about public issues, from findings as the product gives them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.findings.issues import ISSUES, LEDGER, MODELS, line_of, recorded, row_of, verdict
from benchmarks.findings.issues import summary as summary_of
from compile_hud.db.records.findings import Finding, Location

BY_NUMBER = {issue.name.rpartition("#")[2]: issue for issue in ISSUES}
COUNTER = BY_NUMBER["128319"]


def finding_of(code: str, *, line: int = 0, operators: tuple[str, ...] = ()) -> Finding:
    where = Location(line=f"{MODELS.name}:{line}" if line else "", operators=operators)
    return Finding(code=code, text="", cost_s=None, where=where, remedy="", evidence=())


def test_a_cause_is_named_with_its_line() -> None:
    line = line_of(COUNTER.line)
    assert verdict(COUNTER, [finding_of("recompiles", line=line)]) == "yes"
    assert verdict(COUNTER, [finding_of("recompiles", line=line + 1)]) == "partly"
    assert verdict(COUNTER, [finding_of("graph-break", line=line)]) == "no"


def test_a_cause_without_a_line_is_named_with_its_operator() -> None:
    issue = BY_NUMBER["2013"]
    assert verdict(issue, [finding_of("extern-fallback", operators=("cumsum",))]) == "yes"
    assert verdict(issue, [finding_of("extern-fallback", operators=("sort",))]) == "partly"


@pytest.mark.parametrize("issue", ISSUES, ids=lambda issue: issue.name)
def test_an_issue_has_a_model_with_its_line_a_recording_or_a_reason(issue: object) -> None:
    assert issue in ISSUES
    row = next(item for item in ISSUES if item is issue)
    assert sum(bool(source) for source in (row.model, row.recording, row.why_none)) == 1
    if row.model:
        assert f"\ndef {row.model}(" in MODELS.read_text(encoding="ascii")
    if row.line:
        assert line_of(row.line) > 0
    if row.recording:
        assert (LEDGER / row.recording).is_file()


def test_a_recorded_run_answers_for_an_issue_of_a_gpu() -> None:
    issue = BY_NUMBER["48925"]
    row = row_of(issue, recorded(issue))
    assert row["is_named"] == "yes"
    assert row["findings_s"] > 0
    other = replace(issue, code="memory-grows")
    assert row_of(other, recorded(other))["is_named"] == "no"


def test_answers_are_counted() -> None:
    rows = [
        {"is_named": "yes", "findings_s": 0.1},
        {"is_named": "no", "findings_s": 0.3},
        row_of(BY_NUMBER["124506"], None),
    ]
    assert summary_of(rows) == {
        "num_issues": 3,
        "num_yes": 1,
        "num_partly": 0,
        "num_no": 1,
        "num_unknown": 1,
        "max_findings_s": 0.3,
    }

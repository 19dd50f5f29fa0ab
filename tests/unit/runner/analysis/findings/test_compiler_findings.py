"""Findings from the records of the compiler."""

from __future__ import annotations

from compile_hud.db.records.results import Outcome
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.records.gpu_results import findings_by_code, gpu_result

BREAK = {"reason": "Unsupported builtin\n more", "file": "/src/net.py", "line": 8, "function": "f"}
GUARD = {"reason": "L['n'] == 3", "file": "/src/net.py", "line": 21, "function": "g"}


def test_graph_breaks_name_the_first_line_and_reason() -> None:
    breaks = make_measurement("graph_breaks", samples=(2.0,))
    result = gpu_result(measurements=[breaks], details={"graph_breaks": [BREAK]})
    finding = findings_by_code(result)["graph-break"]
    assert (finding.cost_s, finding.where.line) == (None, "net.py:8")
    assert finding.text.endswith(": Unsupported builtin")


def test_recompiles_name_the_guard() -> None:
    counted = make_measurement("recompiles", samples=(1.0,))
    finding = findings_by_code(gpu_result(measurements=[counted], details={"recompiles": [GUARD]}))[
        "recompiles"
    ]
    assert finding.where.line == "net.py:21"
    assert finding.text.endswith("L['n'] == 3")


def test_a_whole_graph_is_silent() -> None:
    counts = [make_measurement(name, samples=(0.0,)) for name in ("graph_breaks", "recompiles")]
    assert findings_by_code(gpu_result(measurements=counts, details={"graph_breaks": []})) == {}


def test_a_mode_with_the_code_of_another_says_so() -> None:
    result = make_result(
        case=make_case(mode="max-autotune"),
        outcome=Outcome.SAME_CODE,
        reason="same code as default",
    )
    assert "`default`" in findings_by_code(result)["same-code"].text
    assert findings_by_code(make_result(outcome=Outcome.FAILED)) == {}

"""Findings from the records of the compiler."""

from __future__ import annotations

from compile_hud.db.records.findings import Finding
from compile_hud.db.records.results import Outcome
from compile_hud.db.records.run_warning import RunWarning
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


def test_recompiles_have_the_median_seconds_of_one() -> None:
    counted = make_measurement("recompiles", samples=(2.0,))
    compiled = {"compile_id": "0/0", "reason": "", "phases_s": {"dynamo": 9.0}}
    again = [
        {
            "compile_id": f"0/{number}",
            "reason": "L['n'] == 3",
            "phases_s": {"dynamo": 1.0, "aot": s},
        }
        for number, s in ((1, 0.5), (2, 1.5))
    ]
    details = {"recompiles": [GUARD], "compilations": [[compiled, *again], [compiled]]}
    finding = findings_by_code(gpu_result(measurements=[counted], details=details))["recompiles"]
    assert ", 2.00 s each: " in finding.text
    assert (finding.evidence[0].name, finding.evidence[0].value) == ("recompile_s", 2.0)
    assert finding.cost_s is None


def test_a_recompile_counts_with_its_backward() -> None:
    counted = make_measurement("recompiles", samples=(1.0,))
    parts = [
        {"compile_id": "0/1", "reason": reason, "phases_s": {"inductor": 2.0}}
        for reason in ("L['n'] == 3", "")
    ]
    details = {"recompiles": [GUARD], "compilations": [parts]}
    finding = findings_by_code(gpu_result(measurements=[counted], details=details))["recompiles"]
    assert finding.evidence[0].value == 4.0


def warned(*codes: str, mode: str = "eager") -> dict[str, Finding]:
    """Return the findings of a case that ran in `mode`, with the warnings of these codes."""
    texts = {
        "mode-fallback": "default fell back to eager: Dynamo captured no graph (break in loop at"
        " net.py:63)",
        "frame-not-compiled": "Dynamo compiled nothing of `f`: no source at net.py:8 in f",
        "recompile-limit": "Dynamo gave up after 7 recompiles, the last for `n == 9` at net.py:49",
    }
    warnings = [RunWarning(code=code, text=texts[code], hint="") for code in codes]
    return findings_by_code(gpu_result(warnings=warnings, effective_mode=mode))


def test_a_function_that_runs_eagerly_is_named_with_its_line() -> None:
    loop = warned("mode-fallback")["not-compiled"]
    assert (loop.where.line, loop.cost_s) == ("net.py:63", None)
    assert "fell back" not in loop.text
    assert warned("frame-not-compiled", mode="default")["not-compiled"].where.line == "net.py:8"


def test_the_limit_of_recompiles_precedes_its_consequence() -> None:
    finding = warned("mode-fallback", "recompile-limit")["not-compiled"]
    assert finding.where.line == "net.py:49"
    assert finding.remedy != warned("mode-fallback")["not-compiled"].remedy
    assert [item.name for item in finding.evidence] == ["recompile-limit", "mode-fallback"]


def test_a_mode_that_falls_back_to_default_is_compiled() -> None:
    assert "not-compiled" not in warned("mode-fallback", mode="default")
    assert "not-compiled" not in warned()


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

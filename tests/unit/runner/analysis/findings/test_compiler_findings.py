"""Findings from the records of the compiler."""

from __future__ import annotations

from typing import Any

import pytest

from compile_hud.db.records.findings import NOT_MEASURED, Finding
from compile_hud.db.records.graphs.host_times import HOST_TIMES
from compile_hud.db.records.kernels import CACHE_LOOKUP
from compile_hud.db.records.results import Case, Outcome
from compile_hud.db.records.run_warning import RunWarning
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.records.gpu_results import findings_by_code, gpu_kernel, gpu_result

BREAK = {"reason": "Unsupported builtin\n more", "file": "/src/net.py", "line": 8, "function": "f"}
GUARD = {"reason": "L['n'] == 3", "file": "/src/net.py", "line": 21, "function": "g"}


def test_graph_breaks_name_the_first_line_and_reason() -> None:
    breaks = make_measurement("graph_breaks", samples=(2.0,))
    result = gpu_result(measurements=[breaks], details={"graph_breaks": [BREAK]})
    finding = findings_by_code(result)["graph-break"]
    assert (finding.cost_s, finding.where.line) == (None, "net.py:8")
    assert finding.text.endswith(": Unsupported builtin")


CPU = make_case(device="cpu", mode="default")


def broken(*, case: Case = CPU, guard_us: float = 0.0, **times: Any) -> dict[str, Finding]:
    """Return the findings of a case of 1000 us with a break whose gap has these times in us."""
    measured = {name: [1e-6 * value] for name, value in times.items()}
    host_times = {"num_gaps": 1, "fallbacks": [], **measured}
    lookup = gpu_kernel(CACHE_LOOKUP, kind="dispatch", library="other", count=2, mean_us=100)
    result = gpu_result(
        *([lookup] if guard_us else ()),
        case=case,
        measurements=[
            make_measurement("graph_breaks", samples=(1.0,)),
            *([make_measurement("guard_s", samples=(1e-6 * guard_us,))] if guard_us else ()),
        ],
        details={"graph_breaks": [BREAK], HOST_TIMES: host_times},
    )
    return findings_by_code(result)


def test_a_graph_break_costs_its_gap_without_the_operators_in_it() -> None:
    finding = broken(gaps_s=90, gap_operators_s=30, gap_guards_s=5)["graph-break"]
    assert finding.cost_s == pytest.approx(60e-6)
    assert finding.evidence[0].value == pytest.approx(90e-6)


@pytest.mark.parametrize(
    ("case", "times"),
    [
        (CPU, {"gaps_s": 90}),
        (CPU, {"gaps_s": 20, "gap_operators_s": 30}),
        (make_case(device="cuda", mode="default"), {"gaps_s": 90, "gap_operators_s": 30}),
    ],
    ids=["no trace", "operators alone", "a GPU works on"],
)
def test_a_graph_break_whose_time_is_unknown_has_no_cost(
    case: Case, times: dict[str, float]
) -> None:
    assert broken(case=case, **times)["graph-break"].cost_s is None


def test_a_second_of_guards_belongs_to_the_break_or_to_the_guards() -> None:
    findings = broken(guard_us=180, gaps_s=90, gap_operators_s=0, gap_guards_s=40)
    assert findings["graph-break"].cost_s == pytest.approx(90e-6)
    assert findings["guard-overhead"].cost_s == pytest.approx(140e-6)
    without = broken(guard_us=180, gaps_s=90)
    assert without["guard-overhead"].cost_s == pytest.approx(180e-6)


def test_a_measured_cost_is_at_most_what_is_left_of_the_latency() -> None:
    findings = broken(guard_us=200, gaps_s=5000, gap_operators_s=0, gap_guards_s=0)
    assert findings["guard-overhead"].cost_s == pytest.approx(200e-6)
    assert findings["graph-break"].cost_s == pytest.approx(800e-6)


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
    # 1.5 and 2.5 s in the first launch: once, and in no iteration.
    assert (finding.cost_s, finding.one_time_s) == (None, 4.0)
    assert finding.missing_cost_text == "4.00 s once"
    more = make_measurement("recompiles", samples=(3.0,))
    incomplete = findings_by_code(gpu_result(measurements=[more], details=details))["recompiles"]
    assert (incomplete.one_time_s, incomplete.missing_cost_text) == (None, NOT_MEASURED)


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

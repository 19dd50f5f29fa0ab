"""The tables about compiling."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.findings import Finding
from compile_hud.db.records.memory.peak import (
    MEMORY_PEAK,
    HolderKind,
    MemoryHolder,
    PeakHolders,
)
from compile_hud.runner.cli.results.case_tables import (
    MAX_COMPILATIONS,
    MAX_LOCATIONS,
    findings_summary,
    location_lines,
    print_caches,
    print_compilations,
    print_compile,
    print_compiler_log,
    print_memory,
)
from tests.support.builders import make_case, make_document, make_measurement, make_result, make_run

LOCATION = {
    "reason": "self.n == 3\n  Explanation: long",
    "file": "/models/net.py",
    "line": 11,
    "function": "forward",
}


def compiled(**details: object) -> list[str]:
    result = make_result(case=make_case("bert"), details=details)
    return [line.removeprefix(f"{result.case.key}: ") for line in location_lines(result)]


def test_a_recompile_is_reported_with_its_line_and_its_guard(words: SnapshotAssertion) -> None:
    assert compiled(recompiles=[LOCATION]) == words


def test_a_graph_break_without_a_line_still_has_its_reason() -> None:
    nowhere = {"reason": "a print", "file": None, "line": None, "function": None}
    assert compiled(graph_breaks=[nowhere], recompiles=[]) == ["graph break: a print"]


def test_results_of_other_origin_have_no_places() -> None:
    assert compiled() == []
    assert compiled(graph_breaks=None) == []


def test_many_places_are_cut_short(words: SnapshotAssertion) -> None:
    lines = compiled(recompiles=[LOCATION] * (MAX_LOCATIONS + 2))
    assert len(lines) == MAX_LOCATIONS + 1
    assert lines[-1] == words


def test_the_table_has_a_row_for_each_compiled_result(
    capsys: pytest.CaptureFixture[str], words: SnapshotAssertion
) -> None:
    cases = (make_case("bert"), make_case("gpt2"))
    run = make_run(plan=cases)
    numbers = {
        "graphs": 1.0,
        "compile_cold_s": 9.71,
        "compile_dynamo_s": 1.53,
        "compile_aot_s": 0.972,
        "compile_inductor_s": 3.01,
        "compile_backend_s": 4.18,
        "compile_warm_s": 1.01,
        "break_even_calls": 6630.6,
        "guards": 734.0,
        "guard_s": 21.4e-6,
    }
    measurements = [make_measurement(name, samples=(value,)) for name, value in numbers.items()]
    document = make_document(
        run,
        results=[
            make_result(
                "a",
                run=run,
                case=cases[0],
                measurements=measurements,
                details={"recompiles": [LOCATION]},
            ),
            make_result("b", run=run, case=cases[1]),
        ],
    )
    print_compile(document)
    assert [line.split("  ") for line in capsys.readouterr().out.splitlines()][1] == ["compile"]
    print_compile(document)
    header, row, location = capsys.readouterr().out.splitlines()[2:]
    assert header.split()[:6] == ["model", "mode", "phase", "shape", "dtype", "cold"]
    assert row.split("  ")[-1].strip() == "21.4 us"
    for text in ("734", "9.71 s", "1.53 s", "972 ms", "3.01 s", "4.18 s", "1.01 s", "6,631 calls"):
        assert text in row
    assert location == words


def test_a_run_without_compiled_results_has_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_compile(make_document())
    assert capsys.readouterr().out == ""


def test_the_caches_of_a_case_have_a_row_for_each_launch(
    capsys: pytest.CaptureFixture[str], words: SnapshotAssertion
) -> None:
    reason = {
        "cache": "fxgraph",
        "event": "miss",
        "reason": "its key differs in gm: x -> y",
        "is_permanent": False,
        "remedy": "keep it",
    }
    launches = [
        {"state": "cold", "cache": {"fxgraph_misses": 2}},
        {"state": "warm", "cache": {"fxgraph_hits": 1, "fxgraph_misses": 1}},
    ]
    launches[1]["cache_reasons"] = [reason]
    print_caches(make_result(case=make_case("bert"), details={"compile": launches}))
    print_caches(make_result(case=make_case("bert"), details={}))
    assert capsys.readouterr().out == words


def compilation(number: int, *, is_backward: bool = False) -> dict[str, object]:
    return {
        "compile_id": f"0/{number}",
        "is_backward": is_backward,
        "phases_s": {"aot": 0.5} if is_backward else {"dynamo": 0.25 * (number + 1), "aot": 1.0},
        "function": "forward",
        "file": "/models/net.py",
        "line": 11,
        "reason": "n == 3" if number else "",
        "failure": "",
        "num_ops": 1234,
        "num_guards": None,
    }


def test_each_compilation_has_a_row_with_its_phases(
    capsys: pytest.CaptureFixture[str], words: SnapshotAssertion
) -> None:
    listed = [compilation(0), compilation(1), compilation(0, is_backward=True)]
    print_compilations(make_result(details={"compilations": [listed, []]}))
    print_compilations(make_result(details={}))
    assert capsys.readouterr().out == words


def test_the_shortest_of_many_compilations_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [compilation(number) for number in range(MAX_COMPILATIONS + 3)]
    print_compilations(make_result(details={"compilations": [listed]}))
    lines = capsys.readouterr().out.splitlines()
    ids = [line.split()[0] for line in lines if line.startswith("0/")]
    assert ids == [f"0/{number}" for number in range(3, MAX_COMPILATIONS + 3)]
    assert lines[-1].startswith("3 ")


def test_a_stored_log_of_the_compiler_has_its_command_and_report(
    capsys: pytest.CaptureFixture[str], words: SnapshotAssertion
) -> None:
    paths = {"folder": "/state/compile-traces/r1/bert", "tlparse": "/state/x/index.html"}
    print_compiler_log(make_result(details={"compile_trace": paths}))
    print_compiler_log(make_result(details={}))
    assert capsys.readouterr().out == words


def test_each_holder_of_memory_is_a_row(
    capsys: pytest.CaptureFixture[str], words: SnapshotAssertion
) -> None:
    peak = PeakHolders.of(
        [
            MemoryHolder(
                kind=HolderKind.BEFORE, operator="parameters", num_bytes=3 * 2**20, count=1
            ),
            MemoryHolder(
                kind=HolderKind.OPERATOR,
                operator="aten::mm",
                module="layers.0",
                line="/models/net.py:9",
                num_bytes=2**20,
                count=2,
            ),
        ]
    )
    print_memory(make_result(details={MEMORY_PEAK: peak.to_json()}))
    assert capsys.readouterr().out == words
    print_memory(make_result())
    assert capsys.readouterr().out == ""


def finding(code: str, cost_s: float | None = None) -> Finding:
    return Finding(code=code, text="", remedy="", cost_s=cost_s)


def test_the_findings_of_a_run_are_counted_by_code(words: SnapshotAssertion) -> None:
    cases = [
        [finding("graph-break"), finding("graph-break")],
        [finding("register-spills", 1.5e-3)],
        [],
        [finding("fp32-on-plain-cores", 24e-3), finding("graph-break")],
        [finding("fp32-on-plain-cores", 17e-3)],
    ]
    assert findings_summary(cases) == words
    assert findings_summary([[], []]) == "none"

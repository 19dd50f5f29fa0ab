"""hud kernels: its output, the printed code, and its errors without kernels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import KernelSource, Profile
from compile_hud.db.records.results import CaseResult
from compile_hud.db.records.run_warning import RunWarning
from tests.support.builders import make_case, make_document, make_kernel, make_result, make_run
from tests.support.terminal import Terminal

CODE = KernelSource(hash="a" * 64, language="cpp", text="void kernel()\n{\n\treturn;\n}\x1b[31m")
OTHER = KernelSource(hash="b" * 64, language="cpp", text="void other();")
ADD = make_kernel(source_hash=CODE.hash)
ADD_AGAIN = replace(ADD, name="cpp_fused_add_1", source_hash=OTHER.hash)
GEMM = make_kernel(
    "mkl_gemm",
    label="mkl_gemm",
    library="mkl",
    kind="gemm",
    count=1.0,
    mean_s=0.005,
    share=0.5,
    num_bytes=2e7,
    flops=1e10,
    roofline=0.25,
    operators=("aten.mm",),
)
VIEW = make_kernel(
    "aten::view",
    label="aten::view",
    kind="dispatch",
    library="aten",
    count=7.0,
    mean_s=1e-6,
    share=0.0007,
    num_bytes=None,
    operators=(),
    shapes="",
)
PROFILE = Profile(
    num_iterations=5,
    iteration_s=0.010,
    latency_s=0.009,
    components={"python": 0.003, "gemm": 0.005, "fused": 0.002},
)
CASES = (make_case("bert"), make_case("vit", mode="eager"), make_case("vit"))


def document_of(*results: CaseResult) -> str:
    run = make_run(plan=[result.case for result in results])
    return json.dumps(make_document(run, results=results).to_json())


def with_kernels(**changes: Any) -> CaseResult:
    values = {
        "case": CASES[0],
        "kernels": [ADD, GEMM, ADD_AGAIN, VIEW],
        "sources": [CODE, OTHER],
        "details": {"profile": PROFILE.to_json()},
        "warnings": [RunWarning(code="few-samples", text="only 3", hint="take more")],
        **changes,
    }
    return make_result("r1", **values)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in a folder with the result file `out.json`."""
    monkeypatch.chdir(tmp_path)
    others = [
        make_result("r2", case=CASES[1], outcome="failed"),
        make_result("r3", case=CASES[2]),
    ]
    (tmp_path / "out.json").write_text(document_of(with_kernels(), *others))
    return Terminal(tmp_path)


def ingest(terminal: Terminal) -> None:
    assert terminal.hud("ingest", "out.json").exit_code == 0


def test_kernels_are_listed_longest_first_and_parts_with_the_latency(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("kernels", "out.json", "bert")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == words


def test_a_gpu_reports_how_busy_it_was_and_where_the_trace_is(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    profile = replace(PROFILE, busy=0.75, is_graph_replay=True, overlap_s=0.002, latency_s=None)
    result = with_kernels(details={"profile": profile.to_json()})
    Path("gpu.json").write_text(document_of(result))
    folder = Path(".hud/store.duckdb.traces")
    folder.mkdir(parents=True)
    (folder / "r1.json.gz").touch()
    shown = terminal.hud("kernels", "gpu.json", "bert").stdout
    assert shown == words
    assert "remainder" not in shown


def test_thousands_are_written_in_full(terminal: Terminal) -> None:
    fast = replace(ADD, num_bytes=1.1724e12 * ADD.mean_s)
    Path("fast.json").write_text(document_of(with_kernels(kernels=[fast])))
    assert "  1,172  " in terminal.hud("kernels", "fast.json", "bert").stdout


def test_json_has_all_numbers_and_the_remainder(terminal: Terminal) -> None:
    document = terminal.json("kernels", "out.json", "bert", "--json")
    assert [item["name"] for item in document["kernels"]] == [
        "mkl_gemm",
        "cpp_fused_add_0",
        "cpp_fused_add_1",
        "aten::view",
    ]
    assert document["kernels"][0]["flops_per_s"] == pytest.approx(2e12)
    assert document["profile"]["remainder_s"] == pytest.approx(-0.001)
    assert (document["run_id"], document["result_id"]) == ("run-1", "r1")
    assert document["case"]["model"] == "bert"
    assert [item["code"] for item in document["warnings"]] == ["few-samples"]


def test_the_store_shows_the_same_as_a_result_file(terminal: Terminal) -> None:
    ingest(terminal)
    stored = terminal.json("kernels", "show", "run-1", "bert", "--json")
    assert terminal.json("kernels", "--json", "out.json", "bert") == stored
    shown = terminal.hud("kernels", "latest", "bert").stdout
    assert shown == terminal.hud("kernels", "out.json", "bert").stdout


def test_show_as_json_carries_kernels_and_their_code(terminal: Terminal) -> None:
    ingest(terminal)
    (result,) = terminal.json("show", "latest", "bert", "--json")["results"]
    assert [item["name"] for item in result["kernels"]] == [
        kernel.name for kernel in (ADD, GEMM, ADD_AGAIN, VIEW)
    ]
    assert {item["hash"] for item in result["sources"]} == {CODE.hash, OTHER.hash}


def test_the_code_of_a_kernel_is_printed_without_what_steers_a_terminal(
    terminal: Terminal,
) -> None:
    shown = terminal.hud("kernels", "out.json", "bert", "--source", "cpp_fused_add_0")
    assert shown.stdout == "void kernel()\n{\n\treturn;\n}?[31m\n"
    document = terminal.json("kernels", "out.json", "bert", "--source", "*_1", "--json")
    assert document == OTHER.to_json()


@pytest.mark.parametrize(
    "arguments",
    [
        ("out.json", "vit/*/default/*"),
        ("out.json", "vit/*/eager/*"),
        ("out.json", "vit"),
        ("out.json", "nett"),
        ("nowhere", "bert"),
        ("out.json", "bert", "--source", "add"),
        ("out.json", "bert", "--source", "mkl"),
        ("out.json", "bert", "--source", "x"),
        ("late.json", "bert", "--source", "add"),
        ("late.json", "ref"),
    ],
)
def test_a_missing_kernel_case_or_run_is_one_line(
    terminal: Terminal, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    reference = make_result("ref", case=make_case("ref_gemm", family="reference"))
    Path("late.json").write_text(
        document_of(with_kernels(kernels=[ADD], sources=[], details={}), reference)
    )
    result = terminal.hud("kernels", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == words
    assert len(result.stderr.splitlines()) == 1


def test_an_imported_history_has_no_kernels(terminal: Terminal, words: SnapshotAssertion) -> None:
    run = make_run("other", toolchain="imported:hud")
    imported = make_document(run, results=[make_result(run=run)])
    Path("imported.json").write_text(json.dumps(imported.to_json()))
    message = terminal.hud("kernels", "imported.json", "bert").stderr
    assert message == words


def test_long_lists_of_names_are_cut(terminal: Terminal) -> None:
    kernels = [replace(GEMM, name=f"gemm_{number}\x07") for number in range(12)]
    Path("many.json").write_text(document_of(with_kernels(kernels=kernels, details={})))
    message = terminal.hud("kernels", "many.json", "bert", "--source", "x").stderr
    assert "gemm_0?, gemm_1?" in message
    assert message.endswith("gemm_9? and 2 more\n")


def test_names_of_a_hostile_trace_are_words_of_the_table(terminal: Terminal) -> None:
    name = "[red]\x1b[31mk\nernel"
    share = {"value": 50.0, "unit": name}
    counters = {"sm__throughput.avg.pct_of_peak_sustained_elapsed": share, name: share}
    hostile = replace(
        ADD, name=name, label=name, kind=name, library=name, operators=(name,), shapes=name,
        launch={"counters": counters},
    )  # fmt: skip
    profile = PROFILE.to_json() | {"parts": {name: 0.010}}
    document = document_of(with_kernels(kernels=[hostile], details={"profile": profile}))
    Path("hostile.json").write_text(document)
    for command in (
        ["hostile.json", "bert"],
        ["diff", "hostile.json", "out.json", "--case", "bert"],
    ):
        shown = terminal.hud("kernels", *command)
        assert shown.exit_code == 0
        assert "[red]" in shown.stdout
        assert "\x1b" not in shown.stdout
        # A name with two lines would be two rows.
        assert not any(line.startswith("ernel") for line in shown.stdout.splitlines())


def test_a_script_runs_one_kernel_alone(terminal: Terminal) -> None:
    code = KernelSource(hash="a" * 64, language="cpp", text='extern "C" void kernel(float* x) {}')
    tensor = {"dtype": "float32", "sizes": [4], "strides": [1]}
    kernel = replace(ADD, launch={"arguments": [tensor]})
    document = document_of(with_kernels(kernels=[kernel, GEMM], sources=[code]))
    Path("alone.json").write_text(document)
    shown = terminal.hud("kernels", "alone.json", "bert", "--repro", ADD.name)
    assert shown.exit_code == 0
    assert shown.stdout.startswith('"""cpp_fused_add_0 alone, as bert/')
    assert code.text in shown.stdout
    as_json = terminal.hud("kernels", "alone.json", "bert", "--repro", ADD.name, "--json")
    assert json.loads(as_json.stdout) == {"script": shown.stdout}


@pytest.mark.parametrize(
    "name",
    [
        "cpp_fused_add_0",
        "mkl_gemm",
    ],
)
def test_a_kernel_that_cannot_run_alone_has_a_reason(
    terminal: Terminal, name: str, words: SnapshotAssertion
) -> None:
    result = terminal.hud("kernels", "out.json", "bert", "--repro", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == words


def test_one_thing_is_printed_at_a_time(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("kernels", "out.json", "bert", "--repro", "a", "--source", "a")
    assert result.exit_code == 2
    assert result.stderr == words

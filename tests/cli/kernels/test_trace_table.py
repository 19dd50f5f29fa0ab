"""hud kernels show of a trace file, without a run or a result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.protocol.kernel_notes import KernelNote, KernelNotes
from compile_hud.runner.protocol.messages import notes_path
from tests.support.records.traces import Json, annotation, launch, on_gpu, operator, write_trace
from tests.support.terminal import Terminal

SOURCE = "extern C void kernel() {}"
FUSED = "cpp_fused_add_5"


def events() -> list[Json]:
    """Return two iterations with a product of 30 us and a reduction of 12 us."""
    names = (("aten::mm", "turing_h1688gemm_64x96_nn", 30), ("aten::amax", "reduce_kernel", 12))
    made = []
    for index in range(2):
        begin = 200 * index
        made.append(annotation(f"ProfilerStep#{index}", begin, begin + 150))
        start = begin + 60
        for number, (called, name, time_us) in enumerate(names):
            at, correlation = begin + 5 + 20 * number, 10 * index + number
            made.append(operator(called, at, at + 9, dims=[[7, 11], [11, 13]]))
            made.append(launch(correlation, at + 3))
            made.append(on_gpu(name, start, start + time_us, correlation=correlation))
            start += time_us
    return made


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in a folder with a trace, `diff.json.gz`, and no store."""
    monkeypatch.chdir(tmp_path)
    write_trace(Path("diff.json.gz"), events(), deviceProperties=[{"id": 0, "name": "Quadro GV9"}])
    return Terminal(tmp_path)


def test_any_trace_is_a_table_of_its_kernels(terminal: Terminal, words: SnapshotAssertion) -> None:
    # The name of the file is like that of the command `diff`.
    result = terminal.hud("kernels", "diff.json.gz")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == words
    assert terminal.hud("kernels", "show", "diff.json.gz").stdout == result.stdout


def test_json_has_the_kernels_of_a_trace_with_its_device(terminal: Terminal) -> None:
    document = terminal.json("kernels", "show", "diff.json.gz", "--json")
    assert (document["trace"], document["device"]) == ("diff.json.gz", "Quadro GV9")
    assert [(item["kind"], item["count"]) for item in document["kernels"]] == [
        ("gemm", 1),
        ("reduction", 1),
    ]
    assert document["profile"]["num_iterations"] == 2
    assert [item["total_s"] for item in document["kernels"]] == pytest.approx([30e-6, 12e-6])


def test_a_trace_of_a_cpu_needs_no_device(terminal: Terminal) -> None:
    write_trace(Path("cpu.json"), [operator("aten::mm", 0, 9, dims=[[2, 3], [3, 4]])])
    document = terminal.json("kernels", "cpu.json", "--json")
    assert document["device"] == "CPU"
    assert [item["name"] for item in document["kernels"]] == ["aten::mm"]


def test_a_trace_of_an_older_profiler_has_the_same_kernels(terminal: Terminal) -> None:
    categories = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    old = [{**event, "cat": categories.get(event["cat"], event["cat"])} for event in events()]
    for event in old:
        if "Input Dims" in event["args"]:
            event["args"]["Input dims"] = event["args"].pop("Input Dims")
    write_trace(Path("old.json"), old)
    shown = [
        terminal.json("kernels", name, "--json")["kernels"] for name in ("old.json", "diff.json.gz")
    ]
    assert shown[0] == shown[1]


def test_the_code_of_a_kernel_comes_from_the_notes_of_the_trace(terminal: Terminal) -> None:
    path = write_trace(Path("cpu.json"), [operator(FUSED, 0, 9), operator("aten::mm", 10, 15)])
    assert terminal.hud("kernels", str(path), "--source", FUSED).exit_code != 0
    notes = KernelNotes(kernels={FUSED: KernelNote(language="cpp", source=SOURCE)})
    notes_path(path).write_text(json.dumps(notes.to_json()))
    assert terminal.hud("kernels", str(path), "--source", FUSED).stdout.strip() == SOURCE
    as_json = terminal.json("kernels", str(path), "--source", FUSED, "--json")
    assert as_json["text"] == SOURCE


@pytest.mark.parametrize(
    "arguments",
    [
        ("diff.json.gz", "bert"),
        ("diff.json.gz", "--repro", "reduce_kernel"),
        ("show", "latest"),
        ("diff.json.gz", "--source", "softmax"),
        ("broken.json",),
        ("missing.json.gz",),
    ],
)
def test_a_call_that_a_trace_does_not_have_is_one_clear_error(
    terminal: Terminal, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    Path("broken.json").write_text('{"traceEvents": [')
    result = terminal.hud("kernels", *arguments)
    assert result.exit_code != 0
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1] == words

"""hud kernels diff: of trace files, result files and the store."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import KernelSource, Profile
from compile_hud.db.records.memory.peak import MEMORY_PEAK, MemoryHolder
from compile_hud.db.records.results import CaseResult
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.kernels.diff import diff_kernels
from compile_hud.runner.cli.kernels.diff_table import print_diff
from tests.support.builders import (
    make_case,
    make_document,
    make_kernel,
    make_measurement,
    make_result,
    make_run,
)
from tests.support.records.kernel_codes import pointwise
from tests.support.records.kernel_diffs import side_with
from tests.support.records.memory_peaks import MIB, make_holder, make_peak
from tests.support.records.traces import Json, annotation, operator, write_trace
from tests.support.terminal import Terminal

BEFORE = KernelSource(hash="a" * 64, language="triton", text=pointwise())
AFTER = KernelSource(
    hash="b" * 64, language="triton", text=pointwise(line="tmp2 = tmp0 * tmp1\x1b[31m")
)
ADD = make_kernel("triton_poi_fused_add_0", label="triton_poi_fused_add", mean_s=1e-4, count=3.0)
MUL = make_kernel("triton_poi_fused_mul_1", label="triton_poi_fused_mul", operators=["aten.mul"])


def result_of(
    latency_s: float, source: KernelSource, *, mean_s: float, **fields: Any
) -> CaseResult:
    kernel = replace(ADD, source_hash=source.hash, mean_s=mean_s, min_s=mean_s, total_s=3 * mean_s)
    profile = Profile(num_iterations=5, iteration_s=0.01, latency_s=latency_s, components={})
    return make_result(
        measurements=[make_measurement(samples=[latency_s])],
        kernels=[kernel, MUL],
        sources=[source],
        details={"profile": profile.to_json()},
        **fields,
    )


def write_run(path: Path, run_id: str, *results: CaseResult) -> None:
    run = make_run(run_id, plan=[result.case for result in results])
    results = tuple(
        replace(result, id=f"{run_id}-{index}", run_id=run_id)
        for index, result in enumerate(results)
    )
    path.write_text(json.dumps(make_document(run, results=results).to_json()))


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in a folder with two result files of one case."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "a.json", "run-a", result_of(0.005, BEFORE, mean_s=1e-4))
    write_run(tmp_path / "b.json", "run-b", result_of(0.0052, AFTER, mean_s=1.5e-4))
    return Terminal(tmp_path)


def test_the_table_adds_up_to_the_change_of_the_latency(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("kernels", "diff", "a.json", "b.json")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == words
    shown = terminal.hud("kernels", "diff", "a.json", "b.json", "--all").stdout
    assert "triton_poi_fused_mul" in shown


def test_what_makes_times_uncertain_stands_above_the_table(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    busy = RunWarning(code="noisy-neighbour", text="other work", hint="stop it")
    slower = result_of(0.0052, AFTER, mean_s=1.5e-4, warnings=[busy])
    write_run(Path("b.json"), "run-b", slower)
    shown = terminal.hud("kernels", "diff", "a.json", "b.json").stdout
    assert shown.splitlines()[2] == words
    document = json.loads(terminal.hud("kernels", "diff", "a.json", "b.json", "--json").stdout)
    assert document["warnings"] == {"baseline": [], "candidate": [busy.to_json()]}
    assert document["noise"] == words


def test_of_many_changes_the_largest_are_printed_and_endless_names_are_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kernels = [
        replace(ADD, name=f"{number}x", label=f"{number}x" + 10_000 * "y", operators=())
        for number in range(120)
    ]
    diff = diff_kernels(side_with(), side_with(*kernels))
    print_diff(diff, titles=("a", "b"), show_all=False)
    lines = capsys.readouterr().out.splitlines()
    assert sum("new" in line for line in lines) == 100
    (rest,) = [line for line in lines if "less each" in line]
    assert rest.split() == ["+6,000.0", "less", "each", "20", "kernels", "--all", "shows", "them"]
    assert max(map(len, lines)) < 400
    print_diff(diff, titles=("a", "b"), show_all=True)
    assert sum("new" in line for line in capsys.readouterr().out.splitlines()) == 120


def test_json_reports_both_sides_and_every_row(terminal: Terminal) -> None:
    document = json.loads(terminal.hud("kernels", "diff", "a.json", "b.json", "--json").stdout)
    assert document["baseline"]["run_id"] == "run-a"
    assert document["candidate"]["case"]["model"] == "bert"
    assert [row["class"] for row in document["rows"]] == ["other_code", "unchanged"]
    total = sum(row["contribution_us"] for row in document["rows"])
    assert total + document["unexplained_us"] == pytest.approx(document["change_us"])


def test_the_code_of_both_sides_is_reported_line_by_line(terminal: Terminal) -> None:
    shown = terminal.hud("kernels", "diff", "a.json", "b.json", "--source", "add").stdout
    lines = shown.splitlines()
    assert lines[1:3] == ["--- baseline", "+++ candidate"]
    assert "-    tmp2 = tmp0 + tmp1" in lines
    assert "+    tmp2 = tmp0 * tmp1?[31m" in lines
    document = json.loads(
        terminal.hud("kernels", "diff", "a.json", "b.json", "--source", "add", "--json").stdout
    )
    assert document["label"] == "triton_poi_fused_add"


@pytest.mark.parametrize(
    "name",
    [
        "sub",
        "mul",
    ],
)
def test_a_kernel_without_code_to_compare_is_one_clear_line(
    terminal: Terminal, name: str, words: SnapshotAssertion
) -> None:
    result = terminal.hud("kernels", "diff", "a.json", "b.json", "--source", name)
    assert result.exit_code == 2
    assert result.stderr == words


def test_runs_of_the_store_are_chosen_with_their_case(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    others = [make_result(case=make_case("vit"))]
    write_run(Path("b.json"), "run-b", result_of(0.006, AFTER, mean_s=2e-4), *others)
    assert terminal.hud("ingest", "a.json", "b.json").exit_code == 0
    # The run without a case takes that of the other.
    for names in (("run-a:bert", "run-b"), ("run-a", "run-b", "--case", "bert")):
        result = terminal.hud("kernels", "diff", *names)
        assert result.exit_code == 0, result.stderr
        assert "+1,000.0              latency" in result.stdout
    unclear = terminal.hud("kernels", "diff", "run-a", "run-b")
    assert unclear.exit_code == 2
    assert unclear.stderr == words


@pytest.mark.parametrize("is_packed", [False, True])
def test_two_cases_of_one_result_file_are_reported_as_those_of_a_run(
    terminal: Terminal, *, is_packed: bool
) -> None:
    path = Path("both.json")
    other = result_of(0.006, AFTER, mean_s=2e-4, case=make_case("vit"))
    write_run(path, "run-a", result_of(0.005, BEFORE, mean_s=1e-4), other)
    if is_packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
        path = path.rename("both.json.gz")
    result = terminal.hud("kernels", "diff", f"{path}:bert*", f"{path}:vit*")
    assert result.exit_code == 0, result.stderr
    assert "+1,000.0              latency" in result.stdout
    whole = terminal.hud("kernels", "diff", str(path), "b.json", "--case", "bert")
    assert whole.exit_code == 0, whole.stderr


def _iteration(gelu_us: float) -> list[Json]:
    return [
        annotation("hud/iteration", 0, 60 + gelu_us),
        operator("aten::addmm", 10, 50, dims=[[2], [8, 4], [4, 2]]),
        operator("cpp_fused_gelu_0", 50, 50 + gelu_us),
    ]


def test_two_trace_files_are_compared_by_their_iterations(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    paths = [
        write_trace(terminal.folder / f"{name}.json", _iteration(us))
        for name, us in (("c", 20), ("d", 30))
    ]
    result = terminal.hud("kernels", "diff", *map(str, paths), "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["basis"] == "profiled iteration"
    assert document["change_us"] == pytest.approx(10)
    assert document["rows"][0]["label"] == "cpp_fused_gelu"
    assert document["rows"][0]["contribution_us"] == pytest.approx(10)
    assert document["unexplained_us"] == pytest.approx(0, abs=1e-6)
    with_case = terminal.hud("kernels", "diff", *map(str, paths), "--case", "bert")
    assert with_case.exit_code == 2
    assert with_case.stderr == words
    named = terminal.hud("kernels", "diff", f"{paths[0]}:bert", "a.json")
    assert named.exit_code == 2
    assert named.stderr == words


def test_a_trace_that_is_not_there_is_called_a_file(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("kernels", "diff", "gone.json.gz", "a.json")
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_file_that_is_no_trace_is_one_clear_line(terminal: Terminal) -> None:
    Path("notes.txt").write_text("hello")
    result = terminal.hud("kernels", "diff", "notes.txt", "a.json")
    assert result.exit_code == 2
    assert "notes.txt" in result.stderr
    assert "Traceback" not in result.stderr


def test_results_of_two_devices_are_named_and_compared(terminal: Terminal) -> None:
    for path, name in (("a.json", "Quadro GV9"), ("b.json", "Instinct MI1")):
        document = json.loads(Path(path).read_text())
        document["run"]["environment"]["device_name"] = name
        Path(path).write_text(json.dumps(document))
    document = json.loads(terminal.hud("kernels", "diff", "a.json", "b.json", "--json").stdout)
    assert document["baseline"]["device"] == "Quadro GV9"
    assert "Quadro GV9 and Instinct MI1" in document["devices"]
    lines = terminal.hud("kernels", "diff", "a.json", "b.json").stdout.splitlines()
    assert lines[0].endswith("on Quadro GV9")
    assert document["devices"] in lines


def with_memory(result: CaseResult, *holders: MemoryHolder) -> CaseResult:
    details = {**result.details, MEMORY_PEAK: make_peak(*holders).to_json()}
    return replace(result, details=details)


def memory_lines(shown: str) -> list[str]:
    """Return the lines about memory, which come last."""
    _, mark, rest = shown.partition("memory at the peak")
    return f"{mark}{rest}".splitlines()


@pytest.fixture
def peaks(terminal: Terminal, tmp_path: Path) -> Terminal:
    """Return a terminal with result files of one case; the second has a planted allocation."""
    product = make_holder("aten::mm", 8 * MIB, module="layers.0", line="/old/net.py:9")
    planted = make_holder("aten::exp", 3 * MIB, module="layers.0", line="/new/net.py:11")
    before = result_of(0.005, BEFORE, mean_s=1e-4)
    memory = [make_measurement("peak_bytes", samples=[size * MIB]) for size in (12.0, 15.0)]
    sides = [replace(before, measurements=(*before.measurements, measured)) for measured in memory]
    write_run(tmp_path / "a.json", "run-a", with_memory(sides[0], product))
    write_run(tmp_path / "b.json", "run-b", with_memory(sides[1], product, planted))
    return terminal


def test_the_diff_lists_what_has_more_memory_at_the_peak(
    peaks: Terminal, words: SnapshotAssertion
) -> None:
    shown = peaks.hud("kernels", "diff", "a.json", "b.json").stdout
    assert memory_lines(shown) == words
    same = peaks.hud("kernels", "diff", "a.json", "a.json").stdout
    assert memory_lines(same) == words
    document = json.loads(peaks.hud("kernels", "diff", "a.json", "b.json", "--json").stdout)
    assert document["memory"]["change_bytes"] == 3 * MIB
    assert document["memory"]["rows"][0]["operator"] == "aten::exp"


def test_a_comparison_names_what_has_more_memory(peaks: Terminal, words: SnapshotAssertion) -> None:
    shown = peaks.hud("compare", "a.json", "b.json").stdout
    assert memory_lines(shown) == words
    (memory,) = json.loads(peaks.hud("compare", "a.json", "b.json", "--json").stdout)["memory"]
    assert (memory["case"], memory["rows"][0]["change_bytes"]) == (make_case().key, 3 * MIB)
    assert memory_lines(peaks.hud("compare", "a.json", "a.json").stdout) == []


def test_unreadable_memory_costs_a_comparison_nothing(peaks: Terminal, tmp_path: Path) -> None:
    document = json.loads((tmp_path / "b.json").read_text())
    document["results"][0]["details"][MEMORY_PEAK] = {"rows": 3}
    (tmp_path / "b.json").write_text(json.dumps(document))
    result = peaks.hud("compare", "a.json", "b.json", "--json")
    assert json.loads(result.stdout)["memory"] == []

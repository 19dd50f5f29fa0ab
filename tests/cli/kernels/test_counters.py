"""hud kernels counters: readings of other profilers join the kernels of one result."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.kernel_counters import keep_counters
from compile_hud.db.queries.kernels import load_kernels
from compile_hud.db.store import Store
from tests.support.builders import make_case, make_document, make_kernel, make_result, make_run
from tests.support.terminal import Terminal

ADD = replace(make_kernel("triton_poi_fused_add_0", library="triton"), launch={"grid": [8, 1, 1]})
GEMM = make_kernel("ampere_sgemm", library="cublas", kind="gemm", mean_s=0.005)
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
NCU = f'"ID","Kernel Name","{SM}"\n"","","%"\n"0","{ADD.name}","62.5"\n'
NSYS = (
    "Time (%),Total Time (ns),Instances,Kind\x1b[31m,Name\n100.0,6000,3,a,ampere_sgemm\n"
    "0.0,1,1,b,\x1b[31mother\n"
)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in a folder whose store has one run with kernels."""
    monkeypatch.chdir(tmp_path)
    run = make_run(plan=[make_case("bert")])
    result = make_result("r1", case=make_case("bert"), kernels=[ADD, GEMM])
    document = make_document(run, results=[result]).to_json()
    Path("out.json").write_text(json.dumps(document))
    Path("ncu.csv").write_text(NCU)
    Path("nsys.csv").write_text(NSYS)
    terminal = Terminal(tmp_path)
    assert terminal.hud("ingest", "out.json").exit_code == 0
    return terminal


def test_counters_of_two_tools_are_shown_with_the_kernels(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("kernels", "counters", "latest", "bert", "ncu.csv", "nsys.csv")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == words
    assert result.stderr == words
    gemm, add = json.loads(terminal.hud("kernels", "latest", "bert", "--json").stdout)["kernels"]
    assert add["launch"] == {
        "grid": [8, 1, 1],
        "counters": {SM: {"value": 62.5, "unit": "%", "num_rows": 1}},
    }
    assert set(gemm["launch"]["counters"]) == {"nsys.calls", "nsys.total_s"}


def test_a_known_counter_is_a_column_of_the_table(terminal: Terminal) -> None:
    before = terminal.hud("kernels", "latest", "bert").stdout
    assert " SM" not in before
    terminal.hud("kernels", "counters", "latest", "bert", "ncu.csv")
    shown = terminal.hud("kernels", "latest", "bert").stdout
    header, gemm, add = (line for line in shown.splitlines() if line.endswith(("SM", "-", "5 %")))
    assert (header.split()[-1], gemm.split()[-1], add.split()[-2:]) == ("SM", "-", ["62.5", "%"])


def test_the_same_file_twice_changes_nothing(terminal: Terminal) -> None:
    words = ("kernels", "counters", "latest", "bert", "ncu.csv", "--json")
    first = json.loads(terminal.hud(*words).stdout)
    assert first == {
        "result_id": "r1",
        "files": [
            {
                "path": "ncu.csv",
                "num_counters": 1,
                "num_kernels": 1,
                "num_all": 2,
                "unknown": [],
                "unread_columns": [],
            }
        ],
    }
    before = terminal.hud("kernels", "latest", "bert", "--json").stdout
    assert json.loads(terminal.hud(*words).stdout) == first
    assert terminal.hud("kernels", "latest", "bert", "--json").stdout == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("latest", "bert", "cut.csv"),
        ("latest", "bert", "other.csv"),
        ("latest", "vit", "ncu.csv"),
        ("out.json", "bert", "ncu.csv"),
    ],
)
def test_what_does_not_fit_leaves_nothing_behind(
    terminal: Terminal, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    Path("cut.csv").write_text(NCU[:-8])
    Path("other.csv").write_text(NCU.replace(ADD.name, "other"))
    run, case, file = arguments
    result = terminal.hud("kernels", "counters", run, case, "ncu.csv", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == words
    assert "counters" not in terminal.hud("kernels", "latest", "bert", "--json").stdout


def test_a_newer_counter_replaces_an_older_one_in_every_kind_of_store(store: Store) -> None:
    result = make_result("r1", kernels=[ADD, replace(ADD, shapes="[1]"), GEMM])
    store.ingest(make_run(), result, spool_id="r1")
    one, two = {"value": 1.0, "unit": "%"}, {"value": 2.0, "unit": "%"}
    assert keep_counters(store, "r1", {ADD.name: {"a": one, "b": one}}) == 2
    assert keep_counters(store, "r1", {ADD.name: {"a": two}, "unknown": {"a": one}}) == 2
    assert {kernel.name: kernel.launch for kernel in load_kernels(store, "r1")} == {
        ADD.name: {"grid": [8, 1, 1], "counters": {"a": two, "b": one}},
        GEMM.name: {},
    }

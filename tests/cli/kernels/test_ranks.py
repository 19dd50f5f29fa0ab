"""hud kernels ranks: the traces of a distributed run on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.records.traces import annotation, launch, on_gpu, write_trace
from tests.support.terminal import Terminal

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in a folder with the traces of two ranks; rank 1 comes 30 us later."""
    monkeypatch.chdir(tmp_path)
    for rank, compute_us in enumerate((40, 70)):
        events = [
            annotation("hud/iteration", 0, 100),
            launch(1, 1),
            launch(2, 2),
            on_gpu("ampere_sgemm_128x64_nn", 10, 10 + compute_us, correlation=1),
            on_gpu(REDUCE, 10 + compute_us, 90, correlation=2, stream=20),
        ]
        distributed = {"rank": rank, "world_size": 4}
        write_trace(Path(f"rank{rank}.json.gz"), events, distributedInfo=distributed)
    return Terminal(tmp_path)


def test_ranks_are_a_table_with_the_straggler_named(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    shown = terminal.hud("kernels", "ranks", "rank1.json.gz", "rank0.json.gz").stdout
    header, fast, slow, summary = shown.splitlines()
    assert header.split()[:4] == ["rank", "iteration", "busy", "compute"]
    assert fast.split()[:7] == ["0", "100", "us", "80.0", "%", "40.0", "us"]
    assert "straggler" not in fast
    assert slow.split()[-1] == "straggler"
    assert summary == words


def test_ranks_are_reported_as_json(terminal: Terminal) -> None:
    document = terminal.json("kernels", "ranks", "rank0.json.gz", "rank1.json.gz", "--json")
    assert [row["is_straggler"] for row in document["rows"]] == [False, True]
    assert document["rows"][1]["delay_s"] == pytest.approx(30e-6)


def test_one_trace_is_an_error_with_a_way_out(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("kernels", "ranks", "rank0.json.gz")
    assert result.exit_code != 0
    assert result.stderr == words

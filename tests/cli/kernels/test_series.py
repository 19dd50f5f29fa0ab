"""hud kernels series: the kernels of a case over its results."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import RunDocument
from tests.support.builders import (
    START,
    make_case,
    make_kernel,
    make_measurement,
    make_result,
    make_run,
)
from tests.support.terminal import Terminal

CASE = make_case("bert")
ADD = make_kernel("triton_poi_fused_add_0", label="triton_poi_fused_add", library="triton")
EXP = make_kernel("triton_poi_fused_exp_7", label="triton_poi_fused_exp", library="triton")
# Milliseconds of the kernels of each night; the second kernel is gone in the last one.
NIGHTS_MS = ((1.0, 0.5), (1.1, 0.5), (1.2, None))


def document(number: int) -> RunDocument:
    """Return the run of a night; Inductor gives the kernels other numbers each time."""
    run = make_run(f"run-{number}", plan=[CASE], started_at=START + timedelta(days=number))
    kernels = [
        replace(
            kernel,
            name=f"{kernel.label}_{number}",
            mean_s=time_ms / 1e3,
            min_s=time_ms / 1e3,
            total_s=time_ms / 1e3,
            count=1.0,
        )
        for kernel, time_ms in zip((ADD, EXP), NIGHTS_MS[number], strict=True)
        if time_ms is not None
    ]
    result = make_result(
        f"result-{number}",
        run=run,
        case=CASE,
        measurements=[make_measurement(samples=[0.002])],
        kernels=kernels,
    )
    return RunDocument(run=run, results=(result,))


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    with terminal.store().write() as connection:
        put_documents(connection, [document(number) for number in range(3)], at=START)
    return terminal


def test_each_kernel_is_one_row_whatever_its_number(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("kernels", "series", "run-1", "bert")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == words


def test_json_has_the_time_of_each_result(terminal: Terminal) -> None:
    shown = terminal.json("kernels", "series", "latest", "bert", "--json")
    assert [item["run_id"] for item in shown["results"]] == ["run-0", "run-1", "run-2"]
    times = {item["label"]: item["total_s"] for item in shown["series"]}
    assert times == {
        "triton_poi_fused_add": pytest.approx([0.001, 0.0011, 0.0012]),
        "triton_poi_fused_exp": [0.0005, 0.0005, None],
    }


def test_a_result_file_outside_of_the_store_has_no_series(
    terminal: Terminal, tmp_path: Path, words: SnapshotAssertion
) -> None:
    path = tmp_path / "theirs.json"
    other = document(0)
    run = replace(other.run, machine="theirs")
    path.write_text(json.dumps(replace(other, run=run).to_json()))
    result = terminal.hud("kernels", "series", str(path), "bert")
    assert result.exit_code != 0
    assert result.stderr.strip() == words

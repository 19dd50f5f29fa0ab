"""Several launches that share one device: they wait for their turn and for its lock."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest
import torch
from torch._inductor.runtime import benchmarking

from compile_hud.db.records.results import Outcome
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.measure.turns import locked_autotuning, locked_device, wait_for_turn
from tests.support.runs.launches import order


def test_a_turn_is_over_when_its_writer_closes(tmp_path: Path) -> None:
    pipe = tmp_path / "turn"
    os.mkfifo(pipe)
    waiting = threading.Thread(target=wait_for_turn, args=(str(pipe),))
    waiting.start()
    with pipe.open("wb"):
        waiting.join(0.05)
        assert waiting.is_alive()
    waiting.join(30)
    assert not waiting.is_alive()


def test_a_launch_takes_its_samples_after_its_turn(executor: LocalExecutor, tmp_path: Path) -> None:
    pipe = tmp_path / "turn"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.open("wb").close())
    writer.start()
    result = executor.execute(
        order("plain", turn_pipe=str(pipe), device_lock=str(tmp_path / "lock"), energy=False)
    )
    writer.join(30)
    assert result.outcome is Outcome.OK, result.log_tail
    names = [entry["name"] for entry in result.details["steps"][0]]
    assert names.index("turn") < names.index("warm up")
    assert "energy" not in names


def test_candidates_are_timed_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"

    def is_free(*_arguments: object) -> bool:
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    monkeypatch.setattr(benchmarking.InductorBenchmarker, "benchmark_gpu", is_free)
    benchmarker = benchmarking.InductorBenchmarker()
    with locked_autotuning(str(path)):
        assert benchmarker.benchmark_gpu(torch.relu) is False
    assert benchmarker.benchmark_gpu(torch.relu) is True
    with locked_autotuning(""):
        assert benchmarker.benchmark_gpu(torch.relu) is True


def test_no_path_is_no_lock() -> None:
    with locked_device(""), locked_device(""):
        pass

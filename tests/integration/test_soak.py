"""A short version of the benchmark `soak`."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from benchmarks.nights.faults import FOLDER_VARIABLE
from benchmarks.soak import Look, look, soak
from benchmarks.startup import ROOT
from runner.config import load_config


def test_cases_in_a_row_leave_no_process_no_descriptor_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m benchmarks.nights.worker\n')
    python.chmod(0o755)
    toolchains = f'[toolchains]\ncurrent = "{python}"\n'
    *_, it = soak(tmp_path, num_cases=12, num_shapes=3, toolchains=toolchains)
    found = it.found()
    assert found["outcomes"] == {"ok": 12}
    assert found["num_open_jobs"] == 0
    for name in ("num_descriptors", "num_threads", "num_processes", "num_files"):
        assert found["slopes"][name]["slope_per_1000_cases"] <= 0, name
    assert found["most_while_measuring"]["num_processes"] >= 1


def test_a_look_does_not_count_the_names_of_the_files_it_counts(tmp_path: Path) -> None:
    config = load_config(None, env={"HUD_STATE_DIR": str(tmp_path)})
    assert config.traces_dir is not None
    config.traces_dir.mkdir()

    def now() -> Look:
        gc.collect()
        return look(0, config=config, started_s=0.0)

    now()
    before = now()
    for number in range(1000):
        (config.traces_dir / f"{number:04d}").touch()
    after = now()
    assert after.num_trace_files - before.num_trace_files == 1000
    assert after.num_files == before.num_files
    assert after.num_blocks - before.num_blocks < 500

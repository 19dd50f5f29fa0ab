"""A short version of the benchmark `soak`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.nights.faults import FOLDER_VARIABLE
from benchmarks.soak import soak
from benchmarks.startup import ROOT


def test_cases_in_a_row_leave_no_process_no_descriptor_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m benchmarks.nights.worker\n')
    python.chmod(0o755)
    toolchains = f'[toolchains]\ncurrent = "{python}"\n'
    *_, found = soak(tmp_path, num_cases=12, num_shapes=3, toolchains=toolchains)
    assert found["outcomes"] == {"ok": 12}
    assert found["num_open_jobs"] == 0
    for name in ("num_descriptors", "num_threads", "num_processes", "num_files"):
        assert found["slopes"][name]["slope_per_1000_cases"] <= 0, name
    assert found["most_while_measuring"]["num_processes"] >= 1

"""hud compare --repo for real: a change that is not committed yet, measured on this CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runs.bisection import git

ROOT = Path(__file__).resolve().parents[3]
CONFIG = """
[run]
budget_s = 0.2
rounds = 10
[models.net]
build = "company/net.py"
"""
NET = """
from torch import nn, randn
from company.depth import DEPTH

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(192, 192) for _ in range(DEPTH))

    def forward(self, input):
        for layer in self.layers:
            input = layer(input)
        return input

def build(config):
    return Net()

def example_inputs(config, *, seed):
    return {"input": randn(64, 192)}
"""


@pytest.mark.nightly
def test_layers_that_a_change_adds_are_reported_by_name_with_their_line(tmp_path: Path) -> None:
    home = tmp_path / "repo"
    (home / "company").mkdir(parents=True)
    git(home, "init", "--quiet", "--initial-branch", "main")
    (home / "hud.toml").write_text(CONFIG)
    (home / ".gitignore").write_text(".hud\n")
    (home / "company" / "net.py").write_text(NET)
    (home / "company" / "depth.py").write_text("DEPTH = 2\n")
    git(home, "add", "--all")
    git(home, "commit", "--quiet", "--message", "begin")
    (home / "company" / "depth.py").write_text("DEPTH = 8\n")
    result = subprocess.run(
        [sys.executable, "-m", "compile_hud.runner", "compare", "--repo", ".", "--json"],
        cwd=home,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1, result.stderr
    document = json.loads(result.stdout)
    (latency,) = (row for row in document["rows"] if row["metric"] == "latency_cpu_s")
    assert latency["verdict"] == "regression"
    assert latency["ratio"] > 2
    assert "; six more addmm in `layers`, net.py:12" in document["sentences"][0]
    assert document["candidate"]["revision"].endswith(")")
    (case,) = document["cases"]
    assert case["num_pairs"] >= 4
    products = [row for row in case["kernels"]["rows"] if row["label"] == "aten::addmm"]
    assert [row["class"] for row in products] == ["more_often"]
    assert len(git(home, "worktree", "list").splitlines()) == 1

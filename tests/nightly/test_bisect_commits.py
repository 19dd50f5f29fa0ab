"""hud bisect for real: a model whose commit makes it slower, measured on this CPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs.bisection import git

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
[run]
budget_s = 0.2
[models.net]
build = "company.net"
num_samples = 32
"""
# The depth is in another module of the same package: both must come from the commit.
NET = """
import torch
from torch import nn
from company.depth import DEPTH

def build(config):
    return nn.Sequential(*(nn.Linear(128, 128) for _ in range(DEPTH)))

def example_inputs(config, *, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"input": torch.randn(32, 128, generator=generator)}
"""
DEPTHS = {"begin": "4", "rename": "2 + 2", "break": "1 / 0", "deepen": "12", "tidy": "3 * 4"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository in which `deepen` makes the model three times slower."""
    home = tmp_path / "repo"
    (home / "company").mkdir(parents=True)
    git(home, "init", "--quiet")
    (home / "hud.toml").write_text(CONFIG)
    (home / ".gitignore").write_text(".hud\n")
    for subject, depth in DEPTHS.items():
        (home / "company" / "net.py").write_text(NET)
        (home / "company" / "depth.py").write_text(f"DEPTH = {depth}\n")
        git(home, "add", "--all")
        git(home, "commit", "--quiet", "--message", subject)
    # What stands in the user's tree must not be measured, nor be changed.
    (home / "company" / "depth.py").write_text("raise RuntimeError('not this one')\n")
    return home


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start `hud bisect` in the repository, where its package is found by the working directory."""
    return subprocess.Popen(
        [sys.executable, "-m", "compile_hud.runner", "bisect", *arguments, "--json"],
        cwd=home,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_after_the_first_step(process: subprocess.Popen[str], *, home: Path) -> dict[str, Any]:
    """Kill `process` with one step on the disk and another one begun; return what is kept."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 2"):
            process.send_signal(signal.SIGKILL)
            break
    process.communicate()
    (path,) = (home / ".hud" / "bisect").glob("*.json")
    document: dict[str, Any] = json.loads(path.read_text())
    return document


@pytest.mark.slow
def test_a_commit_that_makes_a_model_slower_is_found_whatever_kills_the_search(
    repository: Path,
) -> None:
    before = git(repository, "status", "--porcelain")
    options = ("--repo", ".", "--good", "HEAD~4", "--bad", "HEAD", "--model", "net")
    process = start(repository, *options, "--mode", "eager")
    folders = kill_after_the_first_step(process, home=repository)
    assert folders["ends"] is not None
    assert len(folders["steps"]) == 1

    process = start(repository, "--resume")
    output, log = process.communicate()
    document = json.loads(output)
    assert "measuring the ends" not in log
    assert document["ends"] == folders["ends"]
    assert document["steps"][0] == folders["steps"][0]
    # `break` cannot be measured: the change came with it or with the next commit.
    assert process.returncode == 1
    assert document["ending"] == "range"
    titles = {revision["name"]: revision["title"] for revision in document["revisions"]}
    assert [titles[name] for name in document["suspects"]] == ["break", "deepen"]
    (skipped,) = (step for step in document["steps"] if step["mark"] == "skipped")
    assert "ZeroDivisionError" in skipped["reason"]
    assert document["interval_pct"][0] > 50
    assert git(repository, "status", "--porcelain") == before
    assert len(git(repository, "worktree", "list").splitlines()) == 1

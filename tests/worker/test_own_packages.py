"""A user's own packages may have the names of our folders, and of the standard library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.runs.bisection import git
from tests.support.sources import ROOT

# Nothing below imports `runner` and `json`: what imports them gets the wrong ones.
FILES = {
    "app/__init__.py": "SCALE = 2.0\n",
    "app/__main__.py": "raise SystemExit('MY OWN APP RAN')\n",
    "db/__init__.py": "DELAY_S = 0.0\n",
    "runner/__init__.py": "raise SystemExit('MY OWN RUNNER')\n",
    "json.py": "raise SystemExit('MY OWN JSON')\n",
    "net.py": """
import time

import torch

from app import SCALE
from db import DELAY_S


class Net(torch.nn.Module):
    def forward(self, x):
        time.sleep(DELAY_S)
        return x * SCALE


def build(config):
    return Net()


def example_inputs(config, *, seed):
    return {"x": torch.full((8, 8), float(seed))}
""",
    "hud.toml": """
[run]
launches = 1
max_launches = 1
rounds = 2
budget_s = 0.05
kernels = false
sweep = false
reference_cases = false
[models.net]
build = "net.py"
""",
    ".gitignore": ".hud\n__pycache__\n",
}
CASE = ("--model", "net", "--mode", "eager", "--phase", "inference")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name, text in FILES.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return home


def start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """Start `hud` as its script does, which puts no working directory before the packages."""
    locks = folder.parent / "locks"
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "compile_hud.runner", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "HUD_LOCK_DIR": str(locks)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def hud(*arguments: str, folder: Path) -> str:
    """Return what `hud` prints to standard output; it must end well."""
    process = start(*arguments, folder=folder)
    stdout, stderr = process.communicate(timeout=250)
    assert process.returncode == 0, stderr
    return stdout


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """End `process` with the block."""
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_model_that_imports_them_is_measured(folder: Path) -> None:
    document = json.loads(hud("run", *CASE, "--no-confirm", "--json", "-", folder=folder))
    (result,) = document["results"]
    assert (result["outcome"], result["reason"]) == ("ok", "")


@pytest.mark.nightly
def test_the_dashboard_is_ours(folder: Path) -> None:
    with stopped(start("serve", "--port", "0", folder=folder)) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("dashboard: http://")
        address = line.split()[1].rstrip("/")
        deadline = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"{address}/healthz", timeout=10) as response:
                    assert response.status == 200
                return
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)


@pytest.mark.nightly
def test_commits_of_them_are_bisected(folder: Path) -> None:
    git(folder, "init", "--quiet")
    commits = []
    for delay in ("0.0", "0.0 + 0.0", "0.02"):
        (folder / "db" / "__init__.py").write_text(f"DELAY_S = {delay}\n", encoding="utf-8")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", f"delay {delay}")
        commits.append(git(folder, "rev-parse", "HEAD").strip())
    ends = ("--repo", ".", "--good", commits[0], "--bad", commits[2])
    document = json.loads(hud("bisect", *ends, *CASE, "--json", folder=folder))
    assert document["first_bad"]["name"] == commits[2]

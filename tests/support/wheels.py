"""Wheels of this tree, and processes that do not see it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.sources import ROOT

FOLDERS = ("app", "db", "models_zoo", "runner", "src")
FILES = ("pyproject.toml", "README.md", "LICENSE")
BUILD_TIMEOUT_S = 300


def build_wheel(folder: Path) -> Path:
    """Return the wheel of the source distribution of this tree; both lie in `folder`."""
    # Building leaves folders behind.
    tree = folder / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def clean_environment() -> dict[str, str]:
    """Return the variables of this process but for the path that leads to this tree."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

"""The wheel installs a single name, so that it cannot shadow packages of a user."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.sources import ROOT

FOLDERS = ("app", "db", "models_zoo", "runner", "src")
FILES = ("pyproject.toml", "README.md", "LICENSE")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the names of the files in the wheel of this tree."""
    # Building leaves folders behind.
    tree = tmp_path_factory.mktemp("tree")
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / folder, tree / folder, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    out = tree / "dist"
    command = [sys.executable, "-c", BUILD, str(out)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_installs_one_name(names: list[str]) -> None:
    tops = {Path(name).parts[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"compile_hud"}


def test_the_wheel_has_every_module_and_asset(names: list[str]) -> None:
    expected = {
        f"compile_hud/{path.relative_to(ROOT)}"
        for folder in FOLDERS[:-1]
        for pattern in ("*.py", "*.js", "*.html", "py.typed")
        for path in (ROOT / folder).rglob(pattern)
    }
    assert expected <= set(names)

"""`pip install` of the wheel with its extras, into an empty environment, and a first run."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch

from tests.support.sources import text_of
from tests.support.wheels import build_wheel, clean_environment

# On a core that others use, pip unpacks torch and the models' packages for 15 minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_a_wheel_with_extras_measures_in_an_empty_environment(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path)
    venv.create(tmp_path / "venv", symlinks=True)
    pins = tmp_path / "pins.txt"
    lines = text_of("constraints.txt").splitlines()
    pins.write_text("\n".join(line for line in lines if not line.startswith("torch==")))
    # The build that runs these tests: another one may be 5 GB larger.
    release = torch.__version__.partition("+")[0]
    pip = (sys.executable, "-m", "pip", "--python", str(tmp_path / "venv" / "bin" / "python"))
    install = (*pip, "install", "--quiet", "--no-compile", "--constraint", str(pins))
    for packages in ((f"torch=={release}",), (f"{wheel}[app,runner,zoo]",)):
        subprocess.run((*install, *packages), check=True, env=clean_environment())
    done = subprocess.run(
        [
            str(tmp_path / "venv" / "bin" / "hud"), "run", "--model", "dcgan", "--shape", "tiny",
            "--mode", "eager", "--mode", "default", "--json", "result.json",
        ],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".hud" / "store.duckdb").is_file()

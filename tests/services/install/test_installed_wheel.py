"""The wheel works outside the repository: in an environment of its own, from another folder."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.wheels import build_wheel, clean_environment

READY = "dashboard ready\n"
# Another process of the tests may take both cores meanwhile.
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return `hud` of an environment with the wheel and the packages that it needs."""
    folder = tmp_path_factory.mktemp("install")
    wheel = build_wheel(folder)
    home = folder / "venv"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps"]
    subprocess.run(
        [*command, "--no-index", "--quiet", str(wheel)],
        check=True,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    # A path in such a file brings packages, but not the links of editable installations.
    packages = sysconfig.get_path("purelib", vars={"base": str(home)})
    (Path(packages) / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin" / "hud"


def hud(program: Path, *arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [str(program), *arguments],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_code_is_that_of_the_wheel(program: Path, tmp_path: Path) -> None:
    command = [
        str(program.parent / "python"),
        "-c",
        "import compile_hud.app as a; print(a.__file__)",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(program.parents[1]))
    assert hud(program, "--version", folder=tmp_path).startswith("hud ")
    assert "resnet" in hud(program, "list", "models", folder=tmp_path)


@pytest.fixture
def address(program: Path, tmp_path: Path) -> Iterator[str]:
    """Yield the address of the dashboard that the wheel serves."""
    process = subprocess.Popen(
        [str(program), "serve", "--port", "0", "--no-token"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()[1]
        assert READY in process.stdout
        yield address
    finally:
        process.terminate()
        process.wait(timeout=TIMEOUT_S)
        process.stdout.close()


def test_the_wheel_serves_the_dashboard(address: str) -> None:
    with urllib.request.urlopen(f"{address}/healthz", timeout=TIMEOUT_S) as answer:
        assert answer.status == 200

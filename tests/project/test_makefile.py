"""The targets of make, with fakes of Python and pip: nothing is downloaded here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT

# Logs what pip is asked for, with the requirements that it gets on standard input.
FAKE_PYTHON = """#!{bash}
if [[ $1 = -c ]]; then exec {python} "$@"; fi
requirements=""
if [[ "$*" = */dev/stdin* ]]; then requirements=" <<< $(tr '\\n' ' ')"; fi
echo "$*$requirements" >> {log}
[[ ! -e {log}.fail || "$*" != *"$(cat {log}.fail)"* ]]
"""
FAKE_HUD = """#!/bin/sh
echo "hud $*" >> {log}
if [ -n "$PYTHONDONTWRITEBYTECODE" ]; then echo "keeps no compiled modules" >> {log}; fi
"""


class Workshop:
    """A copy of the project's build files with a .venv whose programs only log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        self._program(programs / "pip", "#!/bin/sh\n")
        self._program(programs / "hud", FAKE_HUD.format(log=self.log))
        self._program(
            programs / "python",
            FAKE_PYTHON.format(bash=shutil.which("bash"), python=sys.executable, log=self.log),
        )

    def make(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run make with environment `variables` and return how it ended."""
        environment = {key: value for key, value in os.environ.items() if "MAKE" not in key}
        return subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    def logged(self) -> list[str]:
        """Return and forget what was asked of the programs."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines

    def fail_at(self, text: str) -> None:
        """Let pip fail when its command line has `text`."""
        Path(f"{self.log}.fail").write_text(text, encoding="utf-8")

    def succeed(self) -> None:
        """Let pip succeed again."""
        Path(f"{self.log}.fail").unlink()

    def _program(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Return a fresh copy of the build files."""
    return Workshop(tmp_path)


def test_run_installs_torch_the_rest_and_the_project_then_starts(workshop: Workshop) -> None:
    done = workshop.make("run")
    assert done.returncode == 0, done.stderr
    *installs, last = workshop.logged()
    assert last == "hud up"
    assert len(installs) == 3
    assert any(line.endswith("--no-deps torch==2.13.0") for line in installs)
    assert installs[-1].endswith("-e .[app,runner,zoo,gpu,postgres]")
    assert all("install --no-compile" in line for line in installs)


def test_packages_other_than_torch_come_from_the_extras(workshop: Workshop) -> None:
    workshop.make("run")
    packages = next(line for line in workshop.logged() if "<<<" in line).partition("<<<")[2].split()
    names = {package.partition(">")[0].partition("[")[0] for package in packages}
    assert {"duckdb", "streamlit", "apscheduler", "transformers", "psycopg", "setuptools"} <= names
    assert not names & {"torch", "pytest", "ruff", "mypy"}


def test_constraints_leave_torch_to_the_caller(workshop: Workshop) -> None:
    workshop.make("run", "TORCH=torch==2.14.0 --pre")
    constraints = (workshop.folder / ".venv" / "constraints.txt").read_text(encoding="utf-8")
    assert "numpy==" in constraints
    assert "\ntorch==" not in constraints
    assert any("--no-deps torch==2.14.0 --pre" in line for line in workshop.logged())


def test_second_run_installs_nothing(workshop: Workshop) -> None:
    workshop.make("run")
    workshop.logged()
    workshop.make("run")
    assert workshop.logged() == ["hud up"]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_dependencies_are_installed(workshop: Workshop, name: str) -> None:
    workshop.make("run")
    workshop.logged()
    stamp = workshop.folder / ".venv" / ".installed-run"
    changed_s = stamp.stat().st_mtime + 1
    os.utime(workshop.folder / name, (changed_s, changed_s))
    workshop.make("run")
    assert len(workshop.logged()) == 4


def test_tools_for_tests_are_installed_for_tests_only(workshop: Workshop) -> None:
    done = workshop.make("test", "PYTEST_ARGS=tests/unit -k name")
    assert done.returncode == 0, done.stderr
    *installs, last = workshop.logged()
    assert last == "-m pytest -n 3 --dist worksteal tests/unit -k name"
    assert installs[-1].endswith("-e .[app,runner,zoo,gpu,postgres,ray,runtimes,test,dev,docs]")
    assert len(installs) == 4


def test_every_test_is_run_in_the_night(workshop: Workshop) -> None:
    workshop.make("test-nightly", "PYTEST_ARGS=-k zoo", "JOBS=1")
    arguments = workshop.logged()[-1].split()
    assert arguments[2:] == ["-n", "1", "--dist", "worksteal", "--nightly", "tests", "-k", "zoo"]


@pytest.mark.parametrize("step", ["--no-deps torch==2.13.0", "/dev/stdin", "postgres]"])
def test_failed_installation_starts_nothing_and_is_repeated(workshop: Workshop, step: str) -> None:
    workshop.fail_at(step)
    done = workshop.make("run")
    assert done.returncode != 0
    assert "hud up" not in workshop.logged()
    workshop.succeed()
    assert workshop.make("run").returncode == 0
    assert workshop.logged()[-1] == "hud up"


def test_old_python_is_refused_by_name(workshop: Workshop) -> None:
    shutil.rmtree(workshop.folder / ".venv")
    old = workshop.folder / "old"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2\n', encoding="utf-8")
    old.chmod(0o755)
    done = workshop.make("run", "PYTHON=./old")
    assert done.returncode != 0
    assert "needs Python 3.11 or newer, but ./old is Python 3.9.2." in done.stderr
    assert not (workshop.folder / ".venv").exists()


def test_help_names_every_command(workshop: Workshop) -> None:
    listed = {line.split()[1] for line in workshop.make("help").stdout.splitlines()}
    assert listed == {
        "install", "run", "demo", "test", "test-nightly", "check", "fix", "docs", "docs-serve",
        "dist", "bench", "bench-precision", "words", "help", "clean",
    }  # fmt: skip
    assert workshop.make().stdout == workshop.make("help").stdout


def test_clean_keeps_measured_data(workshop: Workshop) -> None:
    data = workshop.folder / ".hud" / "store.duckdb"
    data.parent.mkdir()
    data.touch()
    workshop.make("clean")
    assert data.exists()
    assert not (workshop.folder / ".venv").exists()


def test_what_make_starts_keeps_compiled_modules_whatever_the_shell_has_set(
    workshop: Workshop,
) -> None:
    assert workshop.make("run", PYTHONDONTWRITEBYTECODE="1").returncode == 0
    assert workshop.logged()[-1] == "hud up"

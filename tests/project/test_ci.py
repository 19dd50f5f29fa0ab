""".ci/run on a bare machine, with fakes of the programs that it calls."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT, module_of, text_of

LOGGING = '#!/bin/sh\necho "{name} $*" >> {log}\n'


class Machine:
    """A PATH with nothing in it but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.log = folder / "log"
        for name in ("bash", "cat", "dirname", "mkdir", "tail"):
            (self.programs / name).symlink_to(str(shutil.which(name)))
        self.add("python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self.add("id", "#!/bin/sh\necho 0\n")
        for name in ("apt-get", "make", "chromium", "c++"):
            self.add(name, LOGGING.format(name=name, log=self.log))

    def add(self, name: str, text: str) -> None:
        """Put a program there."""
        path = self.programs / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def remove(self, name: str) -> None:
        """Take a program away."""
        (self.programs / name).unlink()

    def start(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run .ci/run in a copy of its folder and return how it ended."""
        script = self.programs.parent / "project" / ".ci" / "run"
        if not script.exists():
            script.parent.mkdir(parents=True)
            shutil.copy(ROOT / ".ci" / "run", script)
        return subprocess.run(
            [str(self.programs / "bash"), str(script), *arguments],
            env={"PATH": str(self.programs)},
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, *arguments: str) -> tuple[int, list[str], str]:
        """Return .ci/run's exit status, what it called and what it complained about."""
        done = self.start(*arguments)
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return done.returncode, lines, done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine with everything that can be there."""
    return Machine(tmp_path)


def targets(calls: list[str]) -> list[str]:
    """Return what make was asked for."""
    return [call.split()[-1] for call in calls if call.startswith("make")]


def test_checks_and_tests_follow_one_installation(machine: Machine) -> None:
    status, calls, _ = machine.run()
    assert status == 0
    first, *others = targets(calls)
    assert first == "install"
    assert sorted(others) == ["check", "test"]


@pytest.mark.parametrize("failing", ["install", "check", "test"])
def test_what_fails_fails_the_whole(machine: Machine, failing: str) -> None:
    machine.add(
        "make",
        f'#!/bin/bash\necho "make $*" >> {machine.log}\n[[ "$*" != *{failing} ]] || exit 3\n',
    )
    status, calls, _ = machine.run()
    assert status == 3
    assert ("test" in targets(calls)) is (failing != "install")


def test_the_log_of_the_checks_comes_first_and_the_tests_have_the_last_line(
    machine: Machine,
) -> None:
    tests_end = machine.log.with_name("tests_end")
    os.mkfifo(tests_end)
    # Opening a FIFO waits for its other end: the checks end after the tests have written their log.
    machine.add(
        "make",
        f"""#!/bin/bash
[[ "$*" != *check ]] || read -r < {tests_end}
echo "log of ${{*: -1}}"
[[ "$*" != *test ]] || echo > {tests_end}
""",
    )
    done = machine.start()
    assert done.stdout.splitlines()[-2:] == ["log of check", "log of test"]


def test_the_nightly_run_runs_its_tests_alone(machine: Machine) -> None:
    status, calls, _ = machine.run("nightly")
    assert status == 0
    assert targets(calls) == ["test-nightly"]


@pytest.mark.parametrize(("program", "package"), [("chromium", "chromium"), ("c++", "g++")])
def test_missing_program_is_installed(machine: Machine, program: str, package: str) -> None:
    machine.remove(program)
    status, calls, _ = machine.run()
    assert status == 0
    update, install, *_ = calls
    assert update == "apt-get update -q"
    assert install.startswith("apt-get install -y -q --no-install-recommends ")
    assert package in install.split()


def test_without_root_sudo_installs(machine: Machine) -> None:
    machine.remove("chromium")
    machine.add("id", "#!/bin/sh\necho 1000\n")
    machine.add("sudo", LOGGING.format(name="sudo", log=machine.log))
    status, calls, _ = machine.run()
    assert status == 0
    assert calls[0] == "sudo --preserve-env=DEBIAN_FRONTEND apt-get update -q"


def test_without_root_and_sudo_the_packages_are_reported_by_name(machine: Machine) -> None:
    machine.remove("chromium")
    machine.add("id", "#!/bin/sh\necho 1000\n")
    status, calls, complaint = machine.run()
    assert status == 1
    assert "not root and no sudo; install these packages first: chromium" in complaint
    assert calls == []


@pytest.mark.parametrize("has_compose", [False, True])
def test_compose_is_unpacked_where_there_is_none(machine: Machine, has_compose: bool) -> None:
    machine.add("dpkg", "#!/bin/sh\necho amd64\n")
    machine.add("python3", LOGGING.format(name="python3", log=machine.log) + "exit 1\n")
    if has_compose:
        machine.add("docker", "#!/bin/sh\n")
    status, calls, complaint = machine.run()
    assert status == 0
    assert ("python3 .ci/compose.py build/compose" in calls) is not has_compose
    assert ("is read without it" in complaint) is not has_compose


def test_a_package_that_is_another_one_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "other.deb").write_bytes(b"another package")
    with pytest.raises(OSError, match="is not the package that was asked for"):
        module_of(".ci/compose.py").fetch((tmp_path / "other.deb").as_uri(), sha256="0" * 64)


def test_workflow_calls_the_same_script() -> None:
    assert "run: .ci/run" in text_of(".github/workflows/ci.yml")


def test_tests_hear_ctrl_c_where_what_started_them_ignores_it() -> None:
    # As a script does for what it leaves in the background.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/unit/runner/system/test_interrupts.py"],
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

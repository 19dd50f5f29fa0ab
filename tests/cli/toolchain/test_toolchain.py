"""hud toolchain, with interpreters that only pretend."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.errors import ExecutorError, ToolchainError
from compile_hud.runner.system.toolchain_home import toolchain_home
from compile_hud.runner.toolchains.installer import InstallDependencies, build_again
from compile_hud.runner.toolchains.registry import built_toolchains, changing, python_of
from compile_hud.runner.toolchains.requirements import (
    declared_requirements,
    from_metadata,
    package_name,
)
from tests.support.fakes import FACTS, FakeExecutor
from tests.support.runs.fake_python import USUAL, Pretender, make_built
from tests.support.terminal import CONFIG, Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


@pytest.fixture
def python(tmp_path: Path) -> Pretender:
    return Pretender(tmp_path / "pretender")


def add(terminal: Terminal, python: Pretender, *options: str, torch: str = "2.12.0") -> Any:
    arguments = ("--torch", torch, "--python", str(python.path), *options)
    return terminal.hud("toolchain", "add", "old", *arguments)


def left(terminal: Terminal) -> list[str]:
    """Return what is in the folder of toolchains, the locks apart."""
    names = [path.name for path in (terminal.folder / ".hud" / "venvs").iterdir()]
    return sorted(name for name in names if not name.endswith(".lock"))


def test_a_toolchain_is_built_and_can_be_measured_with(
    terminal: Terminal, python: Pretender, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    result = add(terminal, python, "--with", "timm")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr.splitlines() == words
    first, second = python.calls()
    assert first == "torch==2.12.0"
    needed = [item for item in declared_requirements() if package_name(item) != "torch"]
    assert second == f"-c .hud/venvs/old/constraints.txt {' '.join(needed)} timm"
    assert (python.folder / "paths").read_text().split() == []
    assert left(terminal) == ["old"]
    assert terminal.executors[0].is_open is False
    marker = terminal.folder / ".hud" / "venvs" / "old" / "toolchain.json"
    assert json.loads(marker.read_text())["torch_version"] == FACTS["torch_version"]
    run = terminal.hud("run", "--suite", "mine", "--no-reference", "--toolchain", "old")
    assert run.exit_code == 0, run.output


def test_a_package_may_have_another_version_than_that_of_hud(
    terminal: Terminal, python: Pretender
) -> None:
    python.does("probe", f"echo {sys.version_info[0]} {sys.version_info[1]}")
    result = add(terminal, python, "--with", "NumPy==2.1.3", "--with", "scipy")
    assert result.exit_code == 0, result.output
    constraints = terminal.folder / ".hud" / "venvs" / "old" / "constraints.txt"
    names = {package_name(line) for line in constraints.read_text().splitlines()}
    assert names.isdisjoint({"numpy", "scipy"})
    assert "sqlalchemy" in names
    assert python.calls()[-1].endswith(" NumPy==2.1.3 scipy")


def test_a_package_without_what_it_needs_comes_last(terminal: Terminal, python: Pretender) -> None:
    add(terminal, python, "--with", "triton==3.6.0", "--no-deps")
    _, zoo, last = python.calls()
    assert "triton" not in zoo
    assert last == "--no-deps triton==3.6.0"


@pytest.mark.parametrize(
    "options",
    [
        ("--with", "--index-url=http://x"),
        ("--with", "-e."),
        ("--with", ""),
        ("--with", "foo==1; rm"),
        ("--with", "foo bar"),
        ("--no-deps",),
    ],
    ids=" ".join,
)
def test_what_is_no_package_is_refused_before_anything_is_built(
    terminal: Terminal, python: Pretender, options: tuple[str, ...]
) -> None:
    result = add(terminal, python, *options)
    assert result.exit_code == 2
    assert options[0] in result.stderr
    assert not (python.folder / "calls").exists()


@pytest.mark.parametrize(
    "package",
    ["timm", "numpy==2.1.3", "Pillow>=11,<13", "ray[default]~=2.50", "mine @ file:///srv/mine"],
)
def test_requirements_of_packages_are_taken(
    terminal: Terminal, python: Pretender, package: str
) -> None:
    assert add(terminal, python, "--with", package).exit_code == 0


def test_the_newest_torch_is_taken_without_a_version(
    terminal: Terminal, python: Pretender, words: SnapshotAssertion
) -> None:
    result = terminal.hud("toolchain", "add", "old", "--python", str(python.path))
    assert result.stderr == words


@pytest.mark.parametrize(
    ("version", "has_pins"),
    [
        ("echo 3 10", sys.version_info[:2] == (3, 10)),
        (f"echo {sys.version_info[0]} {sys.version_info[1]}", True),
    ],
    ids=["other", "same"],
)
def test_only_a_toolchain_of_the_same_python_gets_the_versions_of_hud(
    terminal: Terminal, python: Pretender, version: str, has_pins: bool
) -> None:
    python.does("probe", version)
    add(terminal, python)
    constraints = terminal.folder / ".hud" / "venvs" / "old" / "constraints.txt"
    lines = constraints.read_text().splitlines()
    assert lines[0] == "torch==2.12.0+cu130"
    assert any(line.startswith("numpy==") for line in lines) is has_pins


FAILURES = {
    "venv": (
        "venv",
        "echo 'no room for pip'; exit 1",
        "cannot create a virtual environment: no room",
    ),
    "pip": (
        "pip",
        "echo 'ERROR: Cannot install x'; exit 1",
        "Cannot install x. The whole log is in",
    ),
    "version": ("version", "exit 1", "torch was not installed. The whole log is in"),
    "silent venv": ("venv", "exit 1", "cannot create a virtual environment: it said nothing"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_leaves_the_log_and_nothing_else(
    terminal: Terminal, python: Pretender, name: str
) -> None:
    part, script, message = FAILURES[name]
    python.does(part, script)
    result = add(terminal, python)
    assert result.exit_code == 2
    assert message in result.stderr
    assert left(terminal) == ["old.log"]
    python.does(part, USUAL[part])
    assert add(terminal, python).exit_code == 0
    assert left(terminal) == ["old"]


def test_a_toolchain_under_which_the_worker_does_not_run_is_none(
    terminal: Terminal, python: Pretender, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    def refuse(executor: FakeExecutor, _python: Path) -> None:
        def no_torch() -> None:
            raise ExecutorError("it has no torch")

        monkeypatch.setattr(executor, "open", no_torch)

    terminal.on_executor = refuse
    result = add(terminal, python)
    assert result.exit_code == 2
    assert result.stderr == words
    assert left(terminal) == ["old.log"]


def test_a_full_disk_is_one_line(
    terminal: Terminal, python: Pretender, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    def no_room(*_arguments: object, **_values: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("compile_hud.runner.toolchains.installer.register", no_room)
    result = add(terminal, python)
    assert result.exit_code == 2
    assert result.stderr == words
    assert left(terminal) == ["old.log"]


def test_ctrl_c_ends_pip_and_leaves_nothing(
    terminal: Terminal, python: Pretender, words: SnapshotAssertion
) -> None:
    pid = python.folder / "pid"
    python.does("pip", f"echo $$ > {pid}\nkill -INT $PPID\nexec tail -f /dev/null")
    result = add(terminal, python)
    assert result.exit_code == 130
    assert result.stderr == words
    assert not Path("/proc", pid.read_text().strip()).exists()
    assert not (terminal.folder / ".hud" / "venvs" / "old").exists()


def test_what_a_killed_installation_left_is_no_toolchain_and_is_replaced(
    terminal: Terminal, python: Pretender
) -> None:
    folder = terminal.folder / ".hud" / "venvs" / "old"
    folder.mkdir(parents=True)
    (folder / "half").touch()
    assert built_toolchains(terminal.folder / ".hud") == {}
    assert add(terminal, python).exit_code == 0
    assert not (folder / "half").exists()
    assert list(built_toolchains(terminal.folder / ".hud")) == ["old"]


def replace(terminal: Terminal, python: Pretender) -> Any:
    """Build `old` again, and see that the one before is only set aside meanwhile."""
    seen = terminal.folder / "seen"
    folder = terminal.folder / ".hud" / "venvs"
    python.does("version", f"ls -A {folder} > {seen}; echo 2.12.0")
    result = add(terminal, python, "--replace")
    assert ".old.old" in seen.read_text().split()
    return result


def test_a_toolchain_is_built_again_in_its_place(terminal: Terminal, python: Pretender) -> None:
    folder = make_built(terminal)
    assert replace(terminal, python).exit_code == 0
    assert python_of(folder).read_text() == python.path.read_text()
    assert left(terminal) == ["old"]


def test_a_toolchain_stays_when_the_next_one_cannot_be_built(
    terminal: Terminal, python: Pretender, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_built(terminal)

    def no_room(*_arguments: object, **_values: object) -> None:
        assert list(built_toolchains(Path(".hud"))) == ["old"]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("compile_hud.runner.toolchains.installer.register", no_room)
    assert replace(terminal, python).exit_code == 2
    assert python_of(folder).is_symlink()
    assert left(terminal) == ["old", "old.log"]
    assert list(built_toolchains(terminal.folder / ".hud")) == ["old"]


@pytest.mark.parametrize("has_begun", [True, False])
def test_what_a_killed_replacement_set_aside_is_put_back(
    terminal: Terminal, python: Pretender, has_begun: bool
) -> None:
    folder = make_built(terminal)
    folder.rename(folder.with_name(".old.old"))
    if has_begun:
        folder.mkdir()
    assert list(built_toolchains(terminal.folder / ".hud")) == ["old"]
    python.does("venv", "exit 1")
    assert add(terminal, python, "--replace").exit_code == 2
    assert python_of(folder).is_symlink()
    assert left(terminal) == ["old", "old.log"]


def test_what_a_killed_replacement_set_aside_can_be_removed(terminal: Terminal) -> None:
    folder = make_built(terminal)
    folder.rename(folder.with_name(".old.old"))
    assert terminal.hud("toolchain", "remove", "old").exit_code == 0
    assert left(terminal) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "a/b"],
        ["add", "current"],
        ["add", "mine"],
        ["add", "mine", "--replace"],
        ["add", "old"],
        ["add", "x", "--torch", "new"],
        ["add", "x", "--torch", "2.8.1"],
        ["add", "x", "--python", "no-such"],
        ["add", "x", "--python", "/bin/false"],
        ["remove", "current"],
        ["remove", "mine"],
        ["remove", "x"],
    ],
)
def test_impossible_changes_of_toolchains_are_one_line(
    terminal: Terminal, arguments: list[str], words: SnapshotAssertion
) -> None:
    make_built(terminal)
    (terminal.folder / "hud.toml").write_text('[toolchains]\nmine = "/opt/mine/bin/python"')
    result = terminal.hud("toolchain", *arguments)
    assert result.exit_code == 2
    assert result.stderr == words
    assert result.stderr.startswith("hud: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "script",
    [
        "echo 'No module named ensurepip' >&2; exit 1",
        "echo 3 9",
    ],
)
def test_a_python_that_is_not_enough_is_reported_by_name(
    terminal: Terminal, python: Pretender, script: str, words: SnapshotAssertion
) -> None:
    python.does("probe", script)
    result = add(terminal, python)
    assert result.exit_code == 2
    assert result.stderr == words
    assert not (terminal.folder / ".hud").exists()


def test_a_python_that_does_not_start_is_reported_by_name(
    terminal: Terminal, python: Pretender, words: SnapshotAssertion
) -> None:
    python.path.write_text("#!/no/such/shell\n")
    result = add(terminal, python)
    assert result.exit_code == 2
    assert result.stderr == words


def test_one_toolchain_is_built_by_one_process_at_a_time(
    terminal: Terminal, python: Pretender, words: SnapshotAssertion
) -> None:
    with changing("old", state_dir=terminal.folder / ".hud"):
        result = add(terminal, python)
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_removed_toolchain_is_gone_with_what_was_compiled_under_it(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    folder = make_built(terminal)
    home = toolchain_home(Path(".hud"), python=Path(".hud/venvs/old/bin/python"))
    home.mkdir(parents=True)
    result = terminal.hud("toolchain", "remove", "old")
    assert result.exit_code == 0
    assert result.stdout == words
    assert not folder.exists()
    assert not home.exists()
    assert Path(sys.executable).exists()
    assert terminal.hud("run", "--toolchain", "old").exit_code == 2


def test_a_toolchain_of_a_schedule_is_not_removed(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    make_built(terminal)
    schedule = '[schedules.night]\ncron = "0 1 * * *"\ntoolchain = "old"\n'
    (terminal.folder / "hud.toml").write_text(CONFIG + schedule)
    result = terminal.hud("toolchain", "remove", "old")
    assert result.exit_code == 2
    assert result.stderr == words
    # Where hud.toml names an interpreter of its own, the schedule does not need this one.
    (terminal.folder / "hud.toml").write_text(
        f'{CONFIG}{schedule}[toolchains]\nold = "/opt/old/bin/python"\n'
    )
    assert terminal.hud("toolchain", "remove", "old").exit_code == 0


@pytest.fixture
def user(terminal: Terminal) -> Iterator[int]:
    """Yield the PID of a process that runs the interpreter of toolchain `old`."""
    folder = make_built(terminal)
    script = "print(flush=True); input()"
    with subprocess.Popen(
        [".hud/venvs/old/bin/python", "-c", script],
        cwd=folder.parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.mark.parametrize("arguments", [("remove", "old"), ("add", "old", "--replace")])
def test_a_toolchain_that_runs_is_neither_removed_nor_replaced(
    terminal: Terminal, user: int, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    result = terminal.hud("toolchain", *arguments)
    assert result.exit_code == 2
    assert result.stderr.replace(f"PID {user}", "PID USER") == words
    assert list(built_toolchains(terminal.folder / ".hud")) == ["old"]


def test_a_checkout_and_an_installation_need_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = declared_requirements()
    lines = [item if "numpy" in item else f'{item}; extra == "zoo"' for item in checkout]
    monkeypatch.setattr(
        "compile_hud.runner.toolchains.requirements._PYPROJECT", Path("/no/such/file")
    )
    monkeypatch.setattr("importlib.metadata.requires", lambda _name: lines)
    assert declared_requirements() == from_metadata(lines) == checkout


def test_a_toolchain_is_built_again_as_it_was_built(terminal: Terminal, python: Pretender) -> None:
    add(terminal, python, "--with", "timm", "--nightly", "--index-url", "https://example.org/whl")
    first = python.calls()
    built_again("old", terminal)
    assert python.calls() == [*first, *first]
    assert left(terminal) == ["old"]


def test_a_toolchain_of_an_earlier_release_is_not_built_again_by_guessing(
    terminal: Terminal,
    words: SnapshotAssertion,
) -> None:
    make_built(terminal)
    with pytest.raises(ToolchainError) as caught:
        built_again("old", terminal)
    assert str(caught.value) == words
    with pytest.raises(ToolchainError) as caught:
        built_again("new", terminal)
    assert str(caught.value) == words


def built_again(name: str, terminal: Terminal) -> Path:
    dependencies = InstallDependencies(
        facts=lambda _python: FACTS, now=terminal.clock, notify=lambda _event: None
    )
    return build_again(name, state_dir=Path(".hud"), dependencies=dependencies)

"""hud doctor --fix and --undo: shown, asked, done, noted, and taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runner.check import Fix
from runner.cli import main
from runner.errors import FixError
from runner.fixing import Fixes
from runner.this_machine import LocalMachine, Reply
from runner.wiring import Seams
from tests.fakes import FakeMachine

THP = "/sys/kernel/mm/transparent_hugepage/enabled"
CPUS = [f"/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor" for number in range(2)]
GPU = "0, GPU-a, H100, 570, Disabled, Disabled, 700, 700, 1980"


@pytest.fixture
def machine() -> FakeMachine:
    return FakeMachine(
        {THP: "[always] madvise never", CPUS[0]: "powersave", CPUS[1]: "schedutil"},
        replies={"--query-gpu": Reply(text=GPU), "nvidia-smi": Reply(), "setarch": Reply()},
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # The interpreter of the toolchain and the compiler are not what is looked at here.
    script = tmp_path / "tool"
    script.write_text("#!/bin/sh\necho 2.13.0 False\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    (tmp_path / "hud.toml").write_text(f'[toolchains]\ncurrent = "{script}"\n')
    return tmp_path


def doctor(machine: FakeMachine, *options: str, said: str = "") -> Result:
    seams = Seams(env={}, machine=machine)
    return CliRunner().invoke(main, ["doctor", *options], obj=seams, input=said)


def set_by(machine: FakeMachine) -> list[tuple[str, ...]]:
    return [command for command in machine.asked if "-pm" in command]


def test_without_fix_nothing_is_changed(machine: FakeMachine) -> None:
    before = dict(machine.files)
    result = doctor(machine)
    assert result.exit_code == 0, result.output
    assert machine.files == before
    assert set_by(machine) == []
    assert f"     echo madvise | sudo tee {THP}\n" in result.stdout
    assert "     costs: whether an allocation gets huge pages" in result.stdout
    assert result.stdout.endswith(
        "`hud doctor --fix` changes these, and `hud doctor --undo` takes it back\n"
    )


def test_fix_asks_before_it_changes_anything(machine: FakeMachine) -> None:
    before = dict(machine.files)
    result = doctor(machine, "--fix", said="n\n")
    assert result.stdout.endswith("nothing is changed\n")
    assert machine.files == before


def test_what_was_changed_is_said_noted_and_taken_back(machine: FakeMachine, folder: Path) -> None:
    before = dict(machine.files)
    result = doctor(machine, "--fix", said="y\n")
    assert result.exit_code == 0, result.output
    assert [line for line in result.stdout.splitlines() if line.startswith("done: ")] == [
        "done: sudo nvidia-smi -i GPU-a -pm 1",
        f"done: echo performance | sudo tee {CPUS[0]} {CPUS[1]}",
        f"done: echo madvise | sudo tee {THP}",
    ]
    assert machine.files == {THP: "madvise", CPUS[0]: "performance", CPUS[1]: "performance"}
    undone = doctor(machine, "--undo", "--yes")
    assert undone.exit_code == 0, undone.output
    assert machine.files == {**before, THP: "always"}
    assert [command[-1] for command in set_by(machine)] == ["1", "0"]
    assert not (folder / ".hud" / "doctor.json").exists()
    assert doctor(machine, "--undo").stdout == "there is nothing to take back\n"


def test_what_may_not_be_changed_is_said_and_not_noted(machine: FakeMachine) -> None:
    machine.locked = {CPUS[1]}
    result = doctor(machine, "--fix", "--yes")
    assert result.exit_code == 1
    assert f"{CPUS[1]}: Permission denied; as root, type it yourself" in result.stdout
    # All or nothing: the CPU before it has its governor back.
    assert machine.files[CPUS[0]] == "powersave"
    made = Fixes(Path(".hud"), machine=machine).made()
    assert [fix.value for fix in made] == ["", "madvise"]


def test_what_cannot_be_taken_back_now_can_be_later(machine: FakeMachine) -> None:
    doctor(machine, "--fix", "--yes")
    machine.locked = {THP}
    result = doctor(machine, "--undo", "--yes")
    assert result.exit_code == 1
    assert f"not done: echo always | sudo tee {THP}: {THP}: Permission denied" in result.stdout
    machine.locked = set()
    assert doctor(machine, "--undo", "--yes").stdout.count("done: ") == 1
    assert machine.files[THP] == "always"


def test_nothing_is_changed_that_cannot_be_noted(machine: FakeMachine, folder: Path) -> None:
    (folder / ".hud").write_text("a file where the folder should be")
    fix = Fix(paths=(THP,), value="madvise", before=("always",))
    with pytest.raises(FixError, match="cannot"):
        Fixes(Path(".hud"), machine=machine).make(fix)
    assert machine.files[THP] == "[always] madvise never"


@pytest.mark.parametrize("content", ["{", "[]", '{"schema_version": 2}', '{"schema_version": 1}'])
def test_a_note_that_cannot_be_read_is_a_clear_error(
    machine: FakeMachine, folder: Path, content: str
) -> None:
    (folder / ".hud").mkdir()
    (folder / ".hud" / "doctor.json").write_text(content)
    result = doctor(machine, "--undo")
    assert result.exit_code == 2
    assert "doctor.json" in result.stderr


@pytest.mark.parametrize(
    "options", [("--fix", "--undo"), ("--fix", "--json"), ("--undo", "--json")]
)
def test_options_that_do_not_go_together_are_refused(
    machine: FakeMachine, options: tuple[str, ...]
) -> None:
    assert doctor(machine, *options).exit_code == 2


def test_json_has_costs_commands_and_the_way_back(machine: FakeMachine) -> None:
    found = {item["name"]: item for item in json.loads(doctor(machine, "--json").stdout)}
    assert found["thp"]["commands"] == [f"echo madvise | sudo tee {THP}"]
    assert found["thp"]["undo"] == [f"echo always | sudo tee {THP}"]
    assert found["thp"]["cost"].startswith("whether an allocation")
    assert found["turbo"]["commands"] == []


def test_when_all_is_well_there_is_nothing_to_change() -> None:
    assert doctor(FakeMachine(), "--fix").stdout.endswith("there is nothing to change\n")


def test_this_machine_is_read_and_written_under_a_root(tmp_path: Path) -> None:
    machine = LocalMachine(root=tmp_path)
    path = tmp_path / "sys" / "cpu1" / "governor"
    path.parent.mkdir(parents=True)
    path.write_text("powersave\n")
    assert machine.find("/sys/cpu[0-9]*/governor") == ["/sys/cpu1/governor"]
    assert machine.read("/sys/cpu1/governor") == "powersave"
    machine.write("/sys/cpu1/governor", "performance")
    assert path.read_text() == "performance\n"
    assert machine.read("/sys/none") is None
    with pytest.raises(FileNotFoundError):
        machine.write("/sys/none", "x")


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (("echo", "hello"), Reply(text="hello")),
        (("no-such-program",), Reply(problem="no-such-program: No such file or directory")),
        (("sh", "-c", "echo why >&2; exit 3"), Reply(problem="sh ended with code 3: why")),
        (("sh", "-c", "exit 3"), Reply(problem="sh ended with code 3: and said nothing")),
    ],
)
def test_a_program_replies_or_says_why_not(command: tuple[str, ...], reply: Reply) -> None:
    assert LocalMachine().ask(*command) == reply

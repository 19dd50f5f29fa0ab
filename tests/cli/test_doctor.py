"""hud doctor prints what would mend a machine, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.cli.main import main
from compile_hud.runner.system.machine import LocalMachine, ProgramOutput
from compile_hud.runner.workspace import Dependencies
from tests.support.fakes import FakeMachine

THP = "/sys/kernel/mm/transparent_hugepage/enabled"
CPUS = [f"/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor" for number in range(2)]
GPU = "0, GPU-a, H100, 570, Disabled, Disabled, 700, 700, 1980"


@pytest.fixture
def machine() -> FakeMachine:
    return FakeMachine(
        {THP: "[always] madvise never", CPUS[0]: "powersave", CPUS[1]: "schedutil"},
        replies={
            "--query-gpu": ProgramOutput(text=GPU),
            "nvidia-smi": ProgramOutput(),
            "setarch": ProgramOutput(),
        },
    )


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # The interpreter of the toolchain and the compiler are not what is looked at here.
    script = tmp_path / "tool"
    script.write_text("#!/bin/sh\necho 2.13.0 False\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    (tmp_path / "hud.toml").write_text(f'[toolchains]\ncurrent = "{script}"\n')


def doctor(machine: FakeMachine, *options: str) -> Result:
    dependencies = Dependencies(env={}, machine=machine)
    return CliRunner().invoke(main, ["doctor", *options], obj=dependencies)


def test_commands_are_printed_and_nothing_is_changed(machine: FakeMachine) -> None:
    result = doctor(machine)
    assert result.exit_code == 0, result.output
    assert not [command for command in machine.commands if "-pm" in command]
    assert f"     echo performance | sudo tee {CPUS[0]} {CPUS[1]}\n" in result.stdout
    assert f"     echo madvise | sudo tee {THP}\n" in result.stdout
    assert "     costs: whether an " in result.stdout


def test_json_has_costs_and_commands(machine: FakeMachine) -> None:
    checks = {item["name"]: item for item in json.loads(doctor(machine, "--json").stdout)}
    assert checks["thp"]["commands"] == [f"echo madvise | sudo tee {THP}"]
    assert checks["thp"]["cost"].startswith("whether an allocation")
    assert checks["turbo"]["commands"] == []


def test_this_machine_is_read_under_a_root(tmp_path: Path) -> None:
    machine = LocalMachine(root=tmp_path)
    path = tmp_path / "sys" / "cpu1" / "governor"
    path.parent.mkdir(parents=True)
    path.write_text("powersave\n")
    assert machine.find("/sys/cpu[0-9]*/governor") == ["/sys/cpu1/governor"]
    assert machine.read("/sys/cpu1/governor") == "powersave"
    assert machine.read("/sys/none") is None


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("echo", "hello"), "hello"),
        (("no-such-program",), ""),
        (("sh", "-c", "echo why >&2; exit 3"), ""),
        (("sh", "-c", "exit 3"), ""),
    ],
)
def test_a_program_replies_or_reports_the_reason(
    command: tuple[str, ...], text: str, words: SnapshotAssertion
) -> None:
    reply = LocalMachine().ask(*command)
    assert reply.text == text
    assert reply.problem == words

"""hud service writes a unit that systemd takes, and calls systemctl for this user only."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compile_hud.runner.cli.main import main
from compile_hud.runner.errors import ServiceError
from compile_hud.runner.system.machine import ProgramOutput
from compile_hud.runner.system.user_service import UNIT_NAME, UserService
from compile_hud.runner.workspace import Dependencies
from tests.support.fakes import FakeMachine

PROGRAM = Path(sys.executable).parent / "hud"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def machine() -> FakeMachine:
    return FakeMachine(replies={"systemctl": ProgramOutput(), "loginctl": ProgramOutput(text="no")})


def service(machine: FakeMachine, *arguments: str, env: dict[str, str] | None = None) -> Result:
    variables = {"XDG_CONFIG_HOME": str(Path.cwd() / "settings"), **(env or {})}
    dependencies = Dependencies(env=variables, machine=machine)
    return CliRunner().invoke(main, ["service", *arguments], obj=dependencies)


def unit() -> Path:
    return Path.cwd() / "settings" / "systemd" / "user" / UNIT_NAME


def values(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


def test_install_writes_the_unit_and_starts_it(machine: FakeMachine) -> None:
    Path("hud.toml").write_text("", encoding="utf-8")
    result = service(machine, "install", "--user", env={"PATH": "/opt/gcc/bin:/bin"})
    assert result.exit_code == 0, result.output
    text = unit().read_text(encoding="utf-8")
    here = Path.cwd()
    assert values(text, "ExecStart") == [f'"{PROGRAM}" "up"']
    assert values(text, "WorkingDirectory") == [str(here)]
    assert values(text, "Environment") == [
        f'"HUD_STATE_DIR={here}/.hud"', f'"HUD_CONFIG={here}/hud.toml"', '"PATH=/opt/gcc/bin:/bin"',
    ]  # fmt: skip
    assert [command[2:] for command in machine.commands if command[0] == "systemctl"] == [
        ("daemon-reload",), ("enable", UNIT_NAME), ("restart", UNIT_NAME),
    ]  # fmt: skip
    assert all(command[1] == "--user" for command in machine.commands[:3])
    assert "loginctl enable-linger" in result.stdout


def test_a_user_with_lingering_needs_no_hint(machine: FakeMachine) -> None:
    machine.replies["loginctl"] = ProgramOutput(text="yes")
    assert "enable-linger" not in service(machine, "install", "--user").stdout


def test_without_a_dashboard_the_schedules_run_only(machine: FakeMachine) -> None:
    result = service(machine, "install", "--user", "--no-dashboard", "--print")
    assert values(result.stdout, "ExecStart") == [f'"{PROGRAM}" "schedule"']


def test_the_store_of_the_folder_needs_no_secret(machine: FakeMachine) -> None:
    result = service(machine, "install", "--user", "--print")
    assert result.stderr == ""


def test_a_unit_is_removed_where_systemd_is_gone(machine: FakeMachine) -> None:
    service(machine, "install", "--user")
    assert service(FakeMachine(), "remove", "--user").exit_code == 2
    assert not unit().exists()


def test_print_changes_nothing(machine: FakeMachine) -> None:
    result = service(machine, "install", "--user", "--print")
    assert result.exit_code == 0
    assert not unit().exists()
    assert machine.commands == []


def test_the_url_of_a_store_is_not_written_into_the_unit(machine: FakeMachine) -> None:
    url = "postgresql+psycopg://hud:hunter2@db/hud"
    for options, env in ((("--store", url), {}), ((), {"HUD_DATABASE_URL": url})):
        result = service(machine, "install", "--user", "--print", *options, env=env)
        assert "hunter2" not in result.output
        assert "compile-hud/secrets.env" in result.stderr


def test_without_user_nothing_is_installed(machine: FakeMachine) -> None:
    for name in ("install", "remove"):
        result = service(machine, name)
        assert result.exit_code == 2
        assert "--user" in result.stderr
    assert machine.commands == []


def test_a_machine_without_systemd_is_named_in_one_line() -> None:
    result = service(FakeMachine(), "install", "--user")
    assert result.exit_code == 2
    assert "daemon-reload" in result.stderr
    assert not unit().exists()
    assert "Traceback" not in result.output


def test_remove_stops_and_removes_it(machine: FakeMachine) -> None:
    service(machine, "install", "--user")
    machine.commands.clear()
    assert service(machine, "remove", "--user").exit_code == 0
    assert not unit().exists()
    assert machine.commands[0] == ("systemctl", "--user", "disable", "--now", UNIT_NAME)
    again = service(machine, "remove", "--user")
    assert again.exit_code == 0
    assert str(unit()) in again.stdout


def odd_service(folder: Path) -> UserService:
    return UserService(
        command=("/bin/true", 'a "b" $HOME 50%'),
        folder=folder,
        environment={"HUD_STATE_DIR": "/a b/%h\\c"},
        settings_home=folder / "settings",
    )


def test_odd_characters_are_escaped_as_systemd_reads_them(tmp_path: Path) -> None:
    text = odd_service(tmp_path / "100%").text()
    assert values(text, "ExecStart") == [r'"/bin/true" "a \"b\" $$HOME 50%%"']
    assert values(text, "WorkingDirectory") == [f"{tmp_path}/100%%"]
    assert values(text, "Environment") == [r'"HUD_STATE_DIR=/a b/%%h\\c"']


def test_a_line_break_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="line break"):
        odd_service(tmp_path / "a\nExecStart=b").text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    folder = tmp_path / "100%"
    folder.mkdir()
    made = odd_service(folder)
    made.write()
    answer = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", str(made.path)],
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    about_us = [line for line in answer.stderr.splitlines() if "compile-hud" in line]
    assert (answer.returncode, about_us) == (0, [])

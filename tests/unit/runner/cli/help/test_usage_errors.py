"""Usage errors that repeat what was typed."""

from __future__ import annotations

from click.testing import CliRunner

from compile_hud.runner.cli.main import main


def test_an_error_has_no_character_that_a_terminal_executes() -> None:
    result = CliRunner().invoke(main, ["run", "--device", "c\x1b[2Jpu"], prog_name="hud")
    assert result.exit_code == 2
    assert all(line.isprintable() for line in result.stderr.splitlines())
    assert result.stderr.startswith("Usage: hud run")
    assert "?[2Jpu" in result.stderr or r"\x1b[2Jpu" in result.stderr


def test_a_wrong_command_has_none_either() -> None:
    result = CliRunner().invoke(main, ["ru\x1bn"], prog_name="hud")
    assert result.exit_code == 2
    assert all(line.isprintable() for line in result.stderr.splitlines())

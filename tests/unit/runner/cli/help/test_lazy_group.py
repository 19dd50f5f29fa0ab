"""The tables of commands have the names and the help of the commands."""

from __future__ import annotations

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from compile_hud.runner.cli.help.lazy_group import LazyCommand, LazyGroup
from compile_hud.runner.cli.kernels.group import kernels_group
from compile_hud.runner.cli.main import COMMANDS, main

ROWS = [
    pytest.param(group, row, id=row.name)
    for group in (main, kernels_group)
    if isinstance(group, LazyGroup)
    for row in group.table
]


@click.command("old")
def old() -> None:
    """Do it."""


def a_group() -> LazyGroup:
    """Return a group of which only `old` can be loaded."""
    return LazyGroup(
        "hud",
        table=[
            LazyCommand(name="old", location=f"{__name__}:old", summary="Do it."),
            LazyCommand(name="older", location="no.such.module:x", summary="Do that."),
        ],
    )


@pytest.mark.parametrize(("group", "row"), ROWS)
def test_a_row_says_what_its_command_says(group: LazyGroup, row: LazyCommand) -> None:
    command = group.commands[row.name]
    assert command.name == row.name
    assert not command.hidden
    assert not command.deprecated
    for limit in (10, 45, 60, 1000):
        assert row.short_help(limit) == command.get_short_help_str(limit)


def test_names_are_unique() -> None:
    assert len({row.name for row in COMMANDS}) == len(COMMANDS)


def test_help_loads_no_command() -> None:
    result = CliRunner().invoke(a_group(), ["--help"])
    assert result.output.splitlines()[-2:] == ["  old    Do it.", "  older  Do that."]


def test_a_command_is_loaded_when_it_is_called() -> None:
    assert CliRunner().invoke(a_group(), ["old"]).exit_code == 0
    assert isinstance(CliRunner().invoke(a_group(), ["older"]).exception, ModuleNotFoundError)


def test_a_misspelt_command_gets_a_suggestion_without_loading() -> None:
    result = CliRunner().invoke(a_group(), ["oldr"])
    assert result.exit_code == 2
    assert "Did you mean" in result.output


def test_completion_loads_no_command() -> None:
    complete = ShellComplete(a_group(), {}, "hud", "_HUD_COMPLETE")
    items = complete.get_completions([], "old")
    assert [(item.value, item.help) for item in items] == [("old", "Do it."), ("older", "Do that.")]
    assert "--help" in {item.value for item in complete.get_completions([], "-")}


def test_a_lazy_group_takes_no_other_command() -> None:
    with pytest.raises(TypeError, match="table"):
        a_group().add_command(old)
    with pytest.raises(TypeError, match="table"):
        del a_group().commands["old"]

"""The commands that continue what a command has just done."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from compile_hud.runner.cli.echo import echo

_MAX_NEXT = 2
# Behind it no option is read.
_END_OF_OPTIONS = " -- "


def print_next(commands: Sequence[str]) -> None:
    """Print the first of `commands` as notes, so that standard output has the answer alone."""
    for command in commands[:_MAX_NEXT]:
        echo(next_line(command), err=True)


def next_line(command: str) -> str:
    """Return the line for `command`, with the settings of the running one."""
    return f"next: {_with_settings(command)}"


def hud(*words: str) -> str:
    """Return `hud` with `words`, quoted for a POSIX shell."""
    return shlex.join(["hud", *words])


def _with_settings(command: str) -> str:
    """Return `command` with `--store` and `--config`, where the running command has them."""
    context = click.get_current_context(silent=True)
    params = {} if context is None else context.params
    given = {"--store": params.get("store_url"), "--config": params.get("config_path")}
    words = [word for name, value in given.items() if value for word in (name, str(value))]
    if not words or not command.startswith("hud "):
        return command
    before, end, after = command.partition(_END_OF_OPTIONS)
    return f"{before} {shlex.join(words)}{end}{after}"

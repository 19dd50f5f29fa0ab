"""A click group whose commands are imported when they are called.

Importing every command takes seconds: they import the store, statistics and the terminal's tables.
`--help`, completion and suggestions need names and summaries only, which are in a table. A test
compares the table with the commands.
"""

from __future__ import annotations

import gc
import pkgutil
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """A command, the first sentence of its help, and its section in that of hud.

    `location` is its module and function, `package.module:function` as in pyproject.toml.
    """

    name: str
    location: str
    summary: str
    section: str = "Commands"

    def load(self) -> click.Command:
        """Import the command."""
        is_collecting = gc.isenabled()
        # Importing makes many objects and leaves none to collect.
        gc.disable()
        try:
            command: click.Command = pkgutil.resolve_name(self.location)
        finally:
            # Imported objects are never garbage, so later collections skip them.
            gc.freeze()
            if is_collecting:
                gc.enable()
        return command

    def short_help(self, limit: int = 45) -> str:
        """Return the summary as click shortens the help of the command itself."""
        return click.Command(self.name, help=self.summary).get_short_help_str(limit)


class _Commands(MutableMapping[str, click.Command]):
    """Commands by name; looking at one imports it, listing the names does not."""

    def __init__(self, rows: Iterable[LazyCommand]) -> None:
        self.rows = {row.name: row for row in rows}
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            self._loaded[name] = self.rows[name].load()
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        raise TypeError("commands of a lazy group stand in its table")

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands of a lazy group stand in its table")

    def __contains__(self, name: object) -> bool:
        return name in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class LazyGroup(click.Group):
    """A group of the commands of `table`, listed in its order."""

    def __init__(self, *args: Any, table: Iterable[LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = tuple(table)
        self.commands = _Commands(self.table)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and summaries of the table, section by section."""
        del ctx
        longest = max(len(row.name) for row in self.table)
        limit = formatter.width - 6 - longest
        for section in dict.fromkeys(row.section for row in self.table):
            rows = [row for row in self.table if row.section == section]
            with formatter.section(section):
                # Padded names align the summaries of all sections.
                formatter.write_dl(
                    [(row.name.ljust(longest), row.short_help(limit)) for row in rows]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with `incomplete`, then the options."""
        commands = [
            CompletionItem(row.name, help=row.short_help())
            for row in self.table
            if row.name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

"""The group of `hud kernels`."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from compile_hud.runner.cli.help.lazy_group import LazyCommand, LazyGroup

_SHOW = "show"
_TABLE = (
    (
        "counters",
        "commands:counters_command",
        "Store counters of nsys or ncu with the kernels of a case.",
    ),
    ("diff", "diff:diff_command", "Show the kernels that changed from A to B, and why."),
    (
        "ranks",
        "ranks:ranks_command",
        "Show the time of each rank, and the rank that delays others.",
    ),
    ("series", "series:series_command", "Show each kernel of a case over its newest results."),
    (_SHOW, "commands:show_kernels", "Show the kernels of a case or a trace, the longest first."),
    ("transplant", "transplant:transplant_command", "Measure a slower build with the old kernels."),
)


class _ShowByDefault(LazyGroup):
    """A group that passes the arguments to `show` unless they name a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the name of the command, `show` where none is given."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            # A trace alone is a call of `show`, and RUN alone is none: a name like that of a
            # command is one mistyped.
            near = difflib.get_close_matches(args[0], self.commands, n=1)
            if near and len(args) == 1 and not Path(args[0]).is_file():
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


@click.group(
    "kernels",
    cls=_ShowByDefault,
    table=[
        LazyCommand(
            name=name,
            location=f"compile_hud.runner.cli.kernels.{location}",
            summary=summary,
        )
        for name, location, summary in _TABLE
    ],
)
def kernels_group() -> None:
    """Show the kernels of a case, their time and their source.

    `hud kernels RUN CASE` is `hud kernels show RUN CASE`.
    """

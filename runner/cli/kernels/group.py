"""The group of `hud kernels`."""

from __future__ import annotations

import click

from compile_hud.runner.cli.lazy_group import LazyCommand, LazyGroup

_SHOW = "show"
_TABLE = (
    (
        "counters",
        "commands",
        "counters_command",
        "Keep what CSV FILEs of nsys or ncu say of each kernel beside the kernels of a case.",
    ),
    (
        "diff",
        "diff",
        "diff_command",
        "Show which kernels changed from A to B, why, and the microseconds that each contributes.",
    ),
    (
        "ranks",
        "ranks",
        "ranks_command",
        "Show what each rank of a distributed run did, and which one the others wait for.",
    ),
    (
        _SHOW,
        "commands",
        "show_kernels",
        "Show the kernels of one case, those that take longest first, and where the time goes.",
    ),
)


class _ShowByDefault(LazyGroup):
    """A group that passes the arguments to `show` unless they name a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the name of the command, `show` where none is given."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


@click.group(
    "kernels",
    cls=_ShowByDefault,
    table=[
        LazyCommand(
            name=name,
            module=f"compile_hud.runner.cli.kernels.{module}",
            attribute=attribute,
            summary=summary,
        )
        for name, module, attribute, summary in _TABLE
    ],
)
def kernels_group() -> None:
    """Show which kernels a case runs; `hud kernels RUN CASE` is `hud kernels show RUN CASE`."""

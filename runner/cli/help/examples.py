"""Commands with exit codes and examples in their help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click


class ExampleCommand(click.Command):
    """A command whose help ends with `examples`, each a line as it is typed.

    `exit_codes` are those that say more than done (0), a wrong command line (2) and stopped (130).
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        exit_codes: Mapping[int, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.exit_codes = dict(exit_codes or {})

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes and the examples, whose lines are not folded: they are copied."""
        super().format_epilog(ctx, formatter)
        if self.exit_codes:
            with formatter.section("Exit codes"):
                formatter.write_dl([(str(code), text) for code, text in self.exit_codes.items()])
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class ExampleGroup(click.Group):
    """A group whose commands have examples."""

    command_class = ExampleCommand

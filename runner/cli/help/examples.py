"""Commands with examples in their help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class ExampleCommand(click.Command):
    """A command whose help ends with `examples`, each a line as it is typed."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples; a line is not folded, so that it can be copied."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class ExampleGroup(click.Group):
    """A group whose commands have examples."""

    command_class = ExampleCommand

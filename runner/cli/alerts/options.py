"""The options of the commands that decide about alerts and series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from compile_hud.db.records.triage import is_reserved
from compile_hud.db.shared.local_sign_in import local_user
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.option_types import StoredText
from compile_hud.runner.cli.output import gather_options, json_option, with_workspace

_Function = TypeVar("_Function", bound=Callable[..., Any])


class FloorCommand(ExampleCommand):
    """A command with a floor as an argument, where one with a sign looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the remaining `args`; raise UsageError for a negative floor."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name[1:2].isdigit():
                raise click.UsageError(
                    "a floor has no sign: it holds for changes up and down. Give it like 5% or"
                    " like 0.05",
                    ctx,
                ) from error
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOptions:
    """The author and the reason of a decision, and the form of the output."""

    by: str
    why: str
    as_json: bool


def deciding(function: _Function) -> _Function:
    """Add `--by`, `--why` and the common options; pass the first two and JSON as `options`."""
    options = gather_options(
        DecisionOptions, name="options", options=(by_option, _why_option, json_option)
    )
    return options(with_workspace(function))


def _person(by: str | None) -> str:
    if by is None:
        return local_user()
    if is_reserved(by):
        raise click.UsageError(f"--by is {by!r}; give the name of a person")
    return by.strip()


by_option = click.option(
    "--by",
    type=StoredText(),
    metavar="NAME",
    callback=lambda _context, _option, by: _person(by),
    help="The author. Default: the user of this machine.",
)
_why_option = click.option(
    "--why",
    type=StoredText(),
    metavar="TEXT",
    default="",
    help="The reason, stored with the decision.",
)

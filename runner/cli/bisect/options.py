"""The options of commands that search revisions: the revisions, the limits, and --resume."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from compile_hud.runner.analysis.comparison.runs import DEFAULT_FAIL_ABOVE
from compile_hud.runner.bisect.record import Limits
from compile_hud.runner.cli.completion.names import TOOLCHAIN
from compile_hud.runner.cli.option_types import Percentage

LATEST = "latest"
REVISION_OPTIONS = (
    click.option("--torch", metavar="V", multiple=True, help="A torch version, or a range: A..B."),
    click.option("--nightly", "is_nightly", is_flag=True, help="Pre-releases count as well."),
    click.option(
        "--index-url", metavar="URL", help="The package index of torch. Default: pip's setting."
    ),
    click.option("--python", metavar="PATH", help="The Python to build on. Default: that of hud."),
    click.option(
        "--toolchain",
        "toolchains",
        type=TOOLCHAIN,
        metavar="T",
        multiple=True,
        help="An existing toolchain; with --repo the one to measure in.",
    ),
    click.option(
        "--repo",
        "repository",
        metavar="PATH",
        type=click.Path(path_type=Path),
        help="The git repository of a model of yours.",
    ),
    click.option("--good", metavar="REV", help="The good commit."),
    click.option("--bad", metavar="REV", help="The bad commit."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """The limits of a search in the form of the options."""

    floor: float
    max_launches: int
    step_minutes: float

    @property
    def limits(self) -> Limits:
        """Return the limits as those of a bisection."""
        return Limits(
            floor=self.floor, max_launches=self.max_launches, step_s=60 * self.step_minutes
        )


def limit_options(
    step: str, *, floor_help: str, max_launches: int, step_minutes: float
) -> tuple[Callable[[Any], Any], ...]:
    """Return the options that limit a search; `step` is the noun for one measurement in it."""
    return (
        click.option(
            "--floor",
            type=Percentage(),
            default=DEFAULT_FAIL_ABOVE,
            metavar="PCT",
            help=f"{floor_help} Default: {100 * DEFAULT_FAIL_ABOVE:g}%.",
        ),
        click.option(
            "--max-launches",
            type=click.IntRange(min=2),
            default=max_launches,
            show_default=True,
            metavar="N",
            help=f"Launches a side and {step} at most.",
        ),
        click.option(
            "--step-minutes",
            type=click.FloatRange(min=0, min_open=True),
            default=step_minutes,
            metavar="N",
            help=f"Time limit of {'an' if step[0] in 'aeiou' else 'a'} {step} in minutes. Default:"
            f" {step_minutes:g}.",
        ),
    )


def is_typed(name: str) -> bool:
    """Return whether the running command has a value of its parameter `name` from its line."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not None and source is not ParameterSource.DEFAULT


# The parameters that every command has, and that of --resume.
_OF_ANY_COMMAND = frozenset({"resume_id", "as_json", "store_url", "config_path"})


def check_resumed(*, allowed: Sequence[str] = ()) -> None:
    """Raise UsageError for values on the line of a command that continues a search.

    `allowed` are options that it may have.
    """
    typed = [
        item
        for item in click.get_current_context().command.params
        if item.name not in _OF_ANY_COMMAND
        and not set(item.opts) & set(allowed)
        and is_typed(str(item.name))
    ]
    if typed:
        others = " and ".join(part for part in (", ".join(allowed[:-1]), *allowed[-1:]) if part)
        others = others and f" but {others}"
        raise click.UsageError(f"--resume goes on as it began: give it nothing else{others}")


def resume_option(noun: str) -> Callable[[Any], Any]:
    """Return the option that continues a stored search, whose name is `noun`."""
    return click.option(
        "--resume",
        "resume_id",
        metavar="ID",
        is_flag=False,
        flag_value=LATEST,
        help=f"Continue a stopped {noun} (the latest, or ID).",
    )

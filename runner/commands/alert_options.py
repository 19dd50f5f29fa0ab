"""The options of the commands that decide about alerts and series."""

from __future__ import annotations

import functools
import getpass
import os
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, TypeVar, cast

import click

from db.triage import JUDGE
from runner.commands.common import json_option, with_workplace
from runner.commands.compare import Percentage
from runner.wiring import Workplace

NONE = "none"
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Until(click.ParamType[datetime | str]):
    """A day, which ends a mute as it begins, a time, or `none`."""

    name = "date"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | str:
        """Return the time in UTC that `value` stands for, or NONE."""
        if value == NONE or isinstance(value, datetime):
            return cast("datetime | str", value)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither like 2026-02-01 nor {NONE!r}", param, ctx)
        return moment.replace(tzinfo=moment.tzinfo or timezone.utc).astimezone(timezone.utc)


class Floor(click.ParamType[float | str]):
    """`5%`, `0.05` or `none`."""

    name = "percentage"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """Return the fraction that `value` stands for, or NONE."""
        return NONE if value == NONE else Percentage().convert(value, param, ctx)


def deciding(function: _Function) -> _Function:
    """Add `--by`, `--why` and what every command has; the name of who decides is passed as `by`."""

    @click.option("--by", metavar="NAME", help="Who decides. Default: the user of this machine.")
    @click.option("--why", metavar="TEXT", default="", help="The reason; it is kept.")
    @json_option
    @with_workplace
    def wrapper(workplace: Workplace, *, by: str | None, **options: Any) -> Any:
        return function(workplace, by=_person(by), **options)

    return cast("_Function", functools.update_wrapper(wrapper, function))


def _person(by: str | None) -> str:
    if by is None:
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            # The user of a container often has no name.
            return f"uid {os.getuid()}"
    if by.strip() in ("", JUDGE):
        raise click.UsageError(f"--by is {by!r}; give the name of a person")
    return by.strip()

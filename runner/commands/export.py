"""hud export: a run in a format that other tools read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from db.records import RunDocument
from runner.commands.common import with_workplace
from runner.commands.compare import find_document
from runner.interop.mll import to_mll
from runner.wiring import Workplace

FORMATS: Mapping[str, Callable[[RunDocument], str]] = {"mlperf": to_mll}


class Format(click.ParamType[str]):
    """The name of a format; what there is when there is no such."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value` if it names a format."""
        if value not in FORMATS:
            self.fail(f"no format {value!r}; there is {', '.join(FORMATS)}", param, ctx)
        return str(value)


@click.command()
@click.argument("run_name", metavar="RUN")
@click.option(
    "--format",
    "format_name",
    type=Format(),
    metavar="FORMAT",
    required=True,
    help=f"The format: {', '.join(FORMATS)}.",
)
@click.option(
    "--output",
    "-o",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write it, instead of standard output.",
)
@with_workplace
def export(workplace: Workplace, *, run_name: str, format_name: str, path: Path | None) -> None:
    """Write RUN in a format of other tools.

    RUN is an id, the start of one, `latest`, `previous`, a revision or a result file.
    """
    content = FORMATS[format_name](find_document(run_name, store=workplace.store()))
    if path is None:
        click.echo(content, nl=False)
    else:
        path.write_text(content, encoding="utf-8")

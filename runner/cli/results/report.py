"""hud report: how the modes developed, as a file for a mail or a wiki."""

from __future__ import annotations

from pathlib import Path

import click

from compile_hud.runner.cli.echo import echo, print_document
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.output import gather_options, with_workspace
from compile_hud.runner.cli.results.trends import TREND_OPTIONS, TrendOptions, filters_of
from compile_hud.runner.documents.filtered.trends import load_trends
from compile_hud.runner.errors import DocumentNotWritten
from compile_hud.runner.protocol.files import whole_file
from compile_hud.runner.reporting.trend_report import report_html, report_markdown
from compile_hud.runner.workspace import Workspace

_FORMATS = {"md": report_markdown, "html": report_html}


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud report --since 30d",
        "hud report --format html --output trends.html",
    ),
)
@gather_options(TrendOptions, name="options", options=TREND_OPTIONS)
@click.option(
    "--format",
    "format_name",
    type=NearestChoice(tuple(_FORMATS)),
    default="md",
    show_default=True,
    help="Markdown, or one HTML file with charts.",
)
@click.option(
    "--output",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to FILE instead of standard output.",
)
@with_workspace
def report(
    workspace: Workspace, *, options: TrendOptions, format_name: str, path: Path | None
) -> None:
    """Write a report of the trends, for a mail or a wiki.

    It has the trends of `hud trends`, with their events. The HTML file loads nothing.
    """
    now = workspace.dependencies.now()
    trends = load_trends(workspace.store(), filters_of(options, now=now))
    text = _FORMATS[format_name](trends, at=now)
    if path is None:
        print_document(text)
        return
    try:
        with whole_file(path) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise DocumentNotWritten(
            f"cannot write {path}: {error.strerror}", path=path, reason=error.strerror
        ) from error
    echo(f"report: {path}", err=True)

"""The command line `hud`: its commands, and one clear line for every expected error."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
from typing import Any, NoReturn

import click

from compile_hud.db.errors import StoreError
from compile_hud.db.shared.logging import FORMAT_VARIABLE, FORMATS, set_up_logging
from compile_hud.models_zoo.catalog.spec import UnknownNameError
from compile_hud.runner.analysis.alerts.triage import AlertStateError
from compile_hud.runner.analysis.comparison.runs import NotComparableError
from compile_hud.runner.analysis.kernels.standalone_script import NoKernelScript
from compile_hud.runner.cli.alerts.annotations import annotate_group
from compile_hud.runner.cli.alerts.commands import alerts_group
from compile_hud.runner.cli.bisect.command import bisect
from compile_hud.runner.cli.compare.command import compare
from compile_hud.runner.cli.database import db_group
from compile_hud.runner.cli.doctor import doctor
from compile_hud.runner.cli.exit_codes import EXIT_INTERRUPTED, EXIT_USAGE
from compile_hud.runner.cli.kernels.commands import counters_command, kernels_group
from compile_hud.runner.cli.kernels.diff import diff_command
from compile_hud.runner.cli.kernels.ranks import ranks_command
from compile_hud.runner.cli.maintenance import demo, detect, ingest
from compile_hud.runner.cli.results.export import export
from compile_hud.runner.cli.results.import_history import import_
from compile_hud.runner.cli.results.listings import list_group, regressions, runs, show
from compile_hud.runner.cli.run.command import run
from compile_hud.runner.cli.serve import schedule, serve, up
from compile_hud.runner.cli.study import study_group
from compile_hud.runner.cli.toolchain import toolchain_group
from compile_hud.runner.errors import RunInterrupted, RunnerError

# OSError: no permission, no room, no such file; BrokenPipeError is click's own business.
_EXPECTED = (
    RunnerError,
    StoreError,
    UnknownNameError,
    NotComparableError,
    NoKernelScript,
    AlertStateError,
    OSError,
)


class _Commands(click.Group):
    """Commands in the order of this file, and errors without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they were added."""
        del ctx
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an expected error becomes one line and an exit code."""
        try:
            return super().invoke(ctx)
        except _EXPECTED as error:
            if os.environ.get("HUD_DEBUG") or isinstance(error, BrokenPipeError):
                raise
            _end(ctx, error)
        except KeyboardInterrupt:
            if os.environ.get("HUD_DEBUG"):
                raise
            _end(ctx, RunInterrupted("stopped"))


def _end(ctx: click.Context, error: Exception) -> NoReturn:
    """Tell `error` in one line, as logs are written, and exit with its code."""
    if ctx.params.get("log_format") == "json":
        logging.getLogger("hud").error("%s", error)
    else:
        click.echo(f"hud: {error}", err=True)
    ctx.exit(EXIT_INTERRUPTED if isinstance(error, RunInterrupted) else EXIT_USAGE)


def _version(ctx: click.Context, _param: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        try:
            click.echo(f"hud {importlib.metadata.version('compile-hud')}")
        except importlib.metadata.PackageNotFoundError:
            click.echo("hud, not installed: running from a checkout")
        ctx.exit()


@click.group(cls=_Commands)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    envvar=FORMAT_VARIABLE,
    help="How progress and logs are written to standard error.",
)
def main(*, log_format: str) -> None:
    """Track the performance of PyTorch models under torch.compile."""
    set_up_logging(log_format, stream=sys.stderr)


kernels_group.add_command(diff_command)
kernels_group.add_command(counters_command)
kernels_group.add_command(ranks_command)
for command in (
    up,
    run,
    schedule,
    serve,
    list_group,
    runs,
    show,
    regressions,
    alerts_group,
    annotate_group,
    compare,
    kernels_group,
    bisect,
    study_group,
    toolchain_group,
    detect,
    ingest,
    import_,
    export,
    doctor,
    demo,
    db_group,
):
    main.add_command(command)

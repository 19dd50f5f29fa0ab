"""The command line `hud`: its commands, and one clear line for every expected error."""

from __future__ import annotations

import difflib
import logging
import os
import sys
from typing import Any, NoReturn

import click

from compile_hud.db.errors import StoreError
from compile_hud.db.shared.logging import FORMAT_VARIABLE, FORMATS, set_up_logging
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.analysis.errors import AlertStateError, NoKernelScript, NotComparableError
from compile_hud.runner.cli.echo import echo, escape_unencodable, safe_text
from compile_hud.runner.cli.exit_codes import EXIT_INTERRUPTED, EXIT_USAGE
from compile_hud.runner.cli.help.lazy_group import LazyCommand, LazyGroup
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.errors import RunInterrupted, RunnerError

# OSError covers permissions, space and missing files; click handles BrokenPipeError.
_EXPECTED = (
    RunnerError,
    StoreError,
    UnknownNameError,
    NotComparableError,
    NoKernelScript,
    AlertStateError,
    OSError,
)

# The commands by the section of `hud --help` that lists them: the name of a command, its module in
# this folder with its function, and the first sentence of its help.
_TABLE = {
    "Measure": (
        ("run", "run.command:run", "Measure now: compile, time and judge the selected cases."),
        ("try", "run.remedy:try_command", "Measure what the remedy of a finding brings."),
        (
            "study",
            "study:study_group",
            "List studies of a standing question, run them, write pages.",
        ),
        ("toolchain", "toolchain:toolchain_group", "Build, list and remove toolchains."),
    ),
    "Look": (
        (
            "list",
            "results.listings:list_group",
            "List models, shapes, modes, suites, metrics and toolchains.",
        ),
        ("runs", "results.runs:runs", "List the runs in the store, the newest first."),
        ("show", "results.show:show", "Show one run, or one case of it in full."),
        ("modes", "results.modes:modes", "Recommend a mode for each phase and shape."),
        (
            "trends",
            "results.trends:trends",
            "Show each mode over time: speedup, compile time, memory.",
        ),
        (
            "kernels",
            "kernels.group:kernels_group",
            "Show the kernels of a case, their time and their source.",
        ),
        (
            "compiles",
            "kernels.compiles:compiles",
            "Show compile times and graph breaks of TORCH_TRACE logs.",
        ),
    ),
    "Judge": (
        ("regressions", "results.regressions:regressions", "List the alerts, the worst first."),
        (
            "alerts",
            "alerts.commands:alerts_group",
            "Show and triage alerts: acknowledge, expect, mute, assign.",
        ),
        (
            "annotate",
            "alerts.annotations:annotate_group",
            "Mark dates in trends, such as that of a new driver.",
        ),
        (
            "compare",
            "compare.command:compare",
            "Compare CANDIDATE with BASELINE; exit with 1 on a regression.",
        ),
        (
            "release",
            "release.command:release",
            "Say whether toolchain CANDIDATE may replace BASELINE.",
        ),
        (
            "bisect",
            "bisect.command:bisect",
            "Find the first bad toolchain, torch version or commit.",
        ),
        (
            "backfill",
            "backfill.command:backfill",
            "Measure a history of toolchains, torch versions or commits.",
        ),
        (
            "isolate",
            "isolate.command:isolate",
            "Find the packages and variables that change a case.",
        ),
        ("detect", "maintenance:detect", "Judge the stored history again."),
    ),
    "Share": (
        ("report", "results.report:report", "Write a report of the trends, for a mail or a wiki."),
        (
            "import",
            "results.import_history:import_",
            "Import results of PyTorch's HUD, TorchBench, asv and others.",
        ),
        ("export", "results.export:export", "Write RUNs in a format of other tools."),
        (
            "ingest",
            "maintenance:ingest",
            "Store spooled results and result files of other machines.",
        ),
        (
            "mcp",
            "mcp.command:mcp_command",
            "Serve the store to agents over the Model Context Protocol.",
        ),
    ),
    "Operate": (
        ("up", "serve:up", "Serve the dashboard and run the schedules of hud.toml."),
        ("serve", "serve:serve", "Serve the dashboard alone."),
        (
            "schedule",
            "serve:schedule",
            "Run the schedules of hud.toml and queued jobs until Ctrl-C.",
        ),
        ("sign-in", "serve:sign_in", "Print a link that signs you in to the running dashboard."),
        ("service", "service.command:service_group", "Run `hud up` as a service of systemd."),
        (
            "completion",
            "completion.command:completion",
            "Print the script that completes `hud` in a shell.",
        ),
        ("doctor", "doctor:doctor", "Check the requirements of a run and the sources of noise."),
        ("demo", "maintenance:demo", "Create a demo store with synthetic data."),
        ("db", "database:db_group", "Maintain the store: migrate, back up, restore, prune, check."),
    ),
}
COMMANDS = tuple(
    LazyCommand(
        name=name,
        location=f"compile_hud.runner.cli.{location}",
        summary=summary,
        section=section,
    )
    for section, rows in _TABLE.items()
    for name, location, summary in rows
)


class _Hud(LazyGroup):
    """The commands of `hud`, with errors in one line instead of a traceback."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` name; raise UsageError with the nearest name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            listings = self.commands["list"]
            names = listings.list_commands(ctx) if isinstance(listings, click.Group) else []
            near = difflib.get_close_matches(args[0], names, n=1)
            if getattr(error, "possibilities", None) or not near:
                raise
            ctx.fail(f"{error.message} Did you mean 'list {near[0]}'?")

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an expected error becomes one line and an exit code."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            # click prints it, with names from the store and from files.
            text = error.format_message()
            if safe_text(text) == text:
                raise
            raise click.UsageError(safe_text(text), error.ctx) from error
        except _EXPECTED as error:
            if os.environ.get("HUD_DEBUG") or isinstance(error, BrokenPipeError):
                raise
            _end(ctx, error)
        except KeyboardInterrupt:
            if os.environ.get("HUD_DEBUG"):
                raise
            _end(ctx, RunInterrupted("stopped"))


def _end(ctx: click.Context, error: Exception) -> NoReturn:
    """Report `error` in one line, as logs are written, and exit with its code."""
    if ctx.params.get("log_format") == "json":
        logging.getLogger("hud").error("%s", error)
    else:
        echo(f"hud: {error}", err=True)
    ctx.exit(EXIT_INTERRUPTED if isinstance(error, RunInterrupted) else EXIT_USAGE)


def _print_version(ctx: click.Context, _param: click.Parameter, is_requested: bool) -> None:
    if is_requested and not ctx.resilient_parsing:
        # Reading the metadata imports the parser of e-mails, which no other command needs.
        from importlib import metadata

        try:
            echo(f"hud {metadata.version('compile-hud')}")
        except metadata.PackageNotFoundError:
            echo("hud, not installed: running from a checkout")
        ctx.exit()


@click.group(cls=_Hud, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option(
    "--log-format",
    type=NearestChoice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    envvar=FORMAT_VARIABLE,
    help="The format of progress and logs on standard error.",
)
def main(*, log_format: str) -> None:
    """Track the performance of PyTorch models under torch.compile."""
    escape_unencodable()
    set_up_logging(log_format, stream=sys.stderr)

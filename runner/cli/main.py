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
from compile_hud.runner.cli.exit_codes import EXIT_INTERRUPTED, EXIT_USAGE
from compile_hud.runner.cli.lazy_group import LazyCommand, LazyGroup
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

# The name of a command, its module in this folder, its function there, and the first sentence of
# its help.
_TABLE = (
    (
        "up",
        "serve",
        "up",
        "Serve the dashboard, run the schedules and, in a new store, measure the quick suite.",
    ),
    (
        "run",
        "run.command",
        "run",
        "Measure now: compile, time, store and judge each selected case.",
    ),
    (
        "schedule",
        "serve",
        "schedule",
        "Run the schedules of hud.toml and every queued job until Ctrl-C.",
    ),
    ("serve", "serve", "serve", "Serve the dashboard alone."),
    (
        "sign-in",
        "serve",
        "sign_in",
        "Print the link that signs this machine's user in to the running dashboard, once.",
    ),
    (
        "mcp",
        "mcp.command",
        "mcp_command",
        "Serve the store to agents over the Model Context Protocol.",
    ),
    (
        "list",
        "results.listings",
        "list_group",
        "List models, shapes, modes, suites, metrics and toolchains.",
    ),
    ("runs", "results.runs", "runs", "List the runs in the store, the newest first."),
    ("show", "results.show", "show", "Show one run, or one case of it in full."),
    (
        "try",
        "run.remedy",
        "try_command",
        "Measure what the remedy of a finding brings, with launches of both in turn.",
    ),
    (
        "modes",
        "results.modes",
        "modes",
        "Recommend a mode for each phase and shape, from the newest results.",
    ),
    (
        "trends",
        "results.trends",
        "trends",
        "Show how each mode developed: speedup, pass rate, compile time, memory and energy.",
    ),
    (
        "report",
        "results.report",
        "report",
        "Write a report of how each mode developed, for a mail or a wiki.",
    ),
    (
        "compiles",
        "kernels.compiles",
        "compiles",
        "Show compile times, graph breaks, recompiles and cache results of TORCH_TRACE logs.",
    ),
    ("regressions", "results.regressions", "regressions", "List the alerts, the worst first."),
    (
        "alerts",
        "alerts.commands",
        "alerts_group",
        "Show and triage alerts: acknowledge, expect, mark as noise, mute, assign.",
    ),
    (
        "annotate",
        "alerts.annotations",
        "annotate_group",
        "Mark a date in trends with an event, such as a new driver or a moved machine.",
    ),
    (
        "compare",
        "compare.command",
        "compare",
        "Compare CANDIDATE with BASELINE; exit with 1 on a regression.",
    ),
    (
        "release",
        "release.command",
        "release",
        "Say whether toolchain CANDIDATE may replace BASELINE; exit with 1 on a regression.",
    ),
    (
        "kernels",
        "kernels.group",
        "kernels_group",
        "Show the kernels of a case; `hud kernels RUN CASE` is `hud kernels show RUN CASE`.",
    ),
    (
        "bisect",
        "bisect.command",
        "bisect",
        "Find the first bad of several toolchains, torch versions or commits of a model.",
    ),
    (
        "isolate",
        "isolate.command",
        "isolate",
        "Find the packages and variables by which toolchain CANDIDATE changes a case.",
    ),
    (
        "study",
        "study",
        "study_group",
        "Answer a standing question: list the studies, measure one, write its page.",
    ),
    ("toolchain", "toolchain", "toolchain_group", "Build, list and remove toolchains."),
    (
        "detect",
        "maintenance",
        "detect",
        "Judge the stored history again; the same history gives the same alerts.",
    ),
    (
        "ingest",
        "maintenance",
        "ingest",
        "Store spooled results, and result FILES of `hud run --json`, gzipped or not.",
    ),
    (
        "import",
        "results.import_history",
        "import_",
        "Import results of PyTorch's HUD, TorchBench, asv, pytest-benchmark and other tools.",
    ),
    ("export", "results.export", "export", "Write RUNs in a format of other tools."),
    (
        "doctor",
        "doctor",
        "doctor",
        "Check a run's requirements and sources of noise; exit with 1 if one is missing.",
    ),
    (
        "demo",
        "maintenance",
        "demo",
        "Create a demo store with synthetic data.",
    ),
    ("db", "database", "db_group", "Maintain the store."),
)
COMMANDS = tuple(
    LazyCommand(
        name=name, module=f"compile_hud.runner.cli.{module}", attribute=attribute, summary=summary
    )
    for name, module, attribute, summary in _TABLE
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
        click.echo(f"hud: {error}", err=True)
    ctx.exit(EXIT_INTERRUPTED if isinstance(error, RunInterrupted) else EXIT_USAGE)


def _print_version(ctx: click.Context, _param: click.Parameter, is_requested: bool) -> None:
    if is_requested and not ctx.resilient_parsing:
        # Reading the metadata imports the parser of e-mails, which no other command needs.
        from importlib import metadata

        try:
            click.echo(f"hud {metadata.version('compile-hud')}")
        except metadata.PackageNotFoundError:
            click.echo("hud, not installed: running from a checkout")
        ctx.exit()


@click.group(cls=_Hud, table=COMMANDS)
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
    set_up_logging(log_format, stream=sys.stderr)

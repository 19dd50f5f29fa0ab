"""hud trends: how the modes developed over weeks and months."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta

import click

from compile_hud.db.records.results import Phase
from compile_hud.runner.analysis.trends.documents import trends_csv
from compile_hud.runner.analysis.trends.records import DIMENSIONS, TREND_METRICS
from compile_hud.runner.analysis.trends.trends import TREND_MODES, range_start
from compile_hud.runner.cli.completion.names import DTYPE, MODEL, SHAPE, TOOLCHAIN
from compile_hud.runner.cli.echo import print_document
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.option_types import LastMoment, NearestChoice, TimeOrDuration
from compile_hud.runner.cli.output import gather_options, json_option, print_json, with_workspace
from compile_hud.runner.cli.results.trend_tables import print_trends
from compile_hud.runner.documents.filtered.trends import (
    TrendFilters,
    load_trends,
    trends_document,
)
from compile_hud.runner.workspace import Workspace

_DEFAULT_RANGE = timedelta(days=90)
# torch.compile is younger.
_LONGEST_RANGE = timedelta(days=9999)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendOptions:
    """The range, the trends and the cases; None or empty for those that were left out."""

    since: timedelta | datetime
    until: timedelta | datetime | None
    metrics: tuple[str, ...]
    modes: tuple[str, ...]
    by: str | None
    machine: str | None
    toolchain: str | None
    model: str | None
    family: str | None
    phase: str | None
    shape: str | None
    dtype: str | None
    device: str | None


TREND_OPTIONS = (
    click.option(
        "--since",
        metavar="RANGE",
        type=TimeOrDuration(),
        default=_DEFAULT_RANGE,
        help=f"The range, such as 30d or 12w, or its first date. Default: {_DEFAULT_RANGE.days}d.",
    ),
    click.option(
        "--until",
        metavar="TIME",
        type=LastMoment(),
        help="The end of the range: its last date, a time, or a duration before now. Default: now.",
    ),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        type=NearestChoice(TREND_METRICS),
        help="Metrics. Default: all that were measured.",
    ),
    click.option(
        "--mode",
        "modes",
        multiple=True,
        type=NearestChoice(TREND_MODES),
        help="Modes. A cohort stays common to all modes.",
    ),
    click.option(
        "--by", type=NearestChoice(DIMENSIONS), help="A trend for each value of a dimension."
    ),
    click.option("--machine", metavar="M", help="Default: that of the newest run."),
    click.option(
        "--toolchain",
        type=TOOLCHAIN,
        metavar="T",
        help="Default: that of the newest result on the machine.",
    ),
    click.option("--model", type=MODEL, metavar="GLOB", help="Models, as a glob."),
    click.option("--family", metavar="GLOB", help="Families, as a glob."),
    click.option("--phase", type=NearestChoice([str(phase) for phase in Phase])),
    click.option("--shape", type=SHAPE, metavar="GLOB", help="Shapes, as a glob."),
    click.option("--dtype", type=DTYPE, metavar="GLOB", help="Number formats, as a glob."),
    click.option("--device", metavar="GLOB", help="Devices, as a glob."),
)


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud trends --since 30d",
        "hud trends --metric speedup --by model --model 'b*'",
        "hud trends --since 2026-01-01 --csv",
    ),
)
@gather_options(TrendOptions, name="options", options=TREND_OPTIONS)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, a row for each point.")
@with_workspace
def trends(workspace: Workspace, *, options: TrendOptions, as_json: bool, as_csv: bool) -> None:
    """Show each mode over time: speedup, compile time, memory.

    Pass rate and energy are shown as well. A value is a geometric mean over the models of a phase
    that have a number in every mode. A model that comes or goes changes no trend. The trends are
    those of the page Trends.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    now = workspace.dependencies.now()
    filters = filters_of(options, now=now)
    shown = load_trends(workspace.store(), filters)
    if as_json:
        print_json(trends_document(shown, filters))
    elif as_csv:
        print_document(trends_csv(shown.trends))
    else:
        print_trends(shown)


def filters_of(options: TrendOptions, *, now: datetime) -> TrendFilters:
    """Return the filters with the range until `now`; raise BadParameter for an empty range."""
    values = {item.name: getattr(options, item.name) for item in fields(options)}
    since = _since_of(options, now=now)
    values |= {"since": since, "until": _until_of(options, since=since, now=now)}
    return TrendFilters(**values)


def _since_of(options: TrendOptions, *, now: datetime) -> datetime:
    """Return the first moment of the range; of whole days, the beginning of the first one."""
    since = options.since
    if isinstance(since, datetime):
        return since
    if not timedelta() < since <= _LONGEST_RANGE:
        raise click.BadParameter(
            f"a range has 1 hour to {_LONGEST_RANGE.days:,} days", param_hint="'--since'"
        )
    if since % timedelta(days=1):
        return now - since
    return range_start(now, num_days=since.days)


def _until_of(options: TrendOptions, *, since: datetime, now: datetime) -> datetime | None:
    """Return the last moment of the range, None for now; raise BadParameter for an empty range."""
    if options.until is None:
        return None
    try:
        end = options.until if isinstance(options.until, datetime) else now - options.until
    except OverflowError:
        end = datetime.min.replace(tzinfo=now.tzinfo)
    if end < since:
        raise click.BadParameter(
            f"{end:%Y-%m-%d %H:%M} is before the range begins; give an earlier --since",
            param_hint="'--until'",
        )
    return end

"""hud bisect: find the revision since which a case is slower, or faster."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from compile_hud.runner.analysis.comparison.bisection import verdict_of
from compile_hud.runner.analysis.confirmation.confirmation import change_pct
from compile_hud.runner.bisect.record import (
    BisectEnding,
    Bisection,
)
from compile_hud.runner.bisect.report import conclusion, error_bound, next_commands, repro
from compile_hud.runner.bisect.search import METRICS_OF_SEARCH, BisectDependencies
from compile_hud.runner.bisect.search import bisect as search
from compile_hud.runner.cli.alerts.selection import find_alert
from compile_hud.runner.cli.bisect.alert_search import (
    begin_alert,
    bisect_folder,
    bisecting_alone,
    save_search,
)
from compile_hud.runner.cli.bisect.options import (
    REVISION_OPTIONS,
    LimitOptions,
    check_resumed,
    is_typed,
    limit_options,
    resume_option,
)
from compile_hud.runner.cli.bisect.setup import BisectOptions, begin, open_revisions
from compile_hud.runner.cli.bisect.stored import find_search
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.help.next_steps import print_next
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.options import CaseOptions, case_options
from compile_hud.runner.cli.output import gather_options, json_option, print_json, with_workspace
from compile_hud.runner.cli.tables import stderr
from compile_hud.runner.events import Event, LogMessage, PairLaunched
from compile_hud.runner.files.stored_searches import write_search
from compile_hud.runner.reporting.terminal_progress import TerminalProgress
from compile_hud.runner.workspace import Workspace

DEFAULT_MAX_LAUNCHES = 80
DEFAULT_STEP_MINUTES = 15.0
_LIMIT_OPTIONS = limit_options(
    "step",
    floor_help="The smallest difference of the ends to search.",
    max_launches=DEFAULT_MAX_LAUNCHES,
    step_minutes=DEFAULT_STEP_MINUTES,
)


@click.command(
    cls=ExampleCommand,
    exit_codes={
        1: "No single revision is named.",
    },
    examples=(
        "hud bisect --torch 2.10.0 2.11.0 2.12.0 --model bert --mode default",
        "hud bisect --repo . --good v1.2 --bad main --model ranker --mode default",
        "hud bisect --resume",
    ),
)
@click.argument("more", nargs=-1, metavar="[REVISION]...")
@gather_options(BisectOptions, name="options", options=REVISION_OPTIONS)
@case_options
@click.option(
    "--metric", type=NearestChoice(METRICS_OF_SEARCH), metavar="M", help="Default: the main time."
)
@gather_options(LimitOptions, name="limits", options=_LIMIT_OPTIONS)
@click.option(
    "--alert",
    "alert_id",
    metavar="ID",
    help="Search the revision behind this alert, and store the result in it.",
)
@resume_option(Bisection.NOUN)
@json_option
@with_workspace
def bisect(
    workspace: Workspace,
    *,
    more: tuple[str, ...],
    options: BisectOptions,
    cases: CaseOptions,
    metric: str | None,
    limits: LimitOptions,
    alert_id: str | None,
    resume_id: str | None,
    as_json: bool,
) -> None:
    """Find the first bad toolchain, torch version or commit.

    Each REVISION follows the one of --torch or --toolchain; the first is good, the last one bad.
    Commits are those from --good to --bad in --repo, the repository of a model. --alert has its
    own revisions: those of what moved.
    """
    is_named = bool(more or options.has_any() or cases.option_names())
    with bisecting_alone(workspace):
        if resume_id is not None:
            check_resumed()
            known = find_search(Bisection, resume_id, folder=bisect_folder(workspace))
        elif alert_id is not None:
            if is_named or metric is not None:
                raise click.UsageError("--alert has its own case, metric and revisions")
            known = _of_alert(alert_id, limits=limits, workspace=workspace)
        else:
            known = begin(
                options.with_more(more),
                cases=cases,
                metric=metric,
                limits=limits.limits,
                workspace=workspace,
            )
        if not known.is_complete:
            known = _search(known, workspace=workspace)
            save_search(known, workspace=workspace)
    if as_json:
        print_json(_to_json(known))
    else:
        for line in conclusion(known):
            echo(line)
        print_next(next_commands(known))
    sys.exit(int(known.ending is not BisectEnding.FOUND))


def _of_alert(alert_id: str, *, limits: LimitOptions, workspace: Workspace) -> Bisection:
    """Return the search for the revision behind an alert, with the limits that were typed."""
    known = begin_alert(find_alert(workspace.store(), alert_id), workspace=workspace)
    typed = limits.limits
    floor = typed.floor if is_typed("floor") else known.limits.floor
    settings = replace(known.settings, timeout_s=max(known.settings.timeout_s, typed.step_s))
    return replace(known, limits=replace(typed, floor=floor), settings=settings)


def _search(known: Bisection, *, workspace: Workspace) -> Bisection:
    folder = bisect_folder(workspace)
    with BisectProgress(stderr(), now=workspace.dependencies.now) as progress:
        dependencies = BisectDependencies(
            keep=lambda item: write_search(item, folder=folder),
            lock_dir=workspace.lock_dir(),
            now=workspace.dependencies.now,
            notify=progress,
        )
        revisions = open_revisions(known, workspace=workspace, folder=folder, notify=progress)
        return search(known, revisions=revisions, dependencies=dependencies)


def _to_json(known: Bisection) -> dict[str, Any]:
    ends, evidence, suspects = known.ends, known.evidence, known.suspects
    assert ends is not None
    is_searched = known.ending not in (BisectEnding.SAME_ENDS, BisectEnding.UNCLEAR_ENDS)
    shown = evidence if is_searched and evidence is not None else ends
    indices = range(suspects.last_good + 1, suspects.first_bad + 1) if is_searched else ()
    last_good, first_bad = (
        dataclasses.asdict(known.revisions[index])
        for index in (suspects.last_good, suspects.first_bad)
    )
    return {
        **known.to_json(),
        "ending": str(known.ending),
        "verdict": str(verdict_of(ends)) if is_searched else None,
        "change_pct": change_pct(shown.ratio),
        "interval_pct": [change_pct(shown.low), change_pct(shown.high)],
        "num_pairs": shown.num_pairs,
        "first_bad": first_bad if known.ending is BisectEnding.FOUND else None,
        "last_good": last_good if is_searched else None,
        "suspects": [known.revisions[index].name for index in indices],
        "error_bound": error_bound(known),
        "repro": repro(known) if is_searched else None,
    }


class BisectProgress:
    """Print lines about events and, on a terminal, the number of launch pairs of a step."""

    def __init__(self, console: Console, *, now: Callable[[], datetime]) -> None:
        self._lines = TerminalProgress(console, now=now)
        self._is_terminal = console.is_terminal
        # The display changes on events only: a refreshing thread would run during the measurement.
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> BisectProgress:
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show `event`."""
        if isinstance(event, PairLaunched) and self._is_terminal:
            pairs = "pair" if event.num_pairs == 1 else "pairs"
            self._live.start()
            line = Text(f"  {event.num_pairs} {pairs} of launches")
            self._live.update(line, refresh=True)
        if isinstance(event, LogMessage):
            self._live.stop()
            self._lines(event)

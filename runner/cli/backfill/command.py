"""hud backfill: measure the history of a case where its curve is uncertain."""

from __future__ import annotations

import math
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import click

from compile_hud.db.errors import StoreError
from compile_hud.db.shared.text import counted
from compile_hud.runner.alerting.notifier import make_planner
from compile_hud.runner.backfill.record import Backfill, BackfillLimits
from compile_hud.runner.backfill.report import (
    backfill_json,
    closing_lines,
    is_known,
    level_rows,
    step_lines,
)
from compile_hud.runner.backfill.session import BackfillDependencies, measure_history
from compile_hud.runner.bisect.commit_comparison import pair_settings
from compile_hud.runner.bisect.record import Bisection, Limits, RevisionAxis
from compile_hud.runner.bisect.report import revision_text
from compile_hud.runner.cli.bisect.command import BisectProgress
from compile_hud.runner.cli.bisect.options import (
    REVISION_OPTIONS,
    LimitOptions,
    check_resumed,
    limit_options,
    resume_option,
)
from compile_hud.runner.cli.bisect.setup import (
    BisectOptions,
    check_model,
    check_toolchains,
    find_revisions,
    open_revisions,
    plan_cases,
)
from compile_hud.runner.cli.bisect.stored import alone_in, find_search
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.option_types import Duration
from compile_hud.runner.cli.options import CaseOptions, case_options
from compile_hud.runner.cli.output import gather_options, json_option, print_json, with_workspace
from compile_hud.runner.cli.run.after_run import unless_stopped
from compile_hud.runner.cli.tables import Column, print_table, stderr
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.detection.detect import detect
from compile_hud.runner.errors import JudgeProcessKilled
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import MIN_PAIRS
from compile_hud.runner.files.stored_searches import write_search
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.persistence.store_check import check_takes_runs
from compile_hud.runner.planning.plan import plan_case
from compile_hud.runner.scheduling.timetable import timetable_of
from compile_hud.runner.workspace import Workspace

DEFAULT_MAX_LAUNCHES = 40
DEFAULT_STEP_MINUTES = 15.0
DEFAULT_LEAST = 5
_LIMIT_OPTIONS = (
    *limit_options(
        "case",
        floor_help="Segments that change by less are flat.",
        max_launches=DEFAULT_MAX_LAUNCHES,
        step_minutes=DEFAULT_STEP_MINUTES,
    ),
    click.option(
        "--least",
        type=click.IntRange(min=2),
        default=DEFAULT_LEAST,
        show_default=True,
        metavar="N",
        help="Revisions to measure at least, even if the ends are the same.",
    ),
    click.option(
        "--no-fill",
        "fills",
        is_flag=True,
        flag_value=False,
        default=True,
        help="Measure no more points of known levels, which detection needs.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BackfillOptions(LimitOptions):
    """The limits of a backfill in the form of the options."""

    least: int
    fills: bool


@click.command(
    cls=ExampleCommand,
    exit_codes={1: "A change is not decided."},
    examples=(
        "hud backfill --torch 2.9.0..2.13.0 --model bert --mode default --budget 2h",
        "hud backfill --repo . --good v1.0 --bad main --model ranker",
        "hud backfill --resume",
    ),
)
@click.argument("more", nargs=-1, metavar="[REVISION]...")
@gather_options(BisectOptions, name="options", options=REVISION_OPTIONS)
@case_options
@gather_options(_BackfillOptions, name="limits", options=_LIMIT_OPTIONS)
@click.option(
    "--budget",
    type=Duration(),
    metavar="TIME",
    help="Measure for so long, such as 30m or 2h. Default: until every segment is known.",
)
@resume_option(Backfill.NOUN)
@click.option("--dry-run", is_flag=True, help="List the revisions and the number to measure.")
@json_option
@with_workspace
def backfill(
    workspace: Workspace,
    *,
    more: tuple[str, ...],
    options: BisectOptions,
    cases: CaseOptions,
    limits: _BackfillOptions,
    budget: timedelta | None,
    resume_id: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Measure a history of toolchains, torch versions or commits.

    Each REVISION follows the one of --torch or --toolchain, the oldest first; commits are those
    from --good to --bad in --repo. It measures where the curve is uncertain, and stores the points.
    """
    with alone_in(_folder(workspace), f"backfilling in {workspace.config.state_dir}"):
        if resume_id is not None:
            check_resumed(allowed=("--budget", "--dry-run"))
            known = find_search(Backfill, resume_id, folder=_folder(workspace))
        else:
            known = _begin(options.with_more(more), cases=cases, limits=limits, workspace=workspace)
        if dry_run:
            _print_plan(known, as_json=as_json)
            return
        if not known.is_complete:
            known = _measure(known, budget=budget, workspace=workspace)
    if as_json:
        print_json(backfill_json(known))
    else:
        _print(known)
    sys.exit(int(not is_known(known)))


def _folder(workspace: Workspace) -> Path:
    return workspace.config.state_dir / "backfill"


def _begin(
    options: BisectOptions, *, cases: CaseOptions, limits: _BackfillOptions, workspace: Workspace
) -> Backfill:
    """Return a backfill of which nothing is measured.

    Raises UsageError, UnknownNameError and BisectError where there is nothing to measure.
    """
    axis = options.axis
    toolchain = options.toolchains[0] if options.toolchains else CURRENT_TOOLCHAIN
    check_toolchains(options.toolchains, workspace=workspace)
    plan, settings = plan_cases(cases, toolchain=toolchain, workspace=workspace)
    origin, revisions = find_revisions(options, axis=axis, planned=plan[0])
    if axis is RevisionAxis.COMMIT:
        for planned in plan[1:]:
            check_model(planned, root=Path(origin["repository"]))
    step_s = 60 * limits.step_minutes
    return Backfill(
        id=uuid.uuid4().hex[:12],
        started_at=workspace.dependencies.now(),
        axis=axis,
        origin=origin,
        revisions=revisions,
        cases=tuple(planned.case for planned in plan),
        toolchain=toolchain,
        settings=pair_settings(settings, case_s=step_s),
        limits=BackfillLimits(
            floor=limits.floor,
            max_launches=limits.max_launches,
            step_s=step_s,
            least=min(limits.least, len(revisions)),
            fills=limits.fills,
        ),
        anchor_s={},
    )


def _measure(known: Backfill, *, budget: timedelta | None, workspace: Workspace) -> Backfill:
    folder, dependencies = _folder(workspace), workspace.dependencies
    check_takes_runs(workspace.store())
    with BisectProgress(stderr(), now=dependencies.now) as progress:
        revisions = open_revisions(
            _as_bisection(known), workspace=workspace, folder=folder, notify=progress
        )
        writer = ResultWriter(
            workspace.store(), spool=workspace.spool(), notify=progress, now=dependencies.now
        )
        known = measure_history(
            known,
            orders=_orders(known, workspace=workspace),
            revisions=revisions,
            budget=budget,
            dependencies=BackfillDependencies(
                keep=lambda item: write_search(item, folder=folder),
                points=writer,
                lock_dir=workspace.lock_dir(),
                machine=workspace.config.machine,
                now=dependencies.now,
                notify=progress,
            ),
        )
        _judge(workspace, notify=progress)
    return known


def _judge(workspace: Workspace, *, notify: Notify) -> None:
    """Judge the history with the new points; a store that refuses is judged later."""
    try:
        with unless_stopped() as check:
            report = detect(
                workspace.store(),
                timetable=timetable_of(workspace),
                planner=make_planner(workspace),
                check=check,
            )
    except (StoreError, JudgeProcessKilled) as error:
        text = f"not judged: {error}. `hud detect` does it later"
        notify(LogMessage(text=text, is_warning=True))
        return
    notify(LogMessage(text=f"{counted(len(report.new), 'new alert')} by the stored points"))


def _orders(known: Backfill, *, workspace: Workspace) -> Sequence[CaseOrder]:
    config = workspace.config
    return [
        CaseOrder(
            run_id=known.id,
            case=case,
            workload=plan_case(case, catalog=config.catalog, variants=config.variants).workload,
            settings=known.settings,
        )
        for case in known.cases
    ]


def _as_bisection(known: Backfill) -> Bisection:
    """Return the search over the same revisions, which opens them in the same way."""
    limits = known.limits
    return Bisection(
        id=known.id,
        started_at=known.started_at,
        axis=known.axis,
        origin=known.origin,
        revisions=known.revisions,
        case=known.cases[0],
        toolchain=known.toolchain,
        settings=known.settings,
        metric=None,
        limits=Limits(floor=limits.floor, max_launches=limits.max_launches, step_s=limits.step_s),
    )


def _print_plan(known: Backfill, *, as_json: bool) -> None:
    """Print the revisions, and the number of them that are measured at least and at most."""
    limits, num_revisions = known.limits, len(known.revisions)
    for_a_step = math.ceil(math.log2(max(1, (num_revisions - 1) / (limits.least - 1))))
    num_launches = 2 * MIN_PAIRS, 2 * limits.max_launches
    if as_json:
        print_json(
            {
                **known.to_json(),
                "least_revisions": limits.least,
                "more_for_a_step": for_a_step,
                "launches_of_a_case": list(num_launches),
            }
        )
        return
    for revision in known.revisions:
        echo(revision_text(revision))
    echo(
        f"{counted(num_revisions, 'revision')}, {counted(len(known.cases), 'case')}: at least"
        f" {limits.least} are measured, and about {for_a_step} more for each step. A case takes"
        f" {num_launches[0]} to {counted(num_launches[1], 'launch')} at a revision, and"
        f" {limits.step_s / 60:g} min at most"
    )


def _print(known: Backfill) -> None:
    columns = [
        Column(name="revision"),
        Column(name="change", is_number=True),
        Column(name="95 % interval"),
        Column(name="pairs", is_number=True),
    ]
    for case in known.cases:
        for line in step_lines(known, case.key):
            echo(line)
        print_table(columns, rows=level_rows(known, case.key))
    for line in closing_lines(known):
        echo(line)
    if not known.is_complete:
        what = (
            "every level had enough points for detection"
            if is_known(known)
            else ("every segment was known")
        )
        echo(f"the budget ended before {what}: --resume continues", err=True)

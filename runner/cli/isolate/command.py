"""hud isolate: find the package or setting of a toolchain that made a case slower or faster."""

from __future__ import annotations

import shutil
import sys
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import click

from compile_hud.runner.bisect.commit_comparison import pair_settings
from compile_hud.runner.bisect.search import METRICS_OF_SEARCH
from compile_hud.runner.cli.bisect.command import BisectProgress
from compile_hud.runner.cli.bisect.options import (
    LimitOptions,
    check_resumed,
    is_typed,
    limit_options,
    resume_option,
)
from compile_hud.runner.cli.bisect.setup import (
    case_executor,
    check_toolchains,
    one_case,
    plan_cases,
)
from compile_hud.runner.cli.bisect.stored import alone_in, find_search
from compile_hud.runner.cli.completion.names import TOOLCHAIN
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.help.next_steps import print_next
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.options import CaseOptions, case_options
from compile_hud.runner.cli.output import gather_options, json_option, print_json, with_workspace
from compile_hud.runner.cli.tables import stderr
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.files.stored_searches import write_search
from compile_hud.runner.isolate.isolation import (
    IsolateDependencies,
    IsolateRequest,
    Isolation,
)
from compile_hud.runner.isolate.isolation import (
    isolate as find_causes,
)
from compile_hud.runner.isolate.record import IsolateLimits, StoredIsolation
from compile_hud.runner.isolate.report import answer_lines, as_mapping, is_answered, next_commands
from compile_hud.runner.planning.plan import plan_case
from compile_hud.runner.workspace import Workspace

DEFAULT_MAX_TOOLCHAINS = 12
DEFAULT_MAX_LAUNCHES = 40
DEFAULT_STEP_MINUTES = 10.0
_OPTIONS = (
    *limit_options(
        "environment",
        floor_help="The smallest change to search.",
        max_launches=DEFAULT_MAX_LAUNCHES,
        step_minutes=DEFAULT_STEP_MINUTES,
    ),
    click.option(
        "--max-toolchains",
        type=click.IntRange(min=3),
        default=DEFAULT_MAX_TOOLCHAINS,
        show_default=True,
        metavar="N",
        help="Environments to measure at most, both toolchains included.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _IsolateOptions(LimitOptions):
    """The limits of the search in the form of the options."""

    max_toolchains: int

    @property
    def isolate_limits(self) -> IsolateLimits:
        """Return the limits as those of an isolation."""
        return IsolateLimits(
            floor=self.floor,
            max_toolchains=self.max_toolchains,
            max_launches=self.max_launches,
            step_s=60 * self.step_minutes,
        )


@click.command(
    cls=ExampleCommand,
    exit_codes={
        1: "The named differences do not explain the change.",
    },
    examples=(
        "hud isolate stable next --model bert --mode default",
        "hud isolate --resume",
    ),
)
@click.argument("baseline", type=TOOLCHAIN, required=False)
@click.argument("candidate", type=TOOLCHAIN, required=False)
@case_options
@click.option(
    "--metric", type=NearestChoice(METRICS_OF_SEARCH), metavar="M", help="Default: the main time."
)
@gather_options(_IsolateOptions, name="limits", options=_OPTIONS)
@resume_option(StoredIsolation.NOUN)
@json_option
@with_workspace
def isolate(
    workspace: Workspace,
    *,
    baseline: str | None,
    candidate: str | None,
    cases: CaseOptions,
    metric: str | None,
    limits: _IsolateOptions,
    resume_id: str | None,
    as_json: bool,
) -> None:
    """Find the packages and variables that change a case.

    It measures environments that have some packages of toolchain BASELINE and the others of
    CANDIDATE, in turn with BASELINE.
    """
    folder = workspace.config.state_dir / "isolate"
    with alone_in(folder, f"isolating in {workspace.config.state_dir}"):
        if resume_id is not None:
            check_resumed(allowed=("--max-toolchains", "--max-launches", "--step-minutes"))
            known = find_search(StoredIsolation, resume_id, folder=folder)
            known = _with_typed(limits, known=known)
        elif baseline is None or candidate is None:
            raise click.UsageError("name two toolchains: hud isolate BASELINE CANDIDATE")
        elif baseline == candidate:
            raise click.UsageError(f"both toolchains are {baseline}: name two")
        else:
            known = _begin(
                (baseline, candidate),
                cases=cases,
                metric=metric,
                limits=limits,
                workspace=workspace,
            )
        isolation = _isolate(known, workspace=workspace, folder=folder)
    if as_json:
        print_json(as_mapping(isolation))
    else:
        for line in answer_lines(isolation):
            echo(line)
        print_next(next_commands(isolation))
    sys.exit(int(not is_answered(isolation)))


def _begin(
    names: tuple[str, str],
    *,
    cases: CaseOptions,
    metric: str | None,
    limits: _IsolateOptions,
    workspace: Workspace,
) -> StoredIsolation:
    """Return an isolation of which nothing is measured.

    Raises UnknownNameError and BisectError where there is nothing to isolate.
    """
    check_toolchains(names, workspace=workspace)
    baseline, candidate = names
    plan, settings = plan_cases(cases, toolchain=baseline, workspace=workspace)
    planned = one_case(plan)
    settings = pair_settings(settings, case_s=limits.isolate_limits.step_s)
    return StoredIsolation(
        id=uuid.uuid4().hex[:12],
        started_at=workspace.dependencies.now(),
        baseline=baseline,
        candidate=candidate,
        case=planned.case,
        settings=replace(settings, kernels=False),
        metric=metric,
        limits=limits.isolate_limits,
    )


def _with_typed(limits: _IsolateOptions, *, known: StoredIsolation) -> StoredIsolation:
    """Return a stored isolation with the limits that were typed now."""
    typed = limits.isolate_limits
    fields = {
        "max_toolchains": "max_toolchains",
        "max_launches": "max_launches",
        "step_minutes": "step_s",
    }
    given = {field: getattr(typed, field) for name, field in fields.items() if is_typed(name)}
    if not given:
        return known
    settings = pair_settings(known.settings, case_s=given.get("step_s", known.limits.step_s))
    return replace(known.with_limits(replace(known.limits, **given)), settings=settings)


def _isolate(known: StoredIsolation, *, workspace: Workspace, folder: Path) -> Isolation:
    config = workspace.config
    check_toolchains((known.baseline, known.candidate), workspace=workspace)
    planned = plan_case(known.case, catalog=config.catalog, variants=config.variants)
    order = CaseOrder(
        run_id=known.id, case=known.case, workload=planned.workload, settings=known.settings
    )
    with BisectProgress(stderr(), now=workspace.dependencies.now) as progress:
        try:
            return find_causes(
                IsolateRequest(
                    known=known,
                    order=order,
                    before=config.toolchains[known.baseline],
                    after=config.toolchains[known.candidate],
                ),
                dependencies=IsolateDependencies(
                    keep=lambda item: write_search(item, folder=folder),
                    make_executor=lambda python: case_executor(python, order, workspace=workspace),
                    folder=folder,
                    lock_dir=workspace.lock_dir(),
                    now=workspace.dependencies.now,
                    notify=progress,
                ),
            )
        finally:
            for mixture in folder.glob("mixture-*"):
                shutil.rmtree(mixture, ignore_errors=True)

"""hud isolate: find the package or setting of a toolchain that made a case slower or faster."""

from __future__ import annotations

import shutil
import sys
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import click

from compile_hud.runner.analysis.repro import case_options as options_of
from compile_hud.runner.analysis.repro import glob_escape, isolate_command
from compile_hud.runner.bisect.commit_comparison import pair_settings
from compile_hud.runner.bisect.search import METRICS_OF_SEARCH
from compile_hud.runner.cli.bisect.command import BisectProgress
from compile_hud.runner.cli.bisect.options import LimitOptions, limit_options
from compile_hud.runner.cli.bisect.setup import case_executor, one_case, plan_cases
from compile_hud.runner.cli.bisect.stored import alone_in
from compile_hud.runner.cli.completion.names import TOOLCHAIN
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.help.next_steps import print_next
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.options import CaseOptions, case_options
from compile_hud.runner.cli.output import gather_options, json_option, print_json, with_workspace
from compile_hud.runner.cli.tables import stderr
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.isolate.isolation import (
    IsolateDependencies,
    IsolateRequest,
    as_mapping,
)
from compile_hud.runner.isolate.isolation import (
    isolate as find_causes,
)
from compile_hud.runner.isolate.report import answer_lines, has_more_to_find, is_answered
from compile_hud.runner.planning.plan import find_names
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


@click.command(
    cls=ExampleCommand,
    exit_codes={
        1: "The named differences do not explain the change.",
    },
    examples=("hud isolate stable next --model bert --mode default",),
)
@click.argument("baseline", type=TOOLCHAIN)
@click.argument("candidate", type=TOOLCHAIN)
@case_options
@click.option(
    "--metric", type=NearestChoice(METRICS_OF_SEARCH), metavar="M", help="Default: the main time."
)
@gather_options(_IsolateOptions, name="limits", options=_OPTIONS)
@json_option
@with_workspace
def isolate(
    workspace: Workspace,
    *,
    baseline: str,
    candidate: str,
    cases: CaseOptions,
    metric: str | None,
    limits: _IsolateOptions,
    as_json: bool,
) -> None:
    """Find the packages and variables that change a case.

    It measures environments that have some packages of toolchain BASELINE and the others of
    CANDIDATE, in turn with BASELINE.
    """
    config = workspace.config
    names = [glob_escape(name) for name in (baseline, candidate)]
    find_names(names, known=config.toolchains, kind="toolchain")
    request = _request(
        (config.toolchains[baseline], config.toolchains[candidate]),
        toolchain=baseline,
        cases=cases,
        metric=metric,
        limits=limits,
        workspace=workspace,
    )
    folder = config.state_dir / "isolate"
    with (
        alone_in(folder, f"isolating in {config.state_dir}"),
        BisectProgress(stderr(), now=workspace.dependencies.now) as progress,
    ):
        try:
            isolation = find_causes(
                request,
                dependencies=IsolateDependencies(
                    make_executor=lambda python: case_executor(
                        python, request.order, workspace=workspace
                    ),
                    folder=folder,
                    lock_dir=workspace.lock_dir(),
                    now=workspace.dependencies.now,
                    notify=progress,
                ),
            )
        finally:
            for mixture in folder.glob("mixture-*"):
                shutil.rmtree(mixture, ignore_errors=True)
    if as_json:
        print_json({"baseline": baseline, "candidate": candidate, **as_mapping(isolation)})
    else:
        for line in answer_lines(isolation, before=baseline, after=candidate):
            echo(line)
        if has_more_to_find(isolation):
            print_next([_longer(request, names=(baseline, candidate), limits=limits)])
    sys.exit(int(not is_answered(isolation)))


def _longer(request: IsolateRequest, *, names: tuple[str, str], limits: _IsolateOptions) -> str:
    """Return the command that measures the same with twice the time."""
    options = [
        *options_of(request.case),
        *([] if request.metric is None else [("metric", request.metric)]),
        ("max-launches", str(2 * limits.max_launches)),
        ("step-minutes", f"{2 * limits.step_minutes:g}"),
    ]
    return isolate_command(*names, options)


def _request(
    pythons: tuple[Path, Path],
    *,
    toolchain: str,
    cases: CaseOptions,
    metric: str | None,
    limits: _IsolateOptions,
    workspace: Workspace,
) -> IsolateRequest:
    plan, settings = plan_cases(cases, toolchain=toolchain, workspace=workspace)
    planned = one_case(plan)
    step_s = 60 * limits.step_minutes
    settings = pair_settings(settings, case_s=step_s)
    before, after = pythons
    return IsolateRequest(
        order=CaseOrder(
            run_id=uuid.uuid4().hex[:12],
            case=planned.case,
            workload=planned.workload,
            settings=replace(settings, kernels=False),
        ),
        before=before,
        after=after,
        metric=metric,
        floor=limits.floor,
        max_toolchains=limits.max_toolchains,
        max_launches=limits.max_launches,
        step_s=step_s,
    )

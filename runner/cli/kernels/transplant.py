"""hud kernels transplant: measure what a slower build gains with the kernels of the faster one."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass

import click

from compile_hud.runner.cli.alerts.selection import find_alert
from compile_hud.runner.cli.bisect.command import BisectProgress
from compile_hud.runner.cli.bisect.options import (
    REVISION_OPTIONS,
    LimitOptions,
    limit_options,
)
from compile_hud.runner.cli.bisect.setup import BisectOptions
from compile_hud.runner.cli.bisect.stored import alone_in
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.kernels.transplant_sides import (
    Builds,
    named_builds,
    runs_of_alert,
    stored_builds,
)
from compile_hud.runner.cli.options import CaseOptions, case_options
from compile_hud.runner.cli.output import gather_options, json_option, print_json, with_workspace
from compile_hud.runner.cli.tables import stderr
from compile_hud.runner.transplant.experiment import (
    Transplantation,
    TransplantDependencies,
    TransplantRequest,
    as_mapping,
)
from compile_hud.runner.transplant.experiment import transplant as measure_transplants
from compile_hud.runner.transplant.report import answer_lines, is_answered, sentence
from compile_hud.runner.workspace import Workspace

DEFAULT_MAX_KERNELS = 4
DEFAULT_MAX_LAUNCHES = 24
DEFAULT_STEP_MINUTES = 15.0
_OPTIONS = (
    *limit_options(
        "experiment",
        floor_help="The smallest loss to look at.",
        max_launches=DEFAULT_MAX_LAUNCHES,
        step_minutes=DEFAULT_STEP_MINUTES,
    ),
    click.option(
        "--max-kernels",
        type=click.IntRange(min=1),
        default=DEFAULT_MAX_KERNELS,
        show_default=True,
        metavar="N",
        help="Kernels to transplant at most, the longest ones.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TransplantOptions(LimitOptions):
    """The limits of the experiment in the form of the options."""

    max_kernels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredOptions:
    """The stored runs of both builds, as they were typed."""

    run_a: str | None
    run_b: str | None
    case_name: str | None


_STORED = gather_options(
    _StoredOptions,
    name="stored",
    options=(
        click.option("--run-a", metavar="RUN", help="The run of the good build."),
        click.option("--run-b", metavar="RUN", help="The run of the bad build."),
        click.option("--case", "case_name", metavar="CASE", help="The case of both runs."),
    ),
)


@click.command(
    "transplant",
    cls=ExampleCommand,
    examples=(
        "hud kernels transplant 1f0c",
        "hud kernels transplant --toolchain stable next --model bert --mode default",
    ),
    exit_codes={
        1: "The transplanted kernels do not explain the loss.",
    },
)
@click.argument("names", nargs=-1, metavar="[ALERT]")
@_STORED
@gather_options(BisectOptions, name="revisions", options=REVISION_OPTIONS)
@case_options
@gather_options(_TransplantOptions, name="limits", options=_OPTIONS)
@json_option
@with_workspace
def transplant_command(
    workspace: Workspace,
    *,
    names: tuple[str, ...],
    stored: _StoredOptions,
    revisions: BisectOptions,
    cases: CaseOptions,
    limits: _TransplantOptions,
    as_json: bool,
) -> None:
    """Measure a slower build with the old kernels.

    Kernels of the good build replace their pairs in the bad one, and the answer is how much of its
    loss is gone. The builds are those of ALERT, of two runs, or as `hud bisect` names two
    revisions. Kernels whose interface changed are refused.
    """
    folder = workspace.config.state_dir / "transplant"
    with (
        alone_in(folder, f"transplanting in {workspace.config.state_dir}"),
        BisectProgress(stderr(), now=workspace.dependencies.now) as progress,
        _builds(names, stored, revisions, cases, limits, workspace, progress) as builds,
    ):
        answer = _measure(builds, limits=limits, workspace=workspace, progress=progress)
    if as_json:
        ends = {"good": builds.good_name, "bad": builds.bad_name, "sentence": sentence(answer)}
        print_json({**ends, **as_mapping(answer)})
    else:
        for line in answer_lines(answer, good=builds.good_name, bad=builds.bad_name):
            echo(line)
    sys.exit(int(not is_answered(answer)))


def _builds(
    names: tuple[str, ...],
    stored: _StoredOptions,
    revisions: BisectOptions,
    cases: CaseOptions,
    limits: _TransplantOptions,
    workspace: Workspace,
    progress: BisectProgress,
) -> AbstractContextManager[Builds]:
    """Return the builds that the options name in one of three ways; raise UsageError."""
    runs = (stored.run_a, stored.run_b, stored.case_name)
    if revisions.has_any():
        if any(runs):
            raise click.UsageError("give either stored runs or revisions")
        return named_builds(
            revisions.with_more(names),
            cases=cases,
            limits=limits.limits,
            workspace=workspace,
            folder=workspace.config.state_dir / "transplant",
            notify=progress,
        )
    if cases.option_names():
        raise click.UsageError(f"{cases.option_names()[0]} goes with revisions alone")
    store, alert = workspace.store(), None
    if len(names) == 1 and not any(runs):
        alert = find_alert(store, names[0])
        ends = runs_of_alert(alert)
    elif not names and all(runs):
        good, bad, case = runs
        ends = (str(good), str(bad), str(case))
    else:
        raise click.UsageError(
            "name an ALERT, or --run-a RUN --run-b RUN --case CASE, or two revisions:"
            " --toolchain A B, --torch A B, --repo PATH --good A --bad B"
        )
    return stored_builds(
        ends,
        alert=alert,
        store=store,
        workspace=workspace,
        case_s=limits.limits.step_s,
        notify=progress,
    )


def _measure(
    builds: Builds, *, limits: _TransplantOptions, workspace: Workspace, progress: BisectProgress
) -> Transplantation:
    return measure_transplants(
        TransplantRequest(
            bad=builds.bad,
            good=builds.good,
            known_code=builds.known_code,
            floor=limits.floor,
            max_kernels=limits.max_kernels,
            max_rounds=limits.max_launches,
            limit_s=limits.limits.step_s,
        ),
        dependencies=TransplantDependencies(
            lock_dir=workspace.lock_dir(),
            now=workspace.dependencies.now,
            notify=progress,
            cancel=builds.cancel,
        ),
    )

"""hud release: may toolchain B replace toolchain A?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import click

from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import RunDocument, RunState
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.release.markdown import (
    change_cells,
    release_markdown,
    repro_line,
)
from compile_hud.runner.analysis.release.report import ReleaseReport, release_report
from compile_hud.runner.analysis.release.runs import (
    MAX_LAUNCHES,
    MIN_LAUNCHES,
    ReleaseRules,
    ReleaseRuns,
)
from compile_hud.runner.analysis.release.sign_off import (
    ReleaseAdvice,
    measured_cases,
    release_standard,
)
from compile_hud.runner.analysis.repro import compare_command
from compile_hud.runner.cli.compare.ci_report import ReportOptions, publish, report_options
from compile_hud.runner.cli.compare.command import FAIL_ON_INCONCLUSIVE, FAIL_ON_REGRESSION
from compile_hud.runner.cli.completion.names import TOOLCHAIN
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.exit_codes import EXIT_INCONCLUSIVE, EXIT_INTERRUPTED
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.help.next_steps import next_line
from compile_hud.runner.cli.option_types import Duration, NearestChoice, Percentage
from compile_hud.runner.cli.options import (
    CaseOptions,
    case_options,
    check_model_files,
    make_run_requests,
)
from compile_hud.runner.cli.output import (
    check_exists,
    gather_options,
    json_option,
    print_json,
    with_workspace,
)
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.cli.toolchain import find_python, make_install_dependencies
from compile_hud.runner.config.load import Config
from compile_hud.runner.documents.pairs.releases import (
    load_release,
    newest_release,
    release_json,
)
from compile_hud.runner.errors import ResumeError
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.planning.plan import find_names, make_plan
from compile_hud.runner.planning.suites import Selection, custom_suite
from compile_hud.runner.release.scripts import write_scripts
from compile_hud.runner.release.sequential import SequentialMeasurement
from compile_hud.runner.run_requests import RunRequest, execute_together
from compile_hud.runner.toolchains.torch_releases import (
    TorchSource,
    TorchToolchains,
    is_version,
)
from compile_hud.runner.workspace import Workspace

SUITE = "nightly"
_OPTIONS = (
    click.option(
        "--budget",
        type=Duration(),
        metavar="TIME",
        help="Measure for so long, such as 12m or 8h. Default: until every case is decided.",
    ),
    click.option(
        "--max-launches",
        type=click.IntRange(min=MIN_LAUNCHES),
        metavar="N",
        help=f"Launches of each side of a case at most. Default: {MAX_LAUNCHES}.",
    ),
    click.option(
        "--fail-above",
        type=Percentage(),
        metavar="PCT",
        help="The smallest relevant change. Default: 5%.",
    ),
    click.option(
        "--fail-on",
        type=NearestChoice([FAIL_ON_REGRESSION, FAIL_ON_INCONCLUSIVE]),
        default=FAIL_ON_REGRESSION,
        show_default=True,
        help="Also exit with 3 if a case is not decided (inconclusive).",
    ),
    click.option(
        "--scripts",
        "scripts_folder",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="FOLDER",
        help="Write a script to FOLDER for each cluster, which needs torch alone.",
    ),
    click.option("--resume", is_flag=True, help="Measure the cases that an earlier call left."),
    click.option("--report", "report_only", is_flag=True, help="Measure nothing: show the newest."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReleaseOptions:
    """The options of the measurement and its verdict."""

    budget: timedelta | None
    max_launches: int | None
    fail_above: float | None
    fail_on: str
    scripts_folder: Path | None
    resume: bool
    report_only: bool

    def measuring_names(self) -> list[str]:
        """Return the options that only a new release takes, as they are typed."""
        names = {"--max-launches": self.max_launches, "--fail-above": self.fail_above}
        return [name for name, value in names.items() if value is not None]


@click.command(
    cls=ExampleCommand,
    exit_codes={
        1: "A case became worse.",
        3: "A case is not decided, with --fail-on inconclusive.",
    },
    examples=(
        "hud release 2.12.0 2.13.0 --budget 8h",
        "hud release stable next --model bert --mode default",
        "hud release stable next --report --markdown release.md",
    ),
)
@click.argument("baseline", type=TOOLCHAIN)
@click.argument("candidate", type=TOOLCHAIN)
@gather_options(_ReleaseOptions, name="options", options=_OPTIONS)
@case_options
@report_options
@json_option
@with_workspace
def release(
    workspace: Workspace,
    *,
    baseline: str,
    candidate: str,
    options: _ReleaseOptions,
    cases: CaseOptions,
    report: ReportOptions,
    as_json: bool,
) -> None:
    """Say whether toolchain CANDIDATE may replace BASELINE.

    Each is a toolchain, or a version of torch, which is built first if need be. Every case of the
    suite is measured under both, with launches in turn, until it is decided. Regressions are shown
    by what they have in common.
    """
    if baseline == candidate:
        raise click.UsageError(f"both sides are {baseline}: name two toolchains")
    _check_usage(options, cases=cases)
    names = (baseline, candidate)
    if options.report_only:
        store = workspace.store()
        check_exists(store)
        before, after = load_release(store, names)
    else:
        before, after = _measure(names, cases=cases, options=options, workspace=workspace)
    measured = release_report(before, after, standard=release_standard(after.run))
    if as_json:
        print_json(release_json(measured))
    else:
        _show(measured)
    publish(release_markdown(measured), options=report, workspace=workspace)
    if options.scripts_folder is not None:
        _write_scripts(measured, folder=options.scripts_folder, workspace=workspace)
    if measured.candidate.state is RunState.INTERRUPTED:
        echo(_next_line(measured, names=names), err=True)
        if options.budget is None and not options.report_only:
            sys.exit(EXIT_INTERRUPTED)
    sys.exit(_exit_code(measured, fail_on=options.fail_on))


def _check_usage(options: _ReleaseOptions, *, cases: CaseOptions) -> None:
    """Raise UsageError for options that an earlier release has answered already."""
    new = [*cases.option_names(), *options.measuring_names()]
    if options.resume and new:
        raise click.UsageError(f"--resume goes on with the same cases: leave out {', '.join(new)}")
    if options.report_only:
        new += ["--resume"] * options.resume + ["--budget"] * (options.budget is not None)
        if new:
            raise click.UsageError(f"--report measures nothing: leave out {', '.join(new)}")


def _write_scripts(report: ReleaseReport, *, folder: Path, workspace: Workspace) -> None:
    """Write the script of each cluster under the candidate; a missing one is only reported."""
    progress = new_progress(workspace)
    workspace = _with_toolchains([report.candidate.toolchain], workspace=workspace, notify=progress)
    with progress:
        for line in write_scripts(report, folder=folder, workspace=workspace):
            progress(line)


def _with_toolchains(names: Sequence[str], *, workspace: Workspace, notify: Notify) -> Workspace:
    """Return the workspace with a toolchain for each of `names`, built if it is a version.

    Raises UnknownNameError for any other unknown name.
    """
    config = workspace.config
    known = dict(config.toolchains)
    versions = [name for name in names if name not in known and is_version(name)]
    find_names([name for name in names if name not in versions], known=known, kind="toolchain")
    if versions:
        builder = TorchToolchains(
            TorchSource(python=find_python(None), index_url="", is_nightly=False),
            state_dir=config.state_dir,
            dependencies=make_install_dependencies(workspace, notify=notify),
        )
        known |= {name: builder.find_python(name) for name in versions}
    return replace(workspace, config=replace(config, toolchains=known))


def _requests(
    names: tuple[str, str], *, cases: CaseOptions, rules: ReleaseRules, workspace: Workspace
) -> list[RunRequest]:
    """Return the requests of a new release."""
    if cases.option_names() in ([], ["--device"]):
        cases = replace(cases, suite=SUITE)
    requests = [
        replace(request, trigger=rules.trigger)
        for request in make_run_requests(
            cases, toolchains=names, workspace=workspace, has_references=False
        )
    ]
    check_model_files(requests, config=workspace.config)
    return requests


def _resumed(
    names: tuple[str, str], *, workspace: Workspace
) -> tuple[ReleaseRuns, list[RunRequest]]:
    """Return the release that was interrupted, and the requests that continue it.

    Raises ResumeError where there is none.
    """
    runs = newest_release(workspace.store(), names)
    here = workspace.config.machine
    if runs is None or runs.candidate.machine != here:
        raise ResumeError(
            f"no release from {names[0]} to {names[1]} was interrupted on {here}: without --resume"
            " it starts"
        )
    if runs.candidate.state is RunState.FINISHED:
        raise ResumeError(
            f"the release from {names[0]} to {names[1]} has measured each case. For more launches"
            f" of open cases: `{_settle_command(runs.baseline.id, runs.candidate.id)}`"
        )
    suite = workspace.config.suites.get(runs.candidate.suite, custom_suite(Selection()))
    # The plan of the run has the device.
    device = runs.candidate.plan[0].device
    return runs, [
        RunRequest(
            suite=suite,
            toolchain=name,
            device=device,
            trigger=runs.rules.trigger,
            resume_id=run.id,
            has_references=False,
        )
        for name, run in zip(names, (runs.baseline, runs.candidate), strict=True)
    ]


def _num_cases(request: RunRequest, *, config: Config) -> int:
    # The device does not matter here: a plan has the same number of cases on each.
    plan = make_plan(
        request.suite.selection, catalog=config.catalog, variants=config.variants, device="cpu"
    )
    return len(plan)


def _measure(
    names: tuple[str, str], *, cases: CaseOptions, options: _ReleaseOptions, workspace: Workspace
) -> tuple[RunDocument, RunDocument]:
    progress = new_progress(workspace)
    rules = ReleaseRules(baseline=names[0], candidate=names[1])
    # Wrong names are reported before a torch is built.
    if options.resume:
        runs, requests = _resumed(names, workspace=workspace)
        rules, num_cases = runs.rules, len(measured_cases(runs.candidate))
    else:
        rules = replace(
            rules,
            fail_above=options.fail_above or rules.fail_above,
            max_launches=options.max_launches or rules.max_launches,
        )
        requests = _requests(names, cases=cases, rules=rules, workspace=workspace)
        num_cases = _num_cases(requests[0], config=workspace.config)
    workspace = _with_toolchains(names, workspace=workspace, notify=progress)
    measurement = SequentialMeasurement(
        rules=rules,
        num_cases=num_cases,
        budget=options.budget,
        now=workspace.dependencies.now,
        notify=progress,
    )
    with progress:
        before, after = execute_together(
            requests,
            workspace=workspace,
            notify=progress,
            measure_cases=measurement.measure,
        )
        launches = counted(measurement.num_launches, "launch")
        progress(LogMessage(text=f"{launches} for {counted(num_cases, 'case')}"))
    return before, after


def _show(report: ReleaseReport) -> None:
    echo(report.sign_off.text)
    for name, run in (("baseline ", report.baseline), ("candidate", report.candidate)):
        echo(f"{name} {run.id}  {run.toolchain}  {run.revision}")
    echo(f"machine   {report.candidate.machine}")
    if report.commits_url:
        echo(f"commits   {report.commits_url}")
    columns = [
        Column(name="case"),
        Column(name="metric"),
        Column(name="change", is_number=True),
        Column(name="95 % interval"),
    ]
    for number, named in enumerate(report.clusters, start=1):
        echo(f"\n{number}. {named.text}")
        rows = [item.worst for item in named.items]
        print_table(
            columns,
            rows=[
                (row.case.key, metric_label(row.metric), *change_cells(row))
                for row in rows
                if row is not None
            ],
        )
        if named.cause:
            echo(f"kernels: {named.cause}")
        echo(next_line(repro_line(report, named.representative)))
    for what, items in (
        ("faster", report.improvements),
        ("failed on both sides", report.failing),
        ("not decided", report.undecided),
    ):
        if items:
            echo(f"\n{what}: {', '.join(item.key for item in items)}")
    if report.undecided:
        ids = (report.baseline.id, report.candidate.id)
        echo(next_line(_settle_command(*ids)))


def _settle_command(baseline: str, candidate: str) -> str:
    """Return the command that takes more launches of the open cases."""
    return compare_command(baseline, candidate, (("settle", "30"),))


def _next_line(report: ReleaseReport, *, names: tuple[str, str]) -> str:
    total = report.sign_off
    words = " ".join(map(shlex.quote, names))
    return (
        f"{total.num_unmeasured} of {counted(total.num_cases, 'case')} not measured;"
        f" `hud release {words} --resume` goes on"
    )


def _exit_code(report: ReleaseReport, *, fail_on: str) -> int:
    if report.sign_off.advice is ReleaseAdvice.DO_NOT_SHIP:
        return 1
    is_open = report.sign_off.advice is ReleaseAdvice.UNDECIDED
    return EXIT_INCONCLUSIVE if is_open and fail_on == FAIL_ON_INCONCLUSIVE else 0

"""hud release: may toolchain B replace toolchain A?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Run
from compile_hud.db.shared.text import counted_of
from compile_hud.runner.analysis.release.markdown import (
    MEAN_COLUMNS,
    MEAN_NUMBERS,
    change_cells,
    mean_cells,
    other_means_text,
    release_markdown,
    repro_line,
)
from compile_hud.runner.analysis.release.mean_changes import MeanChange, by_clearness
from compile_hud.runner.analysis.release.report import ReleaseReport, release_report
from compile_hud.runner.analysis.release.sign_off import ReleaseAdvice
from compile_hud.runner.cli.compare.ci_report import ReportOptions, publish, report_options
from compile_hud.runner.cli.compare.command import FAIL_ON_INCONCLUSIVE
from compile_hud.runner.cli.completion.names import TOOLCHAIN
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.exit_codes import EXIT_INCONCLUSIVE, EXIT_INTERRUPTED
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.help.next_steps import next_line
from compile_hud.runner.cli.options import CaseOptions, case_options
from compile_hud.runner.cli.output import (
    check_exists,
    json_option,
    print_json,
    with_workspace,
)
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.cli.release.measurement import measure, settle_command, with_toolchains
from compile_hud.runner.cli.release.options import ReleaseOptions, check_usage, release_options
from compile_hud.runner.cli.run.ray import RAY
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.documents.pairs.releases import load_release, release_json
from compile_hud.runner.release.scripts import write_scripts
from compile_hud.runner.workspace import Workspace


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
@release_options
@case_options
@report_options
@json_option
@with_workspace
def release(
    workspace: Workspace,
    *,
    baseline: str,
    candidate: str,
    options: ReleaseOptions,
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
    check_usage(options, cases=cases)
    names = (baseline, candidate)
    if options.report_only:
        store = workspace.store()
        check_exists(store)
        pairs = load_release(store, names)
    else:
        pairs = measure(names, cases=cases, options=options, workspace=workspace)
    measured = release_report(pairs)
    if as_json:
        print_json(release_json(measured))
    else:
        _show(measured)
    publish(release_markdown(measured), options=report, workspace=workspace)
    if options.scripts_folder is not None:
        _write_scripts(measured, folder=options.scripts_folder, workspace=workspace)
    if measured.is_interrupted:
        is_ray = options.is_ray or len(measured.machines) > 1
        echo(_next_line(measured, names=names, is_ray=is_ray), err=True)
        if options.budget is None and not options.report_only:
            sys.exit(EXIT_INTERRUPTED)
    sys.exit(_exit_code(measured, fail_on=options.fail_on))


def _write_scripts(report: ReleaseReport, *, folder: Path, workspace: Workspace) -> None:
    """Write the script of each cluster under the candidate; a missing one is only reported."""
    progress = new_progress(workspace)
    workspace = with_toolchains([report.candidate.toolchain], workspace=workspace, notify=progress)
    with progress:
        for line in write_scripts(report, folder=folder, workspace=workspace):
            progress(line)


def _show(report: ReleaseReport) -> None:
    echo(report.sign_off.text)
    echo(f"baseline  {_side([pair.baseline for pair in report.pairs])}")
    echo(f"candidate {_side([pair.candidate for pair in report.pairs])}")
    echo(f"machine   {', '.join(report.machines)}")
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
    _show_means(report.means)
    undecided = {item.pair.candidate.run_id for item in report.undecided}
    for pair in report.pairs:
        if pair.candidate.id in undecided:
            echo(next_line(settle_command(pair)))


def _show_means(means: Sequence[MeanChange]) -> None:
    shown, others = by_clearness(means)
    if means:
        echo("\ngeometric mean of the change over all cases:")
    if shown:
        print_table(
            [Column(name=name, is_number=name in MEAN_NUMBERS) for name in MEAN_COLUMNS],
            rows=[mean_cells(mean) for mean in shown],
        )
    if others:
        echo(other_means_text(len(others)))


def _side(runs: Sequence[Run]) -> str:
    """Return the runs of one side, one for each machine."""
    ids = ", ".join(run.id for run in runs)
    return f"{ids}  {runs[0].toolchain}  {runs[0].revision}"


def _next_line(report: ReleaseReport, *, names: tuple[str, str], is_ray: bool) -> str:
    total = report.sign_off
    words = " ".join(map(shlex.quote, names))
    executor = f" --executor {RAY}" if is_ray else ""
    return (
        f"{counted_of(total.num_unmeasured, total.num_cases, 'case')} not measured;"
        f" `hud release {words}{executor} --resume` goes on"
    )


def _exit_code(report: ReleaseReport, *, fail_on: str) -> int:
    if report.sign_off.advice is ReleaseAdvice.DO_NOT_SHIP:
        return 1
    is_open = report.sign_off.advice is ReleaseAdvice.UNDECIDED
    return EXIT_INCONCLUSIVE if is_open and fail_on == FAIL_ON_INCONCLUSIVE else 0

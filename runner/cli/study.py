"""hud study: list the studies, measure one, write its page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.results import load_result_summaries
from compile_hud.db.queries.runs import load_run, load_suite_runs
from compile_hud.db.records.results import Run, RunState
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.analysis.studies.study import (
    Study,
    StudyRun,
    results_of_document,
    results_of_summaries,
    runs_to_show,
)
from compile_hud.runner.analysis.studies.tables import StudyTable, gaps, study_tables
from compile_hud.runner.cli.completion.names import MODE, MODEL, TOOLCHAIN
from compile_hud.runner.cli.echo import print_document
from compile_hud.runner.cli.exit_codes import EXIT_INTERRUPTED
from compile_hud.runner.cli.help.examples import ExampleGroup
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.run.command import run_in_terminal
from compile_hud.runner.cli.tables import Column, print_table, stderr, stdout
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.errors import DocumentNotWritten, NoSuchDocument
from compile_hud.runner.planning.plan import DEVICES
from compile_hud.runner.planning.study_runs import find_study, study_suite
from compile_hud.runner.reporting.study_report import cell_text, cohort_text, study_json, study_page
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest
from compile_hud.runner.workspace import Workspace


@click.group("study", cls=ExampleGroup)
def study_group() -> None:
    """List studies of a standing question, run them, write pages."""


@study_group.command(
    "list",
    examples=("hud study list",),
)
@json_option
@with_workspace
def list_studies(_workspace: Workspace, *, as_json: bool) -> None:
    """Show the studies and their questions."""
    if as_json:
        print_json(
            [
                {
                    "name": study.name,
                    "title": study.title,
                    "question": study.question,
                    "num_published": len(study.published),
                }
                for study in STUDIES.values()
            ]
        )
        return
    rows = [(study.name, study.question) for study in STUDIES.values()]
    print_table([Column(name="study"), Column(name="asks")], rows=rows)


@study_group.command(
    "run",
    examples=(
        "hud study run moe",
        "hud study run moe --mode default --device cpu",
    ),
)
@click.argument("name")
@click.option(
    "--device",
    type=NearestChoice([AUTO_DEVICE, *DEVICES]),
    default=AUTO_DEVICE,
    show_default=True,
    help="auto uses the GPU if there is one.",
)
@click.option(
    "--toolchain",
    type=TOOLCHAIN,
    metavar="T",
    default=CURRENT_TOOLCHAIN,
    show_default=True,
    help="The torch to measure.",
)
@click.option(
    "--model", "models", type=MODEL, metavar="GLOB", multiple=True, help="Only these of its models."
)
@click.option(
    "--mode",
    "variants",
    type=MODE,
    metavar="M",
    multiple=True,
    help="Only these of its variants; globs.",
)
@json_option
@with_workspace
def run_study(
    workspace: Workspace,
    *,
    name: str,
    device: str,
    toolchain: str,
    models: tuple[str, ...],
    variants: tuple[str, ...],
    as_json: bool,
) -> None:
    """Measure the cases of study NAME and print its tables.

    The cases are stored as a run.
    """
    study = find_study(name)
    if device == AUTO_DEVICE:
        device = "cuda" if workspace.dependencies.has_gpu() else "cpu"
    suite = study_suite(study, device=device, models=models, variants=variants)
    request = RunRequest(suite=suite, toolchain=toolchain, device=device)
    document = run_in_terminal(request, workspace=workspace)
    run = StudyRun(run=document.run, results=results_of_document(document.results))
    if as_json:
        print_json({"run": run.run.id, **study_json(study, run)})
    else:
        _print(study, run)
    if document.run.state is RunState.INTERRUPTED:
        text = f"interrupted; `hud run --resume {run.run.id}` measures the rest"
        stderr().print(text, markup=False)
        sys.exit(EXIT_INTERRUPTED)


@study_group.command(
    "page",
    examples=("hud study page moe --out moe.md",),
)
@click.argument("name")
@click.option(
    "--out", "path", metavar="FILE", type=click.Path(path_type=Path), help="Default: stdout."
)
@click.option(
    "--run",
    "run_ids",
    metavar="RUN",
    multiple=True,
    help="A run of the study; may be repeated. Default: the newest full one on each device.",
)
@with_workspace
def write_page(
    workspace: Workspace, *, name: str, path: Path | None, run_ids: tuple[str, ...]
) -> None:
    """Write the page of study NAME in Markdown, from its runs."""
    study = find_study(name)
    store = workspace.store()
    runs = [load_run(store, run_id) for run_id in run_ids] or _stored(study, store=store)
    for run in runs:
        if run.suite != study.suite:
            raise NoSuchDocument(
                f"run {run.id} is of suite {run.suite}, not of study {study.name};"
                f" `hud study run {study.name}` measures one",
                run=run.id,
                suite=run.suite,
                study=study.name,
            )
    study_runs = [
        StudyRun(run=run, results=results_of_summaries(load_result_summaries(store, run.id)))
        for run in runs
    ]
    text = study_page(study, study_runs)
    if path is None:
        print_document(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DocumentNotWritten(
            f"cannot write {path}: {error.strerror}", path=path, reason=error.strerror
        ) from error


def _stored(study: Study, *, store: Store) -> Sequence[Run]:
    runs = runs_to_show(study, load_suite_runs(store, study.suite))
    if not runs:
        raise NotFoundError(
            f"{store.name} has no finished run of study {study.name};"
            f" `hud study run {study.name}` measures one",
            store=store.name,
            study=study.name,
        )
    return runs


def _print(study: Study, run: StudyRun) -> None:
    console = stdout()
    for table in study_tables(study, run.results):
        console.print(f"\n{table.title}", markup=False)
        _print_table(table)
    for gap in gaps(study, run):
        cases = f" ({counted(gap.num_cases, 'case')})" if gap.num_cases else ""
        what = gap.variant or ", ".join(gap.models) or "all"
        console.print(f"{what} {gap.outcome}{cases}: {gap.reason}", markup=False)


def _print_table(table: StudyTable) -> None:
    columns = [
        Column(name=table.spec.rows),
        *(Column(name=name, is_number=True) for name in table.columns),
        Column(name=""),
    ]
    rows = [
        (
            name,
            *(
                cell_text(cell, metric=metric)
                for cell, metric in zip(cells, table.metrics, strict=True)
            ),
            next(filter(None, map(cohort_text, cells, table.metrics)), ""),
        )
        for name, cells in table.rows.items()
    ]
    print_table(columns, rows=rows)

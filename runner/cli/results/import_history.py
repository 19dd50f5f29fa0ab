"""hud import: histories that other tools measured."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import click

from compile_hud.db.shared.text import counted
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.exit_codes import EXIT_USAGE
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.option_types import DateTimeType, NearestChoice, StoredText
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.errors import ImportFailed
from compile_hud.runner.interop.import_report import ImportReport, folder_report
from compile_hud.runner.interop.importers.folders import files_of
from compile_hud.runner.interop.importers.history import MissingValuePolicy
from compile_hud.runner.interop.importers.importer import READERS, HistoryImporter
from compile_hud.runner.interop.importers.vocabulary import UNKNOWN, ImportedMetric
from compile_hud.runner.interop.runner_spans import merged_spans
from compile_hud.runner.workspace import Workspace

# Objects until the youngest are collected, then collections until the next generation's.
_RARE_COLLECTIONS = (200_000, 10, 100)


@click.command(
    "import",
    cls=ExampleCommand,
    exit_codes={
        EXIT_USAGE: "A file was refused; the others are stored.",
    },
    examples=(
        "hud import nightly.json.gz",
        "hud import reports --machine a100-box --revision 0123456789",
    ),
)
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(path_type=Path),
)
@click.option(
    "--format",
    "format_name",
    type=NearestChoice(list(READERS)),
    help="The format. Default: by the file's name and content.",
)
@click.option(
    "--revision", type=StoredText(), metavar="REV", help="The revision, if a file does not have it."
)
@click.option(
    "--machine",
    type=StoredText(),
    metavar="NAME",
    help="The machine, if a file does not have it; it replaces names and types of runners.",
)
@click.option(
    "--at",
    type=DateTimeType(),
    metavar="TIME",
    help="The time, if a file does not have it. Default: its modification time.",
)
@json_option
@with_workspace
def import_(
    workspace: Workspace,
    *,
    files: tuple[Path, ...],
    format_name: str | None,
    revision: str | None,
    machine: str | None,
    at: datetime | None,
    as_json: bool,
) -> None:
    """Import results of PyTorch's HUD, TorchBench, asv and others.

    A FILE may be a folder, which stands for all files in it. A faulty file is reported with the
    line and stores nothing; the others are stored. Importing a file twice changes nothing. `hud
    detect` judges imported results.
    """
    unsaid = MissingValuePolicy(revision=revision or UNKNOWN, machine=machine or UNKNOWN, at=at)
    importer = HistoryImporter(
        workspace.store(),
        missing_values=unsaid,
        format_name=format_name,
        now=workspace.dependencies.now,
    )
    reports: list[ImportReport] = []
    errors: list[dict[str, str]] = []
    with _rare_collections():
        for outcome in _outcomes(files, importer=importer):
            if isinstance(outcome, ImportFailed):
                echo(f"hud: {outcome}", err=True)
                errors.append({"file": str(outcome.parameters["path"]), "error": str(outcome)})
                continue
            reports.append(outcome)
            if not as_json:
                _print_report(outcome, has_time=at is not None)
    # A history with a file for each night has one runner in each file.
    changing = merged_spans(report.runner_spans for report in reports).changing
    if as_json:
        print_json(
            {
                "files": [report.to_json() for report in reports],
                "errors": errors,
                "changing_machines": len(changing),
            }
        )
        sys.exit(EXIT_USAGE if errors else 0)
    if changing and not any(report.runner_spans.changing for report in reports):
        echo(_changing_text(changing))
    if any(report.results.num_new or report.results.num_changed for report in reports):
        echo("`hud detect` judges what is new, `hud up` shows it")
    sys.exit(EXIT_USAGE if errors else 0)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python look for cycles of garbage rarely: records have none, and it takes a sixth."""
    before = gc.get_threshold()
    gc.set_threshold(*_RARE_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _outcomes(
    paths: Iterable[Path], *, importer: HistoryImporter
) -> Iterator[ImportReport | ImportFailed]:
    """Yield the errors, and a report for each file or folder."""
    for is_folder, group in itertools.groupby(paths, key=Path.is_dir):
        if is_folder:
            for folder in group:
                yield from _folder_outcomes(folder, importer=importer)
        else:
            yield from importer.reports(file for path in group for file in files_of(path))


def _folder_outcomes(
    folder: Path, *, importer: HistoryImporter
) -> Iterator[ImportReport | ImportFailed]:
    try:
        files = files_of(folder)
    except ImportFailed as error:
        yield error
        return
    reports = []
    for outcome in importer.reports(files):
        if isinstance(outcome, ImportFailed):
            yield outcome
        else:
            reports.append(outcome)
    if reports:
        yield folder_report(folder, reports)


def _print_report(report: ImportReport, *, has_time: bool) -> None:
    name = str(report.path)
    if report.num_files > 1:
        known = f", {report.num_known_files} imported before" if report.num_known_files else ""
        name += f": {counted(report.num_files, 'file')}{known if not report.is_known else ''}"
    if report.is_known:
        echo(f"{name}: imported before, nothing changed")
        if report.num_untimed and not has_time:
            echo(
                "  no time in the file: --at, --revision and --machine tell it from another of the"
                " same content"
            )
        return
    done = report.results
    echo(
        f"{name}: {counted(report.num_rows or 0, 'row')} ({report.format}),"
        f" {counted(report.num_runs, 'run')};"
        f" results: {done.num_new} new, {done.num_changed} changed, {done.num_known} in already"
    )
    for text in report.skipped.texts():
        echo(f"  skipped {text}")
    for text in report.unread.texts():
        echo(f"  not read {text}")
    for text in report.mixed.texts(prefix="records that differ in "):
        echo(
            f"  merged into one result {text}: benchmark.extra_info.variant or .shape tells"
            " such records apart"
        )
    if machines := report.runner_spans.changing:
        echo(f"  {_changing_text(machines)}")
    if report.num_untimed and not has_time:
        echo("  no time in the file; --at says when, without it the file's own time counts")
    _print_metrics(report)


def _changing_text(machines: Sequence[str]) -> str:
    return (
        f"{counted(len(machines), 'machine')} of one night each, such as {machines[0]}:"
        " --machine gives them one name and one history"
    )


def _print_metrics(report: ImportReport) -> None:
    for metric in report.metrics:
        if not metric.is_known or metric.judged_direction is None:
            echo(f"  {_judged_how(metric)}")
    for change in report.unit_changes:
        echo(f"  {change.text}")
    for metric_name in report.contradicted:
        echo(f"  stated both ways: {metric_name}; of a series the newest statement counts")


def _judged_how(metric: ImportedMetric) -> str:
    direction = str(metric.direction).replace("_", " ")
    if metric.judged_direction is None:
        guess = ", guessed from its name" if metric.is_guessed else ""
        return f"charted but not judged: {metric.name} ({direction}{guess})"
    if metric.is_guessed:
        return f"judged by its name and unit: {metric.name} ({direction})"
    return f"judged as its records say: {metric.name} ({direction})"

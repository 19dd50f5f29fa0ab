"""hud ingest, detect and demo."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

import click

from compile_hud.db.errors import MixedStoreError, RecordError, StoreError
from compile_hud.db.records.results import RunDocument
from compile_hud.db.shared.text import counted, shortened
from compile_hud.db.store import Store
from compile_hud.runner.alerting.notifier import make_planner, send_waiting
from compile_hud.runner.alerting.payload import alerts_json
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.exit_codes import EXIT_USAGE
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.output import (
    check_exists,
    json_option,
    print_json,
    say_when_empty,
    with_workspace,
)
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.cli.run.after_run import unless_stopped
from compile_hud.runner.cli.serve import serve_dashboard
from compile_hud.runner.cli.tables import stderr
from compile_hud.runner.config.load import demo_store_url
from compile_hud.runner.demo.demo_store import NUM_NIGHTS, fill_demo
from compile_hud.runner.detection.detect import detect as detect_alerts
from compile_hud.runner.files.json_files import STDIN, check_times, read_documents
from compile_hud.runner.persistence.spool import Spool
from compile_hud.runner.scheduling.timetable import timetable_of
from compile_hud.runner.workspace import Workspace

# Names in a file may be of any length, and so may messages about them.
_MAX_REASON: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesReport:
    """The result of storing files; `refused` are files that are not stored completely."""

    num_ingested: int = 0
    num_duplicates: int = 0
    # Each file with the reason.
    refused: tuple[tuple[Path, str], ...] = ()


@click.command(
    cls=ExampleCommand,
    exit_codes={
        1: "The spool has results that could not be stored or read.",
        2: "A file was refused; the others are stored.",
    },
    examples=(
        "hud ingest",
        "hud ingest out.json",
        "ssh gpu hud run --json - | hud ingest -",
    ),
)
@click.argument("files", nargs=-1, type=click.Path())
@json_option
@with_workspace
def ingest(workspace: Workspace, *, files: tuple[str, ...], as_json: bool) -> None:
    """Store spooled results and result files of other machines.

    FILES are documents of `hud run --json`, gzipped or not. A faulty file is reported; the others
    are stored. A file - is standard input.
    """
    store = workspace.store()
    # Standard input has one end, however often it is named.
    paths = dict.fromkeys(STDIN if name == "-" else Path(name) for name in files)
    done = ingest_files(
        tuple(paths), store=store, spool=workspace.spool(), now=workspace.dependencies.now
    )
    report = workspace.spool().drain(store)
    num_ingested = done.num_ingested + report.num_ingested
    num_duplicates = done.num_duplicates + report.num_duplicates
    for broken in report.broken:
        stderr().print(broken.text, markup=False)
    if report.error:
        stderr().print(
            f"{counted(report.num_left, 'result')} still waiting: {report.error}", markup=False
        )
    if as_json:
        print_json(
            {
                "ingested": num_ingested,
                "duplicates": num_duplicates,
                "broken": [str(broken.path) for broken in report.broken],
                "left": report.num_left,
                "trouble": report.error,
                "errors": [{"file": str(path), "error": why} for path, why in done.refused],
            }
        )
    else:
        names = _names(path for path, _ in done.refused)
        echo(
            f"{counted(num_ingested, 'result')} stored, {num_duplicates} in already,"
            f" {len(report.broken)} set aside, {report.num_left} left"
            + (f"; not all of: {names}" if names else "")
        )
    if done.refused:
        sys.exit(EXIT_USAGE)
    sys.exit(int(bool(report.error or report.broken)))


def ingest_files(
    files: Sequence[Path], *, store: Store, spool: Spool, now: Callable[[], datetime]
) -> FilesReport:
    """Store the runs of result files, and report each faulty file on standard error.

    Raises StoreError if the store is locked, after reporting the stored results.
    """
    report = FilesReport()
    for index, path in enumerate(files):
        try:
            documents = read_documents(path)
        except OSError as error:
            reason = f"cannot read {path}: {error.strerror or error}"
            report = _refuse(report, path, reason=reason)
            continue
        except RecordError as error:
            report = _refuse(report, path, reason=str(error))
            continue
        for document in documents:
            try:
                # The check comes this late because a run from a pipe may have been measured
                # meanwhile.
                check_times(document, now=now())
                num_new, num_known = ingest_document(document, store=store, spool=spool)
            except (RecordError, MixedStoreError) as error:
                report = _refuse(report, path, reason=f"{path}: {error}")
                continue
            except StoreError:
                echo(
                    f"{counted(report.num_ingested, 'result')} stored,"
                    f" {report.num_duplicates} in already; not all of: {_names(files[index:])}",
                    err=True,
                )
                raise
            if not document.results:
                text = f"run {document.run.id} in {path} has no results"
                echo(text, err=True)
            report = replace(
                report,
                num_ingested=report.num_ingested + num_new,
                num_duplicates=report.num_duplicates + num_known,
            )
    return report


def _refuse(report: FilesReport, path: Path, *, reason: str) -> FilesReport:
    """Return `report` with a refused file, after reporting it on standard error."""
    reason = shortened(reason, limit=_MAX_REASON)
    echo(f"hud: {reason}", err=True)
    return replace(report, refused=(*report.refused, (path, reason)))


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(dict.fromkeys(str(path) for path in paths))


def ingest_document(document: RunDocument, *, store: Store, spool: Spool) -> tuple[int, int]:
    """Store a run with its results; return the numbers of new and of known results."""
    # One transaction each would take most of the time.
    num_new = store.ingest_all(
        document.run,
        (
            (f"document-{result.id}", spool.traces.take(result, waiting=spool.directory))
            for result in document.results
        ),
    )
    return num_new, len(document.results) - num_new


@click.command(
    cls=ExampleCommand,
    examples=("hud detect",),
)
@json_option
@with_workspace
def detect(workspace: Workspace, *, as_json: bool) -> None:
    """Judge the stored history again.

    The same history gives the same alerts.
    """
    check_exists(workspace.store())
    with unless_stopped() as check:
        report = detect_alerts(
            workspace.store(),
            is_full=True,
            timetable=timetable_of(workspace),
            planner=make_planner(workspace),
            check=check,
        )
    send_waiting(workspace, notify=new_progress(workspace))
    is_empty = say_when_empty(workspace.store())
    for item in report.unjudged:
        echo(f"warning: {item.text}", err=True)
    if as_json:
        print_json(
            alerts_json(
                report.alerts, store=workspace.store(), dashboard=workspace.config.dashboard
            )
        )
    elif not is_empty:
        echo(
            f"{counted(len(report.alerts), 'alert')}, {len(report.new)} new,"
            f" {len(report.fixed)} fixed;"
            " `hud regressions` lists the open ones"
        )


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud demo --serve",
        "hud demo --nights 30",
    ),
)
@click.option("--serve", "is_served", is_flag=True, help="Open the dashboard on it at once.")
@click.option(
    "--nights",
    type=click.IntRange(1, 3650),
    default=NUM_NIGHTS,
    show_default=True,
    metavar="N",
    help="Length of the history.",
)
@with_workspace
def demo(workspace: Workspace, *, is_served: bool, nights: int) -> None:
    """Create a demo store with synthetic data."""
    config = workspace.config
    # Only an explicit --store may name another store; the store of real runs is never filled.
    default = demo_store_url(config.state_dir)
    context = click.get_current_context()
    url = config.store_url if context.params.get("store_url") else default
    workspace = replace(workspace, config=replace(config, store_url=url))
    traces = workspace.config.traces_dir
    store = workspace.store()
    with new_progress(workspace) as progress:
        num_results = fill_demo(
            store, now=workspace.dependencies.now, nights=nights, traces=traces, notify=progress
        )
    if not num_results:
        echo("the store has a synthetic history already; delete it for another", err=True)
    echo(f"synthetic history, nothing of it measured: {url}")
    if is_served:
        serve_dashboard(workspace)
    else:
        echo(f"`hud serve --store {url}` shows it")

"""hud ingest, detect and demo: keep it running."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from db.records import RunDocument
from db.store import Store
from db.text import counted
from runner.alerts.documents import alerts_json
from runner.alerts.outlet import make_telling, send_waiting
from runner.commands.common import (
    json_option,
    new_progress,
    print_json,
    say_when_empty,
    stderr,
    with_workplace,
)
from runner.commands.judging import unless_stopped
from runner.commands.serving import serve_dashboard
from runner.config import demo_store_url
from runner.demo import fill_demo
from runner.detect import detect as detect_alerts
from runner.documents import read_documents
from runner.spool import Spool
from runner.timetable import timetable_of
from runner.wiring import Workplace


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
@with_workplace
def ingest(workplace: Workplace, *, files: tuple[Path, ...], as_json: bool) -> None:
    """Store what waits in the spool, and the result FILES of `hud run --json`."""
    store = workplace.store()
    num_ingested = num_duplicates = 0
    for path in files:
        for document in read_documents(path):
            new, known = ingest_document(document, store=store, spool=workplace.spool())
            num_ingested += new
            num_duplicates += known
    report = workplace.spool().drain(store)
    num_ingested += report.num_ingested
    num_duplicates += report.num_duplicates
    for broken in report.broken:
        stderr().print(f"set aside {broken.path}: {broken.reason}", markup=False)
    if report.trouble:
        stderr().print(
            f"{counted(report.num_left, 'result')} still waiting: {report.trouble}", markup=False
        )
    if as_json:
        print_json(
            {
                "ingested": num_ingested,
                "duplicates": num_duplicates,
                "broken": [str(broken.path) for broken in report.broken],
                "left": report.num_left,
                "trouble": report.trouble,
            }
        )
    else:
        click.echo(
            f"{counted(num_ingested, 'result')} stored, {num_duplicates} in already,"
            f" {len(report.broken)} set aside, {report.num_left} left"
        )
    sys.exit(int(bool(report.trouble or report.broken)))


def ingest_document(document: RunDocument, *, store: Store, spool: Spool) -> tuple[int, int]:
    """Store a run with its results; return how many were new and how many were in already."""
    # One transaction each would take most of the time.
    num_new = store.ingest_all(
        document.run,
        (
            (f"document-{result.id}", spool.traces.take(result, waiting=spool.directory))
            for result in document.results
        ),
    )
    return num_new, len(document.results) - num_new


@click.command()
@json_option
@with_workplace
def detect(workplace: Workplace, *, as_json: bool) -> None:
    """Judge the stored history again; the same history gives the same alerts."""
    with unless_stopped() as check:
        report = detect_alerts(
            workplace.store(),
            is_full=True,
            timetable=timetable_of(workplace),
            telling=make_telling(workplace),
            check=check,
        )
    send_waiting(workplace, notify=new_progress(workplace))
    is_empty = say_when_empty(workplace.store())
    if as_json:
        print_json(alerts_json(report.alerts, workplace=workplace))
    elif not is_empty:
        click.echo(
            f"{len(report.alerts)} alerts, {len(report.new)} new, {len(report.fixed)} fixed;"
            " `hud regressions` lists the open ones"
        )


@click.command()
@click.option("--serve", "is_served", is_flag=True, help="Open the dashboard on it at once.")
@with_workplace
def demo(workplace: Workplace, *, is_served: bool) -> None:
    """Fill a separate store with a made-up history, labelled as such, to look around in."""
    config = workplace.config
    # Only an explicit --store may name another place; the store of real runs is never filled.
    default = demo_store_url(config.state_dir)
    context = click.get_current_context()
    url = config.store_url if context.params.get("store_url") else default
    workplace = replace(workplace, config=replace(config, store_url=url))
    fill_demo(workplace.store(), now=workplace.seams.now)
    click.echo(f"synthetic history, nothing of it measured: {url}")
    if is_served:
        serve_dashboard(workplace)
    else:
        click.echo(f"`hud serve --store {url}` shows it")

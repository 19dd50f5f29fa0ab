"""hud annotate: notes about a date, for every trend that it concerns."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from compile_hud.db.alerts.annotations import (
    EVERYTHING,
    Annotation,
    load_annotations,
    new_annotation,
    problem_of,
    put_annotations,
    remove_annotation,
)
from compile_hud.db.errors import RecordError
from compile_hud.db.shared.text import counted, one_line
from compile_hud.runner.cli.alerts.options import by_option
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleGroup
from compile_hud.runner.cli.option_types import DateTimeType, StoredText
from compile_hud.runner.cli.output import check_exists, json_option, print_json, with_workspace
from compile_hud.runner.files.json_files import read_json
from compile_hud.runner.workspace import Workspace


@click.group("annotate", cls=ExampleGroup)
def annotate_group() -> None:
    """Mark dates in trends, such as that of a new driver."""


@annotate_group.command(
    examples=(
        "hud annotate add 2026-01-31 'driver 570'",
        "hud annotate add 2026-01-31T02:30 'new layer' --series 'bert/*'",
    ),
)
@click.argument("at", metavar="DATE", type=DateTimeType())
@click.argument("text", metavar="TEXT", type=StoredText())
@click.option(
    "--series",
    "pattern",
    type=StoredText(),
    metavar="SERIES",
    default=EVERYTHING,
    help="A glob of case#metric, such as 'bert/*'. Default: all.",
)
@by_option
@json_option
@with_workspace
def add(
    workspace: Workspace, *, at: datetime, text: str, pattern: str, by: str, as_json: bool
) -> None:
    """Write TEXT at DATE, a day or a time (UTC)."""
    made = new_annotation(text, at=at, pattern=pattern, by=by, made_at=workspace.dependencies.now())
    if problem := problem_of(made):
        raise click.UsageError(problem)
    is_new = bool(put_annotations(workspace.store(), [made]))
    if as_json:
        print_json(made.to_json())
    else:
        known = "" if is_new else ": it is there already, or was removed"
        echo(f"annotation {made.id} at {at:%Y-%m-%d %H:%M} UTC{known}")


@annotate_group.command(
    "list",
    examples=(
        "hud annotate list",
        "hud annotate list --all --json > annotations.json",
    ),
)
@click.option("--all", "with_removed", is_flag=True, help="Include removed annotations.")
@json_option
@with_workspace
def list_annotations(workspace: Workspace, *, with_removed: bool, as_json: bool) -> None:
    """List the annotations by their date."""
    store = workspace.store()
    annotations = load_annotations(store, with_removed=with_removed)
    check_exists(store)
    if as_json:
        print_json([item.to_json() for item in annotations])
        return
    for item in annotations:
        removed = f" (removed by {one_line(item.removed_by)})" if item.removed_by else ""
        echo(
            f"{one_line(item.id)}  {item.at:%Y-%m-%d %H:%M}  {one_line(item.pattern)} "
            f" {one_line(item.by)}: {one_line(item.text)}{removed}"
        )
    if not annotations:
        echo("nothing is annotated; `hud annotate add DATE TEXT` does", err=True)


@annotate_group.command(
    examples=("hud annotate remove 9e41",),
)
@click.argument("id", metavar="ID")
@by_option
@json_option
@with_workspace
def remove(workspace: Workspace, *, id: str, by: str, as_json: bool) -> None:
    """Remove the annotation ID from trends.

    The store keeps its authors.
    """
    is_new = remove_annotation(workspace.store(), id, by=by, at=workspace.dependencies.now())
    if as_json:
        print_json({"removed": is_new})
    else:
        echo("removed" if is_new else "it was removed before")


@annotate_group.command(
    "replay",
    examples=("hud annotate replay annotations.json",),
)
@click.argument("path", metavar="FILE", type=click.Path(exists=True, path_type=Path))
@json_option
@with_workspace
def replay_annotations(workspace: Workspace, *, path: Path, as_json: bool) -> None:
    """Write the annotations of FILE, a JSON list.

    Existing ones stay unchanged.
    """
    content = read_json(path)
    if not isinstance(content, list):
        raise RecordError(
            f"{path} is no list of annotations. `hud annotate list --all --json` writes one"
        )
    num_changed = put_annotations(
        workspace.store(),
        [_annotation(item, location=f"{path}, {number}") for number, item in enumerate(content, 1)],
    )
    if as_json:
        print_json({"replayed": num_changed})
    else:
        echo(f"{counted(num_changed, 'annotation')} replayed")


def _annotation(document: object, *, location: str) -> Annotation:
    try:
        return Annotation.from_json(document)
    except RecordError as error:
        raise RecordError(f"{location}: {error}") from error

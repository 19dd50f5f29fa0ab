"""hud db: look after the store."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from compile_hud.db.errors import BackupError
from compile_hud.db.maintenance.backup import restore_backup, write_backup
from compile_hud.db.maintenance.consistency import find_orphans, remove_orphans
from compile_hud.db.shared.text import counted
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleGroup
from compile_hud.runner.cli.output import (
    check_exists,
    json_option,
    print_json,
    say_when_empty,
    with_workspace,
)
from compile_hud.runner.doctor.orphan_files import find_orphan_files, remove_orphan_files
from compile_hud.runner.format import quantity
from compile_hud.runner.persistence.retention import prune
from compile_hud.runner.run_requests import retention_rules
from compile_hud.runner.workspace import Workspace


@click.group("db", cls=ExampleGroup)
def db_group() -> None:
    """Maintain the store: migrate, back up, restore, prune, check."""


@db_group.command(
    examples=("hud db migrate",),
)
@with_workspace
def migrate(workspace: Workspace) -> None:
    """Create the store or bring its tables up to date."""
    store = workspace.store()
    store.migrate()
    echo(f"{store.name} is up to date")


@db_group.command(
    examples=(
        "hud db backup",
        "hud db backup store.backup",
    ),
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@with_workspace
def backup(workspace: Workspace, *, file: Path | None) -> None:
    """Write all rows of the store to FILE.

    Other processes can use the store meanwhile. Without FILE the backup gets the time as its name,
    in `backups` of the state directory.
    """
    at = workspace.dependencies.now()
    folder = workspace.config.state_dir / "backups"
    path = file or folder / f"compile-hud-{at:%Y%m%dT%H%M%SZ}.zip"
    try:
        made = write_backup(workspace.store(), path, at=at)
    except OSError as error:
        raise BackupError(
            f"cannot write {path}: {error.strerror}. Name a writable path on a disk with room",
            path=path,
            reason=error.strerror,
        ) from error
    size = quantity(path.stat().st_size, unit="B")
    echo(f"{path}: {counted(made.num_rows, 'row')} of schema {made.revision}, {size}")


@db_group.command(
    examples=("hud db restore store.backup --store new.duckdb",),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--force", "is_forced", is_flag=True, help="Replace a store that has runs.")
@with_workspace
def restore(workspace: Workspace, *, file: Path, is_forced: bool) -> None:
    """Restore all rows of FILE, a backup of any kind of store.

    A replaced DuckDB file stays next to the new one, with `.replaced` after its name (`.replaced-2`
    if that exists, and so on).
    """
    store = workspace.store()
    replaced: list[Path] = []
    report = restore_backup(file, store, is_forced=is_forced, on_replaced=replaced.append)
    echo(f"{store.name} is as of {report.created_at}: {counted(report.num_rows, 'row')}")
    for path in replaced:
        echo(f"the replaced store is now {path}")


@db_group.command(
    "prune",
    examples=("hud db prune --dry-run",),
)
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only report what would be removed.")
@with_workspace
def prune_command(workspace: Workspace, *, is_dry_run: bool) -> None:
    """Remove traces, samples and messages past their retention.

    Each run does this at its end.
    """
    store = workspace.store()
    check_exists(store)
    lines = prune(
        store,
        rules=retention_rules(workspace.config),
        now=workspace.dependencies.now,
        is_dry_run=is_dry_run,
    )
    echo("\n".join(lines) or "nothing to prune")


@db_group.command(
    exit_codes={
        1: "Orphaned rows or files remain.",
    },
    examples=(
        "hud db check",
        "hud db check --repair",
    ),
)
@click.option("--repair", "is_repaired", is_flag=True, help="Remove orphans; rewrite summaries.")
@json_option
@with_workspace
def check(workspace: Workspace, *, is_repaired: bool, as_json: bool) -> None:
    """Find orphaned rows and files.

    It compares the summary that trends read with the stored results as well. A result without its
    trace file is a note, which does not change the exit code.
    """
    store = workspace.store()
    check_exists(store)
    rows = find_orphans(store)
    files = find_orphan_files(workspace)
    orphans = [
        *({"where": item.table, "number": item.num_rows, "text": item.text} for item in rows),
        *({"where": str(item.folder), "number": item.number, "text": item.text} for item in files),
    ]
    num_removed = 0
    if is_repaired:
        num_removed = (remove_orphans(store) if rows else 0) + remove_orphan_files(files)
        rows, files = find_orphans(store), find_orphan_files(workspace)
    is_empty = not orphans and say_when_empty(store)
    if as_json:
        print_json({"found": orphans, "removed": num_removed})
    else:
        for item in orphans:
            echo(f"{item['where']}: {item['text']} ({item['number']})")
        end = "`--repair` removes or rewrites them"
        if is_repaired:
            end = f"{counted(num_removed, 'orphan')} removed or rewritten"
        if not is_empty:
            echo(end if orphans else f"{store.name}: no orphaned rows or files")
    sys.exit(int(bool(rows) or any(item.is_error for item in files)))

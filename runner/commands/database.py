"""hud db: look after the store."""

from __future__ import annotations

from pathlib import Path

import click

from db.backup import restore_backup, write_backup
from runner.commands.common import with_workplace
from runner.text import quantity
from runner.wiring import Workplace


@click.group("db")
def db_group() -> None:
    """Look after the store."""


@db_group.command()
@with_workplace
def migrate(workplace: Workplace) -> None:
    """Create the store or bring its tables up to date."""
    store = workplace.store()
    store.migrate()
    click.echo(f"{store.name} is up to date")


@db_group.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@with_workplace
def backup(workplace: Workplace, *, file: Path | None) -> None:
    """Write all rows of the store to FILE, while others go on working with it.

    Without FILE it is named after the time and lies in `backups` of the state directory.
    """
    at = workplace.seams.now()
    folder = workplace.config.state_dir / "backups"
    path = file or folder / f"compile-hud-{at:%Y%m%dT%H%M%SZ}.zip"
    made = write_backup(workplace.store(), path, at=at)
    size = quantity(path.stat().st_size, unit="B")
    click.echo(f"{path}: {made.num_rows} rows of schema {made.revision}, {size}")


@db_group.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--force", "is_forced", is_flag=True, help="Replace a store that has runs.")
@with_workplace
def restore(workplace: Workplace, *, file: Path, is_forced: bool) -> None:
    """Put all rows of FILE, a backup of any kind of store, into the store.

    A DuckDB file that is replaced stays beside the new one, with `.replaced` behind its name.
    """
    store = workplace.store()
    found = restore_backup(file, store, is_forced=is_forced)
    click.echo(f"{store.name} is as of {found.created_at}: {found.num_rows} rows")

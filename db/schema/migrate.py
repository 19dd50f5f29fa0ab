"""Create and upgrade the schema.

Revisions are the files `migrations/mNNNN_*.py`, in the order of their numbers. The first write
upgrades a store; until then an older store cannot be read, since queries expect today's columns.
The first revision makes every table: a store older than that cannot be upgraded.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import ProgrammingError

from compile_hud.db.engine.file_guard import check_has_no_other_tables
from compile_hud.db.errors import StoreTooNew, StoreTooOld
from compile_hud.db.schema.tables import METADATA
from compile_hud.db.schema.version import VERSION, revision_of

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

# Functions import Alembic only to change a schema. The import takes a third of a command's start
# time, and a store with today's schema needs none of it.
MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"
_FORM: Final = re.compile(r"m[0-9]{4}")
# Alembic's `op` is one global proxy.
_ONE_AT_A_TIME: Final = threading.Lock()


def known_revisions(folder: Path = MIGRATIONS) -> tuple[str, ...]:
    """Return the revisions that this code knows, oldest first."""
    return tuple(sorted(path.stem.partition("_")[0] for path in folder.glob("m[0-9]*.py")))


def _stated_revision(connection: Connection) -> str | None:
    """Return the same as `revision_of`, on DuckDB in a third of the time."""
    if connection.dialect.name != "duckdb":
        return revision_of(connection)
    try:
        revision = connection.execute(select(VERSION.c.version_num)).scalar()
    except ProgrammingError:
        # The table is missing. On PostgreSQL this error would end the transaction.
        return None
    return None if revision is None else str(revision)


def is_readable(connection: Connection, *, name: str) -> bool:
    """Return whether the store `name` has today's schema, False if it has none yet.

    Raises StoreTooNew for a newer schema, StoreTooOld for an older one and StoreUnavailable for
    that of another program.
    """
    revision = _stated_revision(connection)
    if revision is None:
        check_has_no_other_tables(connection, name=name)
        return False
    check_known(revision, name=name)
    _check_not_older(revision, name=name)
    return True


def check_is_current(connection: Connection, *, name: str) -> None:
    """Raise StoreTooNew or StoreTooOld unless the store `name` has today's schema."""
    revision = str(connection.execute(select(VERSION.c.version_num)).scalar())
    check_known(revision, name=name)
    _check_not_older(revision, name=name)


def upgrade(
    connection: Connection, *, name: str, folder: Path = MIGRATIONS, to: str | None = None
) -> None:
    """Bring the schema of the store `name` up to revision `to`, by default the newest one.

    A new store gets today's tables at once, unless `to` names an older schema. Raises StoreTooNew
    if the store or `to` is newer than this code, and StoreTooOld for a store that cannot be
    upgraded.
    """
    target = to or known_revisions(folder)[-1]
    check_known(target, name=name, folder=folder)
    revision = revision_of(connection)
    if revision is None:
        check_has_no_other_tables(connection, name=name)
    if revision is None and to is None and folder == MIGRATIONS:
        _create(connection, revision=target)
        return
    if revision is not None:
        check_known(revision, name=name, folder=folder)
        if revision == target:
            return
    if connection.dialect.name == "duckdb":
        # An upgrade may rewrite tables of gigabytes, and little else is done meanwhile.
        half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**21
        connection.exec_driver_sql(f"SET memory_limit = '{half}MiB'")
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext

    script = _scripts(folder)

    def steps(current: Any, _context: Any) -> Any:
        # `alembic upgrade head` calls the same; the command itself needs an env.py and a URL.
        return script._upgrade_revs(target, current)

    with _ONE_AT_A_TIME, EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection=connection)
        environment.run_migrations()


def _create(connection: Connection, *, revision: str) -> None:
    from alembic.runtime.migration import MigrationContext

    # The import takes a third of the CPU time of all migrations.
    METADATA.create_all(connection, checkfirst=False)
    scripts = _scripts(MIGRATIONS)
    with _ONE_AT_A_TIME:
        MigrationContext.configure(connection).stamp(scripts, revision)


def _scripts(folder: Path) -> ScriptDirectory:
    # The dialect registers itself with Alembic at the first connection, but only if Alembic is
    # imported by then.
    import duckdb_sqlalchemy.alembic_impl  # noqa: F401
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(folder), version_locations=[str(folder)])


def check_known(revision: str, *, name: str, folder: Path = MIGRATIONS) -> None:
    """Raise StoreTooNew or StoreTooOld unless this code knows `revision`, that of `name`."""
    known = known_revisions(folder)
    if _FORM.fullmatch(revision) and revision < known[0]:
        raise StoreTooOld(
            f"the store {name} has schema {revision}, and this Compile HUD upgrades {known[0]} and"
            " later. It was left as it is. Back it up with the Compile HUD that wrote it (`hud db"
            " backup`), restore that with the last one that upgrades it (`hud db restore`), and"
            " come back with a backup from there (`hud db backup`)",
            store=name,
            schema=revision,
            oldest=known[0],
        )
    if revision not in known:
        raise StoreTooNew(
            f"the store {name} has schema {revision}, and this Compile HUD knows {known[0]} to"
            f" {known[-1]}. Upgrade Compile HUD, or name another store with --store",
            store=name,
            schema=revision,
            newest=known[-1],
        )


def _check_not_older(revision: str, *, name: str) -> None:
    newest = known_revisions()[-1]
    if revision != newest:
        raise StoreTooOld(
            f"the store {name} has schema {revision}, and this Compile HUD reads {newest}."
            " `hud db migrate` upgrades it, and so does the next program that writes to it",
            store=name,
            schema=revision,
            newest=newest,
        )

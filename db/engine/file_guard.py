"""Refuse files of other programs before anything is written; they stay as they were.

No lock files appear next to them either: the readers-writer lock makes its own after this check.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from sqlalchemy import select
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from compile_hud.db.engine.error_mapping import damaged_store
from compile_hud.db.engine.readers_writer_lock import ReadersWriterLock
from compile_hud.db.errors import StoreUnavailable
from compile_hud.db.schema.version import TABLES, VERSION_TABLE, revision_of

# https://www.sqlite.org/fileformat.html
_SQLITE: Final = b"SQLite format 3\0"
# The first block of a DuckDB file of any version has a checksum, then this.
_DUCKDB: Final = b"DUCK"
_CHECKSUM_BYTES: Final = 8
# More table names would say no more about the owner of a file.
_MAX_NAMES: Final = 3
# Closing a file gives up this process's locks on it, DuckDB's as well. So one thread checks a file,
# and none does after another has passed the file_lock.
_LOOKING: Final = threading.Lock()


def check_is_store(path: Path, *, file_lock: ReadersWriterLock, reader: Engine) -> None:
    """Raise StoreUnavailable, or OSError, if the file at `path` is of another program.

    Only a file without lock files is checked; it has them afterwards.
    """
    if file_lock.is_there():
        return
    with _LOOKING:
        if file_lock.is_there() or not path.exists():
            return
        _check_head(path)
        try:
            with reader.connect() as connection:
                if revision_of(connection) is None:
                    check_has_no_other_tables(connection, name=str(path))
        except DBAPIError:
            # Another program has locked the file, or it is damaged; the next opener waits for it,
            # or reports that.
            pass
        file_lock.make()


def check_has_no_other_tables(connection: Connection, *, name: str) -> None:
    """Raise StoreUnavailable if a DuckDB file has tables but states no revision of a schema.

    A database of a PostgreSQL server may have other tables besides ours.
    """
    if connection.dialect.name != "duckdb":
        return
    tables = connection.execute(select(TABLES.c.table_name).order_by(TABLES.c.table_name))
    names = [str(each) for each in tables.scalars() if each != VERSION_TABLE]
    if names:
        more = ", ..." if len(names) > _MAX_NAMES else ""
        raise StoreUnavailable(
            f"{name} is a DuckDB file of another program, with the tables"
            f" {', '.join(names[:_MAX_NAMES])}{more}, and no store. It was left as it is; name"
            " another file with --store",
            store=name,
            tables=tuple(names),
        )


def _check_head(path: Path) -> None:
    if path.is_fifo():
        # Opening a pipe would wait for a writer.
        raise damaged_store(str(path), text="it is a pipe")
    with path.open("rb") as stream:
        head = stream.read(len(_SQLITE))
    if head == _SQLITE:
        raise StoreUnavailable(
            f"{path} is an SQLite file and no store, which is a DuckDB file or a PostgreSQL"
            " database. It was left as it is; name another with --store",
            store=str(path),
            problem="sqlite",
        )
    if head[_CHECKSUM_BYTES:][: len(_DUCKDB)] != _DUCKDB:
        what = "it does not begin as a DuckDB file does" if head else "it is empty"
        raise damaged_store(str(path), text=what)

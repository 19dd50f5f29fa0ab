"""The revision of the schema that a store states."""

from __future__ import annotations

from typing import Final

from sqlalchemy import column, func, select, table
from sqlalchemy.engine import Connection

# Alembic stores the revision in this table.
VERSION_TABLE: Final = "alembic_version"
VERSION: Final = table(VERSION_TABLE, column("version_num"))
TABLES: Final = table(
    "tables", column("table_name"), column("table_schema"), schema="information_schema"
)


def revision_of(connection: Connection) -> str | None:
    """Return the revision of the schema, None when there are no tables yet."""
    # The inspector would read the columns of the table as well, which takes as long as opening a
    # store.
    there = select(TABLES.c.table_name).where(
        TABLES.c.table_name == VERSION_TABLE, TABLES.c.table_schema == func.current_schema()
    )
    if connection.execute(there).first() is None:
        return None
    revision = connection.execute(select(VERSION.c.version_num)).scalar()
    return None if revision is None else str(revision)

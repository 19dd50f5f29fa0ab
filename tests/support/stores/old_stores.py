"""Stores in the schema m0015, the oldest one that is upgraded, as its code left them."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from compile_hud.db.engine.database import open_database
from compile_hud.db.engine.readers_writer_lock import LockTimeout
from compile_hud.db.schema.tables import METADATA
from compile_hud.db.store import Store
from tests.support.builders import START

OLDEST: Final = "m0015"
# The migration m0016 drops these tables.
REPLY_TABLES: Final = ("message_versions", "replies", "reply_threads")
# The migration m0017 makes and fills this table.
_LATER_TABLES: Final = ("trend_results",)
# The migration m0018 adds these columns.
_LATER_COLUMNS: Final = {"alerts": ("bisection",)}
LOCK_TIMEOUT: Final = LockTimeout(timeout_s=5.0, sleep=time.sleep, monotonic=time.monotonic)
_SCHEMA: Final = Path(__file__).parents[2] / "fixtures" / "m0015.sql"


def make_old_store(url: str, *, rows_of: Store) -> None:
    """Make a store of schema m0015 that has the rows of `rows_of`, and one in each reply table."""
    with open_database(url, lock_timeout=LOCK_TIMEOUT).write() as connection:
        make_old_tables(connection)
        with rows_of.read() as source:
            for table in _tables():
                if table.name in _LATER_TABLES:
                    continue
                later = _LATER_COLUMNS.get(table.name, ())
                columns = [column for column in table.columns if column.name not in later]
                rows = [dict(row) for row in source.execute(sa.select(*columns)).mappings()]
                if rows:
                    connection.execute(sa.insert(table), rows)
        reflected = sa.MetaData()
        reflected.reflect(connection, only=REPLY_TABLES)
        for table in reflected.sorted_tables:
            connection.execute(sa.insert(table), _made_up(table, number=0))


def make_old_tables(connection: Connection) -> None:
    """Make the tables of schema m0015 as the code of that time made them."""
    for statement in _SCHEMA.read_text(encoding="ascii").split(";\n"):
        is_index = "CREATE INDEX" in statement
        if statement.strip() and not (is_index and connection.dialect.name == "duckdb"):
            connection.exec_driver_sql(statement)


def fill_empty_tables(store: Store) -> None:
    """Put two rows into each empty table of `store`, whatever they mean."""
    with store.write() as connection:
        for table in _tables():
            if connection.execute(sa.select(table).limit(1)).first() is None:
                connection.execute(sa.insert(table), [_made_up(table, number=i) for i in range(2)])


def _tables() -> list[sa.Table]:
    # A store counts its own writes.
    return [table for table in METADATA.sorted_tables if table.name != "generation"]


def _made_up(table: sa.Table, *, number: int) -> dict[str, Any]:
    return {column.name: _value(column, number=number) for column in table.columns}


def _value(column: sa.Column[Any], *, number: int) -> Any:
    kind = column.type.as_generic()
    if isinstance(kind, sa.DateTime):
        return START + timedelta(days=number)
    if isinstance(kind, sa.JSON):
        return [{"number": number}]
    if isinstance(kind, sa.String):
        return f"{column.name}-{number}"
    return number

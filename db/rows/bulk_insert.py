"""Insert many rows at once: as Arrow on DuckDB, as one statement elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, cast

import pyarrow as pa
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Integer,
    String,
    Table,
    Text,
    insert,
)
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from compile_hud.db.rows.mapping import Values
from compile_hud.db.schema.tables import Base

# The types of our columns in DuckDB and in backups; JSON is text there.
ARROW_TYPES: Final[dict[type[Any], pa.DataType]] = {
    String: pa.string(),
    Text: pa.string(),
    Boolean: pa.bool_(),
    Integer: pa.int64(),
    BigInteger: pa.int64(),
    Double: pa.float64(),
    DateTime: pa.timestamp("us", tz="UTC"),
}


def put_rows(session: Session, table: type[Base], rows: Sequence[Values]) -> None:
    """Insert `rows`, which all name the same columns of `table`."""
    # The table and not its class: the ORM would cut the rows into statements of a thousand.
    target = cast("Table", table.__table__)
    if not rows:
        return
    if session.connection().dialect.name != "duckdb":
        session.execute(insert(target), rows)
        return
    columns = [target.c[name] for name in rows[0]]
    batch = pa.table({column.name: _arrow(column, rows) for column in columns})
    put_batch(session.connection(), target.name, batch)


def put_batch(connection: Connection, table: str, batch: pa.Table) -> None:
    """Insert the rows of `batch`, whose names are columns of `table`, into DuckDB."""
    # The dialect's cursor shares our transaction; Arrow is far faster than executemany.
    cursor = connection.connection.cursor()
    try:
        cursor.register("batch", batch)
        names_sql = ", ".join(f'"{name}"' for name in batch.column_names)
        cursor.execute(f"INSERT INTO {table} ({names_sql}) SELECT {names_sql} FROM batch")
        cursor.unregister("batch")
    finally:
        cursor.close()


def _arrow(column: Column[Any], rows: Sequence[Values]) -> pa.Array:
    values = [row[column.name] for row in rows]
    if isinstance(column.type, JSON):
        return pa.array([json.dumps(value) for value in values], pa.string())
    return pa.array(values, ARROW_TYPES[type(column.type)])

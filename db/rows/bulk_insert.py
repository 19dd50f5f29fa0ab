"""Insert many rows at once: as Arrow on DuckDB, as one statement elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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

from compile_hud.db.rows.mapping import Values

# Loading it takes 25 ms, which a command that stores nothing does without.
if TYPE_CHECKING:
    import pyarrow as pa


def arrow_type(column: Column[Any]) -> pa.DataType:
    """Return the type of `column` in DuckDB and in backups; JSON is text there."""
    import pyarrow as pa

    if isinstance(column.type, JSON):
        return pa.string()
    types = {
        String: pa.string(),
        Text: pa.string(),
        Boolean: pa.bool_(),
        Integer: pa.int64(),
        BigInteger: pa.int64(),
        Double: pa.float64(),
        DateTime: pa.timestamp("us", tz="UTC"),
    }
    return types[type(column.type)]


def put_rows(connection: Connection, table: Table[Any], rows: Sequence[Values]) -> None:
    """Insert `rows`, which all name the same columns of `table`."""
    if not rows:
        return
    # To hand an Arrow table over takes DuckDB longer than to parse the statement of a single row.
    if connection.dialect.name != "duckdb" or len(rows) == 1:
        connection.execute(insert(table), rows)
        return
    import pyarrow as pa

    columns = [table.c[name] for name in rows[0]]
    batch = pa.table({column.name: _arrow(column, rows) for column in columns})
    put_batch(connection, table.name, batch)


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
    import pyarrow as pa

    values = [row[column.name] for row in rows]
    if isinstance(column.type, JSON):
        values = [json.dumps(value) for value in values]
    return pa.array(values, arrow_type(column))

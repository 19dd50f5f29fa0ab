"""Read rows by columns: a driver needs longer to make a row of Python objects than to find it."""

from __future__ import annotations

import functools
import json
from collections import namedtuple
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import JSON, ColumnElement, Select, union_all
from sqlalchemy.engine import Connection
from sqlalchemy.sql.selectable import ExecutableReturnsRows

from compile_hud.db.rows.mapping import utc

# They take 60 ms to load, and a command that reads no such rows does without.
if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

# A row group of DuckDB.
_BATCH_ROWS: Final = 122_880


def read_rows(connection: Connection, query: ExecutableReturnsRows) -> list[Any]:
    """Return the rows of `query`, with a field for each column, JSON decoded and times in UTC."""
    result = connection.execute(query)
    types = {column.name: column.type for column in query.exported_columns}
    row_type = _row_type(tuple(types))
    if connection.dialect.name != "duckdb":
        return [row_type._make(map(_in_utc, row)) for row in result]
    # The driver looks up a time zone for every time in a row.
    table = result.cursor.to_arrow_table()
    columns = [
        _values(column, is_json=isinstance(kind, JSON))
        for column, kind in zip(table.columns, types.values(), strict=True)
    ]
    return list(map(row_type._make, zip(*columns, strict=True)))


def read_rows_of_each(
    connection: Connection, query: Select[Any], conditions: Sequence[ColumnElement[bool]]
) -> list[Any]:
    """Return the rows of `query` that match the first of `conditions`, then those of the next."""
    if not conditions:
        return []
    # One statement, since each costs a millisecond whatever it reads.
    return read_rows(connection, union_all(*(query.where(one) for one in conditions)))


def numpy_columns(connection: Connection, query: ExecutableReturnsRows) -> list[np.ndarray]:
    """Return the columns of `query`, none of them text, as arrays."""
    result = connection.execute(query)
    if connection.dialect.name == "duckdb":
        # Rows of Python objects would take twenty times as long.
        table = result.cursor.to_arrow_table()
        return [column.to_numpy() for column in table.columns]
    import numpy as np

    rows = result.all()
    return [np.array([row[index] for row in rows]) for index in range(len(result.keys()))]


def numpy_batches(
    connection: Connection, query: ExecutableReturnsRows
) -> Iterator[list[np.ndarray]]:
    """Yield the columns of some rows of `query` at a time, as `numpy_columns` returns them."""
    if connection.dialect.name != "duckdb":
        yield numpy_columns(connection, query)
        return
    # DuckDB computes a batch while it is read, and needs no memory for the whole result.
    for batch in connection.execute(query).cursor.to_arrow_reader(_BATCH_ROWS):
        yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]


@functools.cache
def _row_type(names: tuple[str, ...]) -> Any:
    return namedtuple("StoredRow", names)


def _in_utc(value: Any) -> Any:
    return utc(value) if isinstance(value, datetime) else value


def _values(column: pa.ChunkedArray, *, is_json: bool) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        naive: list[datetime | None] = column.cast(pa.timestamp("us")).to_numpy().tolist()
        return [value and value.replace(tzinfo=timezone.utc) for value in naive]
    values = column.to_pylist() if column.null_count else column.to_numpy().tolist()
    return _decoded(values) if is_json else values


def _decoded(texts: list[str | None]) -> list[Any]:
    # Nearly all results have the same text, an empty list.
    return [None if text is None else [] if text == "[]" else json.loads(text) for text in texts]

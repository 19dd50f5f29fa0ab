"""The tables as Markdown, for docs/reference/schema.md."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Table

from compile_hud.db.schema.tables import METADATA


def markdown() -> str:
    """Return one section a table: its purpose, and its columns."""
    tables = sorted(METADATA.tables.values(), key=lambda table: table.name)
    return "\n".join(map(_section, tables))


def _section(table: Table) -> str:
    about = inspect.cleandoc(table.info["about"])
    key = table.info["key"] or table.primary_key.columns.keys()
    rows = "".join(_row(column, key) for column in table.columns)
    return (
        f"## {table.name}\n\n{about}\n\n"
        f"| column | type | key | may be null |\n| --- | --- | --- | --- |\n{rows}"
    )


def _row(column: Column[Any], key: Sequence[str]) -> str:
    is_key = "yes" if column.name in key else ""
    may_be_null = "yes" if column.nullable else ""
    return f"| `{column.name}` | {str(column.type).lower()} | {is_key} | {may_be_null} |\n"

"""The tables as Markdown, for docs/schema.md."""

from __future__ import annotations

import inspect
from typing import Any

from compile_hud.db.schema.tables import Base


def markdown() -> str:
    """Return one section a table: its purpose, and its columns."""
    mappers = sorted(Base.registry.mappers, key=lambda mapper: mapper.local_table.description)
    return "\n".join(
        _section(mapper.class_, [column.name for column in mapper.primary_key])
        for mapper in mappers
    )


def _section(table: type[Base], key: list[str]) -> str:
    about = inspect.cleandoc(table.__doc__ or "")
    rows = "".join(_row(column, key) for column in table.__table__.columns)
    return (
        f"## {table.__tablename__}\n\n{about}\n\n"
        f"| column | type | key | may be null |\n| --- | --- | --- | --- |\n{rows}"
    )


def _row(column: Any, key: list[str]) -> str:
    is_key = "yes" if column.name in key else ""
    may_be_null = "yes" if column.nullable else ""
    return f"| `{column.name}` | {str(column.type).lower()} | {is_key} | {may_be_null} |\n"

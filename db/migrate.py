"""Create and upgrade the schema."""

from __future__ import annotations

from sqlalchemy import inspect
from sqlalchemy.engine import Connection

from db.tables import Base


def has_schema(connection: Connection) -> bool:
    """Return whether the tables are there."""
    return inspect(connection).has_table("runs")


def create(connection: Connection) -> None:
    """Create all tables."""
    Base.metadata.create_all(connection, checkfirst=False)

"""SQLAlchemy's dialect of DuckDB, without what it asks DuckDB first in every process.

The dialect opens two databases in memory: one for the names of all settings, to tell them from
those of its extensions, and one to see whether tables can have comments. That is 30 ms of a
processor, twice what the store itself takes to open.
"""

from __future__ import annotations

from typing import Any

import duckdb
from duckdb_sqlalchemy import ConnectionWrapper, Dialect
from sqlalchemy import dialects
from sqlalchemy.engine import Connection
from sqlalchemy.engine.default import DefaultDialect


class DuckDbDialect(Dialect):
    """The dialect of DuckDB whose settings are all DuckDB's own."""

    supports_statement_cache = True

    def initialize(self, connection: Connection) -> None:
        """Set what depends on the version of DuckDB; all that we work with have comments."""
        DefaultDialect.initialize(self, connection)
        self.supports_comments = True

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        """Return an open DuckDB as SQLAlchemy uses it; the arguments are those of DuckDB."""
        # Of the query of a URL, and a store's has none.
        del cparams["url_config"]
        return ConnectionWrapper(duckdb.connect(*cargs, **cparams))


def register_dialect() -> None:
    """Let URLs that begin with `duckdb:` mean this dialect."""
    # By its name alone SQLAlchemy would look for it among all installed packages: 15 ms.
    dialects.registry.register("duckdb", __name__, DuckDbDialect.__name__)

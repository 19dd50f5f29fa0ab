"""Prevent DuckDB from importing pandas.

DuckDB compares each parameter of a statement with `pandas.NaT`, and imports pandas for that. The
import costs half a second of a processor and 60 MB, for a value that no statement of ours has. If
the import fails, DuckDB takes the parameter unchanged. Code that imports pandas itself is not
affected.

DuckDB has no setting for this, and a `duckdb.Value` is compared as well: only None and statements
without parameters import nothing. Such statements would be compiled anew for each value.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

# DuckDB imports from C: the innermost Python code is the one that executes the statement. PyArrow
# imports pandas for the values of a column in the same way.
# DuckDB also imports PyArrow's datasets at the first write, which ask for pandas to read tables.
_REQUESTERS = ("duckdb_sqlalchemy", "compile_hud.db", "pyarrow.dataset")


class _NoPandas:
    """An importer that refuses pandas to `_REQUESTERS`."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for pandas, and leave other modules to the other importers."""
        del path, target
        if fullname == "pandas" and _requester().startswith(_REQUESTERS):
            raise ModuleNotFoundError("DuckDB needs no pandas here", name=fullname)
        return None


def refuse_pandas() -> None:
    """Let DuckDB work without pandas from now on, unless pandas is imported already."""
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())


def _requester() -> str:
    """Return the name of the module whose code, or a library below it, imports something."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith("<frozen importlib")
        or frame.f_globals.get("__name__") == __name__
    ):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))

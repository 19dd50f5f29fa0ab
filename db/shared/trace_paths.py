"""The location of traces: one folder of a store, one file for each result.

The writer of traces and the server of traces take the folder and the names from here.
"""

from __future__ import annotations

import re
from pathlib import Path

# The folder, and the address of the Perfetto UI, for the process that serves the dashboard.
TRACES_VARIABLE = "HUD_TRACES_DIR"
PERFETTO_VARIABLE = "HUD_PERFETTO_URL"
PERFETTO_URL = "https://ui.perfetto.dev"
SUFFIX = ".json.gz"
# The id of a result may come from a foreign document, and here it becomes a path.
_RESULT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_WEB_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")
_DUCKDB_FILE = re.compile(r"duckdb:///(?!:memory:)(.+)")


def is_web_address(text: str) -> bool:
    """Return whether `text` is the address of a page: http or https, a host, no user, no query."""
    return _WEB_ADDRESS.fullmatch(text) is not None


def trace_name(result_id: str) -> str | None:
    """Return the name of the trace of a result, None if its id cannot be a file name."""
    return f"{result_id}{SUFFIX}" if _RESULT_ID.fullmatch(result_id) else None


def traces_folder(store_url: str, *, named: Path | None = None) -> Path | None:
    """Return the folder of the traces of a store, None if it has none.

    It is the folder `named`, else the one next to a DuckDB file.
    """
    store_match = _DUCKDB_FILE.fullmatch(store_url)
    if named is not None or store_match is None:
        return named
    return Path(f"{store_match[1]}.traces")


def find_trace(folder: Path | None, result_id: str) -> Path | None:
    """Return the stored trace of a result in `folder`, None without one."""
    name = trace_name(result_id)
    if folder is None or name is None:
        return None
    path = folder / name
    return path if path.is_file() else None

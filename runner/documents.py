"""Read JSON files that somebody else may have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from db.errors import RecordError
from db.records import RunDocument


def read_json(path: Path) -> Any:
    """Return what the JSON file `path` holds; raise OSError, and RecordError when it is no JSON."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path.name} is not whole JSON: {error}") from error


def read_document(path: Path) -> RunDocument:
    """Return the run in a result file; raise OSError, and RecordError naming the file."""
    try:
        return RunDocument.from_json(read_json(path))
    except RecordError as error:
        raise RecordError(f"{path} is no result file of `hud run --json`: {error}") from error

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


def read_documents(path: Path) -> list[RunDocument]:
    """Return the runs in a result file; raise OSError, and RecordError naming the file."""
    try:
        content = read_json(path)
        items = content if isinstance(content, list) else [content]
        return [RunDocument.from_json(item) for item in items]
    except RecordError as error:
        raise RecordError(f"{path} is no result file of `hud run --json`: {error}") from error


def read_document(path: Path) -> RunDocument:
    """Return the one run in a result file; raise OSError, and RecordError naming the file."""
    documents = read_documents(path)
    if len(documents) != 1:
        raise RecordError(
            f"{path} holds {len(documents)} runs, not one; `hud ingest` stores them all, and then"
            " each can be named by its id"
        )
    return documents[0]

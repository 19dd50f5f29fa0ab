"""The files of a campaign: results as they come, in files of limited size."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compile_hud.db.records.results import CaseResult, Run

MAX_BYTES = 15 << 20
MAX_FILES = 5


class ResultFiles:
    """Result files in `folder`: a run, then a result a line, each flushed before the next.

    Each line is compressed by itself, so that a truncated file loses its last line at most. A file
    never grows beyond MAX_BYTES; when all are full, results lose their sources.
    """

    def __init__(self, folder: Path, *, run: Run, max_bytes: int = MAX_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._run = run
        self._max_bytes = max_bytes
        self._num_files = 0
        self._open_next()

    def add(self, result: CaseResult) -> None:
        """Append `result`."""
        document = result.to_json()
        packed = _packed(document)
        if self._size + len(packed) > self._max_bytes:
            if self._num_files < MAX_FILES:
                self._open_next()
            else:
                packed = _packed({**document, "kernels": [], "sources": [], "log_tail": ""})
        self._append(packed)

    def _open_next(self) -> None:
        self._num_files += 1
        self._path = self._folder / f"results-{self._num_files}.jsonl.gz"
        self._path.unlink(missing_ok=True)
        self._size = 0
        self._append(_packed(self._run.to_json()))

    def _append(self, packed: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        self._size += len(packed)


def read_results(path: Path) -> tuple[Run, list[CaseResult]]:
    """Return the run and the results of a file, without a truncated line."""
    lines = _lines(path)
    run, *results = [json.loads(line) for line in lines]
    return Run.from_json(run), [CaseResult.from_json(item) for item in results]


def _lines(path: Path) -> list[bytes]:
    whole: list[bytes] = []
    try:
        with gzip.open(path, "rb") as file:
            whole.extend(file)
    except EOFError:
        # The campaign was stopped while it wrote.
        pass
    return [line for line in whole if line.endswith(b"\n")]


def _packed(document: Mapping[str, Any]) -> bytes:
    return gzip.compress(json.dumps(document, allow_nan=False).encode() + b"\n", mtime=0)

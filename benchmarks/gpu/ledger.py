"""The ledger of GPU measurements: one file a campaign, each a result document (gzip)."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from compile_hud.db.records.results import Case, CaseResult, Outcome, Run, RunDocument

FOLDER = Path(__file__).with_name("ledger")
_ABSOLUTE_PATH = re.compile(
    r"(?<![\w.~/-])/(?:[\w.+-]+/)+(?:[\w.+-]+\.py\b|python[\d.]*(?![\w/-]))"
)
# The location of code on a machine is no part of a result, so a path begins here instead.
_ROOTS = ("site-packages", "models_zoo", "runner")
_NUM_PARTS = 3
# The zoo called these without a mask until then: a row from before is of other inputs.
_UNMASKED = frozenset(("distilbert", "roberta", "albert", "electra"))
_MASKED_SINCE = datetime(2026, 11, 27, 7, tzinfo=timezone.utc)
_INTERPRETER = "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case result with its run."""

    run: Run
    result: CaseResult

    @property
    def case(self) -> Case:
        return self.result.case

    @property
    def device_name(self) -> str:
        """Return the name of the device."""
        return str(self.run.environment.get("device_name") or self.case.device)


def read_ledger(folder: Path = FOLDER) -> list[RunDocument]:
    """Return the documents of the ledger, the oldest first; none without the folder."""
    documents = [
        RunDocument.from_json(json.loads(gzip.decompress(path.read_bytes())))
        for path in sorted(folder.glob("*.json.gz"))
    ]
    return sorted(documents, key=lambda document: document.run.started_at)


def append(document: RunDocument, *, folder: Path = FOLDER) -> Path:
    """Add `document` without large parts that explain no figure; return its file.

    A document of the same run replaces the previous one: a campaign may be merged twice.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = document.run
    results = tuple(
        replace(result, sources=(), log_tail=result.log_tail[-2000:] if _failed(result) else "")
        for result in document.results
    )
    path = folder / f"{run.started_at:%Y%m%d-%H%M%S}-{run.id[-6:]}.json.gz"
    content = without_machine_paths(
        json.dumps(RunDocument(run=run, results=results).to_json(), allow_nan=False)
    )
    path.write_bytes(gzip.compress(content.encode(), mtime=0))
    return path


def without_machine_paths(text: str) -> str:
    """Cut absolute paths of Python and its files to the part that all machines share."""
    return _ABSOLUTE_PATH.sub(lambda match: _short_path(match[0]), text)


def _short_path(path: str) -> str:
    parts = path.split("/")
    if parts[-1].startswith(_INTERPRETER) and not parts[-1].endswith(".py"):
        return _INTERPRETER
    starts = [parts.index(root) for root in _ROOTS if root in parts]
    return "/".join(parts[min(starts) :] if starts else parts[-_NUM_PARTS:])


def rows(documents: Iterable[RunDocument]) -> Iterator[Row]:
    """Yield every result of `documents` whose inputs are those of today, in their order."""
    for document in documents:
        is_old = document.run.started_at < _MASKED_SINCE
        for result in document.results:
            if not (is_old and result.case.model in _UNMASKED):
                yield Row(run=document.run, result=result)


def newest(documents: Iterable[RunDocument]) -> dict[tuple[str, str], Row]:
    """Return the newest row of each device and case; ok rows precede others."""
    rows_by_key: dict[tuple[str, str], Row] = {}
    for row in rows(documents):
        key = (row.device_name, row.case.key)
        if (
            row.result.outcome is Outcome.OK
            or key not in rows_by_key
            or _failed(rows_by_key[key].result)
        ):
            rows_by_key[key] = row
    return rows_by_key


def _failed(result: CaseResult) -> bool:
    return result.outcome is not Outcome.OK

"""The text of a model's files that a run stored, and the difference between two of them. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import Run
from compile_hud.db.shared.model_code import ModelCodeChange
from compile_hud.db.shared.text import counted, one_line, printable, shortened

# The fact of a run with the hash of the source of each model that keeps it.
MODEL_SOURCES = "model_sources"
# The language of a model's files among the sources of a store: JSON, see `to_text`.
MODEL_LANGUAGE = "model"
# A page and a terminal show so much; more is read in the repository.
MAX_DIFF_LINES = 200
MAX_LINE = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCodeDiff:
    """A model with other code, and the unified diff of its files; `note` says what is missing."""

    change: ModelCodeChange
    lines: tuple[str, ...] = ()
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the change with the diff as a JSON object."""
        return {**self.change.to_json(), "diff": list(self.lines), "note": self.note}


def to_text(files: Mapping[str, str], *, is_cut: bool) -> str:
    """Return files by their names as the text of a source; `is_cut` if some are not whole."""
    return json.dumps({"files": dict(files), "is_cut": is_cut}, sort_keys=True)


def source_hash(run: Run, model: str) -> str:
    """Return the hash of the source of `model` that `run` stored, empty for none."""
    hashes = run.environment.get(MODEL_SOURCES)
    return str(hashes.get(model) or "") if isinstance(hashes, Mapping) else ""


def kept_files(source: KernelSource) -> dict[str, str] | None:
    """Return the files of `source` by their names, None if some are not whole."""
    return None if _is_cut(source) else _files(source)


def code_diff(
    change: ModelCodeChange, *, baseline: KernelSource | None, candidate: KernelSource | None
) -> ModelCodeDiff:
    """Return `change` with the diff of the sources, or with a note if a side has none."""
    sides = [_files(source) for source in (baseline, candidate)]
    if None in sides:
        has_one = any(side is not None for side in sides)
        side = "only one run" if has_one else "neither run"
        setting = f"`[models.{change.model}] keep_source = true`"
        note = f"no diff: {side} kept the source; {setting} keeps it"
        return ModelCodeDiff(change=change, note=note)
    before, after = (side or {} for side in sides)
    lines = list(_diff(before, after))
    notes = []
    if len(lines) > MAX_DIFF_LINES:
        notes.append(f"{counted(len(lines) - MAX_DIFF_LINES, 'more line')} not shown")
    if any(source is not None and _is_cut(source) for source in (baseline, candidate)):
        notes.append("a run kept only the first part of the files")
    if not lines and not notes:
        notes.append("the kept files are the same")
    return ModelCodeDiff(change=change, lines=tuple(lines[:MAX_DIFF_LINES]), note="; ".join(notes))


def _diff(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the unified diff, safe for a terminal."""
    for name in sorted({*before, *after}):
        left, right = (side[name].split("\n") if name in side else [] for side in (before, after))
        ends = [f"{side}/{one_line(name)}" for side in ("baseline", "candidate")]
        for line in difflib.unified_diff(left, right, ends[0], ends[1], lineterm=""):
            yield shortened(printable(line, allowed="\t"), limit=MAX_LINE)


def _document(source: KernelSource) -> Mapping[str, Any]:
    try:
        document = json.loads(source.text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _files(source: KernelSource | None) -> dict[str, str] | None:
    files = None if source is None else _document(source).get("files")
    if not isinstance(files, dict):
        return None
    return {str(name): str(text) for name, text in files.items()}


def _is_cut(source: KernelSource) -> bool:
    return bool(_document(source).get("is_cut"))

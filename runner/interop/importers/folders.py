"""The files of folders that are imported as a whole, such as the results of asv."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from compile_hud.db.errors import RecordError
from compile_hud.runner.errors import ImportFailed
from compile_hud.runner.files.json_files import read_json
from compile_hud.runner.interop.importers.benchmark_tools.asv import BENCHMARKS_FILE, MACHINE_FILE

_CONFIG, _DEFAULT_RESULTS_DIR = "asv.conf.json", "results"
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_RESULTS_DIR = re.compile(r'"results_dir"\s*:\s*"([^"]+)"')
_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv")
# asv writes these in every results folder.
_WITHOUT_RESULTS = (MACHINE_FILE, BENCHMARKS_FILE)
# The first has these facts of a machine; the second describes a benchmark under each other key.
_MACHINE_FACT, _BENCHMARK_FACT, _VERSION = "arch", "type", "version"


def files_of(path: Path) -> list[Path]:
    """Return the file `path`, or the files of a folder, also of folders in it, by their names.

    asv's lists of machines and benchmarks, which have no results, are left out. Raises ImportFailed
    for a folder without files.
    """
    if not path.is_dir():
        return [] if _has_no_results(path) else [path]
    files = sorted(_in_folder(_results_folder(path)))
    if not files:
        raise ImportFailed(
            f"{path} has no file to import: expected files that end with"
            f" {', '.join(_ENDINGS)}, each also with .gz",
            path=path,
        )
    return files


def _results_folder(path: Path) -> Path:
    """Return the folder of results of asv's project in `path`, `path` itself without one."""
    try:
        config = (path / _CONFIG).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return path
    # The file is JSON with comments.
    match = _RESULTS_DIR.search(_COMMENT.sub("", config))
    return path / (match[1] if match else _DEFAULT_RESULTS_DIR)


def _in_folder(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        is_named = path.name.removesuffix(".gz").endswith(_ENDINGS)
        if is_named and not is_hidden and path.is_file() and not _has_no_results(path):
            yield path


def _has_no_results(path: Path) -> bool:
    """Return whether `path` is asv's list of benchmarks, or the facts of a machine."""
    if path.name not in _WITHOUT_RESULTS or not path.is_file():
        return False
    try:
        content = read_json(path)
    except (OSError, RecordError):
        return False
    if not isinstance(content, dict) or _VERSION not in content:
        return False
    others = [value for name, value in content.items() if name != _VERSION]
    is_machine = isinstance(content.get(_MACHINE_FACT), str)
    return is_machine or all(
        isinstance(value, dict) and _BENCHMARK_FACT in value for value in others
    )

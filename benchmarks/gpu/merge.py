"""Add the results of a campaign to the ledger: `python -m benchmarks.gpu.merge FILE...`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.gpu.campaign import without_own_processes
from benchmarks.gpu.ledger import FOLDER, append, read_ledger
from benchmarks.gpu.output import read_results
from benchmarks.gpu.page import PAGE, page_text
from compile_hud.db.records.results import CaseResult, Outcome, Run, RunDocument

# torch names the other processes that hold the memory of a device.
_NEIGHBOUR = re.compile(r"\bProcess \d+ has ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Add result files to the ledger and draw the page again; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.merge", description=__doc__)
    parser.add_argument("files", type=Path, nargs="*", help="results-*.jsonl.gz of campaigns")
    parser.add_argument("--ledger", type=Path, default=FOLDER)
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args(arguments)
    for document in merged(args.files):
        print(append(document, folder=args.ledger))
    args.page.write_text(page_text(read_ledger(args.ledger)), encoding="utf-8")
    return 0


def merged(paths: Sequence[Path]) -> list[RunDocument]:
    """Return a document for each run in the files, without the cases that had no time or room."""
    runs: dict[str, Run] = {}
    results: dict[str, list[CaseResult]] = {}
    for path in paths:
        run, new = read_results(path)
        runs[run.id] = run
        results.setdefault(run.id, []).extend(new)
    return [_document(run, results[run.id]) for run in runs.values()]


def _document(run: Run, results: Sequence[CaseResult]) -> RunDocument:
    complete = tuple(without_own_processes(result) for result in results if _says_something(result))
    finished_at = max((result.finished_at for result in complete), default=run.started_at)
    plan = tuple(result.case for result in complete)
    return RunDocument(run=replace(run, plan=plan, finished_at=finished_at), results=complete)


def _says_something(result: CaseResult) -> bool:
    """Return whether `result` is about its case, not about the time or the memory of a campaign."""
    if result.outcome is Outcome.OUT_OF_MEMORY:
        return _NEIGHBOUR.search(result.reason) is None
    return result.outcome is not Outcome.TIMEOUT


if __name__ == "__main__":
    sys.exit(main())

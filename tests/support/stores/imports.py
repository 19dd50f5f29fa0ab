"""Imports into the store of a terminal, and the runs in it afterwards."""

from __future__ import annotations

from typing import Any

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import CaseResult, RunDocument
from tests.support.records.v3_records import write_lines
from tests.support.terminal import Terminal


def import_records(terminal: Terminal, *records: Any, name: str = "records.json") -> Any:
    """Import records, one a line; return the report of the file."""
    write_lines(terminal.folder / name, records)
    return report_of(terminal, name)


def report_of(terminal: Terminal, name: str, *options: str) -> Any:
    (report,) = terminal.json("import", name, *options, "--json")["files"]
    return report


def runs(terminal: Terminal) -> list[RunDocument]:
    """Return every run in the store, oldest first."""
    store = terminal.store()
    documents = [load_document(store, summary.run.id) for summary in load_runs(store, limit=100)]
    return documents[::-1]


def only_result(terminal: Terminal) -> CaseResult:
    (document,) = runs(terminal)
    (result,) = document.results
    return result

"""An import that tests run in a process of its own, and the contents of a store after it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timezone
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.schema.tables import (
    CaseResultTable,
    MeasurementTable,
    RunTable,
    SampleTable,
    SeriesTable,
)
from compile_hud.db.store import Store
from compile_hud.runner.interop.import_report import ImportReport
from compile_hud.runner.interop.importers import importer
from compile_hud.runner.interop.importers.history import MissingValuePolicy
from compile_hud.runner.interop.importers.importer import HistoryImporter
from compile_hud.runner.interop.importers.vocabulary import UNKNOWN
from tests.support.records.v3_records import make_record, write_lines

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)
# Every file is several transactions, and most transactions are of one file.
_MEASUREMENTS_PER_WRITE = 25


def write_histories(folder: Path, *, num_nights: int) -> list[Path]:
    """Write five files; the last two have other metrics of the runs of the first two."""
    chance = random.Random(41)
    paths = []
    for number in range(5):
        metric = "abs_latency" if number < 3 else "dynamo_peak_mem"
        first = number % 3 * num_nights
        records = [
            make_record(
                metric, [chance.uniform(3, 5) for _ in range(4)], model=f"m{model}", night=night
            )
            for night in range(first, first + num_nights)
            for model in range(4)
        ]
        paths.append(write_lines(folder / f"{number}.json", records))
    return paths


def import_files(url: str, paths: Sequence[Path]) -> list[ImportReport]:
    """Import files in many small transactions; raise the errors of the store."""
    importer._MEASUREMENTS_PER_WRITE = _MEASUREMENTS_PER_WRITE
    missing = MissingValuePolicy(revision=UNKNOWN, machine=UNKNOWN, at=None)
    history = HistoryImporter(Store(url), missing_values=missing, format_name=None, now=lambda: NOW)
    reports = []
    for report in history.reports(paths):
        if not isinstance(report, ImportReport):
            raise report
        reports.append(report)
    return reports


def import_aloud(pipe: Connection, url: str, paths: Sequence[Path]) -> None:
    """Say when the import begins, and the name of each file whose report came."""
    pipe.send("ready")
    for path, _report in zip(paths, import_files(url, paths), strict=True):
        pipe.send(path.name)


def contents_of(store: Store) -> dict[str, Any]:
    """Return every imported run with its results and samples, and the numbers of rows."""
    tables = (RunTable, CaseResultTable, MeasurementTable, SampleTable, SeriesTable)
    with store.read() as connection:
        counts = {
            table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()
            for table in tables
        }
        headers = connection.execute(sa.select(SeriesTable.c.key, SeriesTable.c.num_points))
        points = {row[0]: row[1] for row in headers}
    documents = [load_document(store, item.run.id) for item in load_runs(store, limit=1_000)]
    return {
        "counts": counts,
        "points": points,
        "runs": {document.run.id: document.to_json() for document in documents},
    }

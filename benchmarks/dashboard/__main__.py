"""Measure how fast the store answers the dashboard after two years of nights.

Makes a store of 200 models under 8 modes on 3 machines in 730 nights, 6 metrics each: 21 million
measurements, and 14 million kernels of the last 60 nights. It is kept in `--folder` and made once.
Then asks what the overview, a series and a kernel diff ask, checks that the numbers are those of
the raw rows, prints a table and writes one document. `--small` is for a quick look.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from benchmarks.dashboard.fill import fill
from benchmarks.dashboard.history import FULL, SMALL, History, Size
from benchmarks.dashboard.queries import Questions, measure
from benchmarks.startup import RESULTS, describe_machine
from db.store import Store
from db.tables import CaseResultTable, KernelTable, MeasurementTable, SampleTable

# 1: first version.
SCHEMA_VERSION = 1
SEED = 1
NUM_CHECKED_SERIES = 5


def made(folder: Path, size: Size) -> Path:
    """Return the store of `size` in `folder`, made unless it is there whole."""
    path = folder / "dashboard.duckdb"
    done = folder / "dashboard.done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("dashboard.duckdb*"):
            old.unlink()
        fill(Store(f"duckdb:///{path}"), size, seed=SEED)
        done.touch()
    return path


def document_of(path: Path, size: Size, *, num_asked: int) -> dict[str, Any]:
    """Return what was measured of the store at `path`."""
    store = Store(f"duckdb:///{path}")
    machine = describe_machine()
    questions = Questions(store, History(size, seed=SEED), seed=SEED)
    return {
        "schema_version": SCHEMA_VERSION,
        "measured_at": datetime.now(timezone.utc).isoformat(),
        "machine": machine,
        "store_bytes": path.stat().st_size,
        "num_rows": _num_rows(store),
        "questions": measure(questions, num_asked=num_asked),
        "num_numbers_equal_to_raw_rows": questions.check(NUM_CHECKED_SERIES),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "load_after": [round(value, 2) for value in os.getloadavg()],
    }


def _num_rows(store: Store) -> dict[str, int]:
    tables = (CaseResultTable, MeasurementTable, SampleTable, KernelTable)
    with store.read() as connection:
        return {
            table.__tablename__: connection.execute(
                select(func.count()).select_from(table)
            ).scalar_one()
            for table in tables
        }


def main() -> None:
    """Make the store, measure and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".hud/benchmark-dashboard"))
    parser.add_argument("--small", action="store_true", help="10 models and 40 nights")
    parser.add_argument("--asked", type=int, default=60, help="times that each question is asked")
    parser.add_argument("--output", type=Path, default=RESULTS / "dashboard.json")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    size = SMALL if arguments.small else FULL
    path = made(arguments.folder / ("small" if arguments.small else "full"), size)
    document = document_of(path, size, num_asked=arguments.asked)
    arguments.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for row in document["questions"]:
        print(
            "{name:12} p50 {p50_ms:8.1f} ms, p95 {p95_ms:8.1f} ms, CPU {cpu_p50_ms:8.1f}".format(
                **row
            )
        )


if __name__ == "__main__":
    main()

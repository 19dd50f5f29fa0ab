"""Measure the speed of the dashboard after two years of nights.

Makes a store of 200 models under 8 modes on 3 machines in 730 nights, 6 metrics each. That is 21
million measurements, and 14 million kernels of the last 60 nights. The store is made once and stays
in `--folder`. Then measures the `--parts`, prints them and writes them to one document; other parts
of it stay unchanged. `--small` is for a quick look.

- `questions`: queries of the overview, trends, a series and a kernel diff; the store stays open and
  garbage is collected as in the dashboard. Their numbers are compared with the raw rows.
- `trends`: the queries of the overview and of trends only; `--store` names any store of such rows.
- `sessions`: open pages that poll.
- `pages`: pages opened in Chromium.
- `peers`: PostgreSQL and SQLite with the rows of a smaller store, of 200 models and 12 nights.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import resource
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from benchmarks.dashboard.fill import fill
from benchmarks.dashboard.history import FULL, MIDDLE, SMALL, History, Size
from benchmarks.dashboard.pages import measure_pages
from benchmarks.dashboard.peers import measure_peers
from benchmarks.dashboard.queries import TRENDS, Questions, measure
from benchmarks.dashboard.sessions import measure_sessions
from benchmarks.startup import RESULTS, commit, describe_machine
from compile_hud.app.server import gc_freeze
from compile_hud.db.schema.tables import CaseResultTable, KernelTable, MeasurementTable, SampleTable
from compile_hud.db.store import Store

# 2: one part each for questions, sessions, pages and peers.
SCHEMA_VERSION = 2
PARTS = ("questions", "trends", "sessions", "pages", "peers")
SESSION_S = 30.0
SEED = 1
NUM_CHECKED_SERIES = 5


def made(folder: Path, size: Size) -> Path:
    """Return the store of `size` in `folder`; make it unless it is complete."""
    path = folder / "dashboard.duckdb"
    done = folder / "dashboard.done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("dashboard.duckdb*"):
            old.unlink()
        fill(Store(f"duckdb:///{path}"), size, seed=SEED)
        done.touch()
    return path


def _settle() -> None:
    """Load and freeze what the dashboard has before its first query."""
    # Streamlit has loaded it. DuckDB looks for it at every query, which takes long without it.
    importlib.import_module("pandas")
    gc_freeze.freeze()


def _questions(store: Store, size: Size, *, num_questions: int) -> dict[str, Any]:
    questions = Questions(store, History(size, seed=SEED), seed=SEED)
    _settle()
    return {
        "questions": measure(questions, num_questions=num_questions),
        "num_rows": _num_rows(store),
        "num_numbers_equal_to_raw_rows": questions.check(NUM_CHECKED_SERIES),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _trends(store: Store, size: Size, *, num_questions: int) -> dict[str, Any]:
    questions = Questions(store, History(size, seed=SEED), seed=SEED)
    _settle()
    return {
        "commit": commit(),
        "questions": measure(questions, num_questions=num_questions, names=TRENDS),
        "num_rows": _num_rows(store),
    }


def _peers(folder: Path, size: Size, *, num_questions: int) -> dict[str, Any]:
    store = Store(f"duckdb:///{made(folder, size)}", keeps_open=True)
    peers = measure_peers(store, History(size, seed=SEED), seed=SEED, num_questions=num_questions)
    return {"size": asdict(size), "num_rows": _num_rows(store), "peers": peers}


def measured(
    part: str, store: Store, *, size: Size, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return the measurements of `part`, with the machine and its load."""
    machine = describe_machine()
    if part == "questions":
        questions = _questions(store, size, num_questions=arguments.num_questions)
    elif part == "trends":
        questions = _trends(store, size, num_questions=arguments.num_questions)
    elif part == "sessions":
        questions = measure_sessions(store.url, seconds=SESSION_S)
    elif part == "pages":
        history = History(size, seed=SEED)
        questions = measure_pages(store, history, num_rounds=arguments.rounds)
    else:
        small = SMALL if arguments.small else MIDDLE
        name = "small" if arguments.small else "middle"
        questions = _peers(arguments.folder / name, small, num_questions=arguments.num_questions)
    return {
        "measured_at": datetime.now(timezone.utc).isoformat(),
        "machine": machine,
        **questions,
        "load_after": [round(value, 2) for value in os.getloadavg()],
    }


def _num_rows(store: Store) -> dict[str, int]:
    tables = (CaseResultTable, MeasurementTable, SampleTable, KernelTable)
    with store.read() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables
        }


def main() -> None:
    """Make the store, measure and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".hud/benchmark-dashboard"))
    parser.add_argument("--store", type=Path, help="a filled store, instead of one of the folder")
    parser.add_argument("--small", action="store_true", help="10 models and 40 nights")
    parser.add_argument("--models", type=int, help="so many models, of two years all the same")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--asked",
        dest="num_questions",
        type=int,
        default=60,
        help="times that each question is asked",
    )
    parser.add_argument("--rounds", type=int, default=5, help="times that each page is opened")
    parser.add_argument("--output", type=Path, default=RESULTS / "dashboard.json")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    size, name = (SMALL, "small") if arguments.small else (FULL, "full")
    if arguments.models:
        size, name = replace(size, num_models=arguments.models), f"{name}-{arguments.models}"
    folder: Path = arguments.folder / name
    path = arguments.store or made(folder, size)
    store = Store(f"duckdb:///{path}", keeps_open=True)
    store.migrate()
    output: Path = arguments.output
    document = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    if document.get("schema_version") != SCHEMA_VERSION:
        document = {"schema_version": SCHEMA_VERSION}
    document["store_bytes"] = path.stat().st_size
    for part in arguments.parts:
        document[part] = measured(part, store, size=size, arguments=arguments)
        output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        print(json.dumps(document[part], indent=2))


if __name__ == "__main__":
    main()

"""Compare ordinary nights of the demo, in which nothing changed, and count the answers.

Fills stores with synthetic histories of several seeds, and compares pairs of successive nights
between which nothing was planted, as `hud compare` does: with the history of the store, and without
one, as two files compare. Counts verdicts, and how often the 95 % interval of a ratio holds 1. The
ceiling is the share of equal levels that TOST can call unchanged when all noise is known exactly:
a single cold compile of the demo has an sd of 3 %. Writes one document.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.startup import RESULTS, describe_machine
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.queries.series import load_recent_histories
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Verdict
from compile_hud.db.store import Store
from compile_hud.runner.analysis.comparison.noise_model import HISTORY_RUNS, NOISE_METRICS
from compile_hud.runner.analysis.comparison.runs import CaseComparison, compare_results
from compile_hud.runner.demo.history import LAUNCH_SD, NIGHT_SD, NOISY, synthetic_history

SCHEMA_VERSION = 1
NUM_NIGHTS = 60
NUM_SEEDS = 4
# Nothing is planted between these nights and the ones after them, in the same environment.
FIRST_NIGHTS = (24, 28, 38, 44, 50)
# The spread of a compilation of the demo.
COMPILE_SD = 0.03
GROUPS = {
    "latency_s": "latency and speedup",
    "speedup": "latency and speedup",
    "compile_cold_s": "compile time",
    "compile_warm_s": "compile time",
}
CHANGED = (Verdict.REGRESSION, Verdict.IMPROVEMENT)


def main() -> None:
    """Compare the nights, and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS, help="demo stores, 5 pairs each")
    parser.add_argument("--output", type=Path, default=RESULTS / "answers_nights.json")
    arguments = parser.parse_args()
    machine = describe_machine()
    rows: dict[str, list[CaseComparison]] = defaultdict(list)
    for seed in range(arguments.seeds):
        with tempfile.TemporaryDirectory() as folder:
            for source, row in compared_nights(Path(folder), seed=seed):
                rows[source].append(row)
    document = {
        "schema_version": SCHEMA_VERSION,
        "measured_at": datetime.now(timezone.utc).isoformat(),
        "machine": machine,
        "num_pairs": arguments.seeds * len(FIRST_NIGHTS),
        "answers": {source: answers(group) for source, group in rows.items()},
        "ceilings": {
            "compile_cold_s": ceiling("compile_cold_s", sd=COMPILE_SD),
            "compile_warm_s": ceiling("compile_warm_s", sd=math.sqrt(1.5) * COMPILE_SD),
            "speedup": ceiling("speedup", sd=math.hypot(NIGHT_SD, LAUNCH_SD / math.sqrt(3))),
        },
    }
    arguments.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document["answers"], indent=2))


def compared_nights(folder: Path, *, seed: int) -> Iterator[tuple[str, CaseComparison]]:
    """Yield the rows of each pair of nights with noise, with a history and without one."""
    store = Store(f"duckdb:///{folder / 'demo.duckdb'}")
    store.migrate()
    now = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    documents = list(synthetic_history(now=lambda: now, nights=NUM_NIGHTS, seed=seed))
    with store.write() as connection:
        put_documents(connection, documents, at=now)
    ids = [summary.run.id for summary in load_runs(store, limit=NUM_NIGHTS)][::-1]
    for night in FIRST_NIGHTS:
        before, after = (load_document(store, ids[number]) for number in (night, night + 1))
        histories = load_recent_histories(
            store, after.run, metrics=NOISE_METRICS, num_runs=HISTORY_RUNS
        )
        for source, series in (("history", histories), ("no history", ())):
            for row in compare_results(before, after, histories=series):
                if row.metric in GROUPS and row.comparison.ratio is not None:
                    yield source, row


def answers(rows: Sequence[CaseComparison]) -> Mapping[str, Any]:
    """Return the counts of verdicts by group, by metric and over all."""
    parts: dict[str, list[CaseComparison]] = defaultdict(list)
    for row in rows:
        parts["all"].append(row)
        parts[GROUPS[row.metric]].append(row)
        parts[row.metric].append(row)
        if (row.case.model, row.case.mode) == NOISY and row.metric in ("latency_s", "speedup"):
            parts["the series that is noisy by itself"].append(row)
        elif GROUPS[row.metric] == "latency and speedup":
            parts["latency and speedup of ordinary series"].append(row)
    return {name: _counted(part) for name, part in parts.items()}


def _counted(rows: Sequence[CaseComparison]) -> Mapping[str, Any]:
    verdicts = Counter(row.comparison.verdict for row in rows)
    return {
        "num_comparisons": len(rows),
        "unchanged_share": verdicts[Verdict.UNCHANGED] / len(rows),
        "inconclusive_share": verdicts[Verdict.INCONCLUSIVE] / len(rows),
        "num_false": sum(verdicts[verdict] for verdict in CHANGED),
        "coverage": _share(
            row.comparison.low <= 1 <= row.comparison.high
            for row in rows
            if row.comparison.low is not None and row.comparison.high is not None
        ),
        "median_half_width_pct": statistics.median(
            100 * (math.sqrt(row.comparison.high / row.comparison.low) - 1)
            for row in rows
            if row.comparison.low and row.comparison.high
        ),
    }


def ceiling(metric: str, *, sd: float) -> float:
    """Return the share of pairs of equal levels, each off by `sd`, that TOST calls unchanged."""
    normal = statistics.NormalDist()
    room = math.log1p(METRICS[metric].relevance_floor) / (math.sqrt(2) * sd)
    return max(0.0, 2 * normal.cdf(room - normal.inv_cdf(0.95)) - 1)


def _share(claims: Iterable[bool]) -> float:
    known = list(claims)
    return sum(known) / len(known)


if __name__ == "__main__":
    main()

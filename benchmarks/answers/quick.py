"""Compare two runs of the quick suite of one build: answers at once, and after `--settle`.

Each pair is two `hud run --suite quick` in a store of its own, in which nothing changed. `hud
compare` then answers from the two runs alone, and with `--settle` after more launches of what is
undecided. Writes one document: verdicts by group, false changes, and coverage of the intervals.
"""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.hud_command import run_hud
from benchmarks.startup import RESULTS, describe_machine

SCHEMA_VERSION = 1
FAIL_ABOVE = "5%"
GROUPS = {
    "speedup": "speedup",
    "latency_s": "latency",
    "latency_cpu_s": "latency",
    "eager_latency_s": "latency",
    "eager_latency_cpu_s": "latency",
    "compile_cold_s": "compile time",
    "compile_warm_s": "compile time",
}
CHANGED = ("regression", "improvement")
DECIDED = (*CHANGED, "unchanged", "identical")
# A run exits with 1 if a regression was confirmed.
_hud = functools.partial(run_hud, expected=(0, 1))


def compare_pair(folder: Path, *, minutes: float) -> dict[str, Any]:
    """Return the rows of two runs in a new store, at once and after `--settle`."""
    started_s = time.monotonic()
    for _ in range(2):
        _hud(folder, "run", "--suite", "quick", "--fail-on", "none")
    measured_s = time.monotonic() - started_s
    listed = json.loads(_hud(folder, "runs", "--json"))
    candidate, baseline = (run["id"] for run in listed)
    names = ("compare", baseline, candidate, "--fail-above", FAIL_ABOVE, "--json")
    at_once = json.loads(_hud(folder, *names))["rows"]
    started_s = time.monotonic()
    settled = json.loads(_hud(folder, *names, "--settle", str(minutes)))["rows"]
    return {
        "measured_s": measured_s,
        "settled_s": time.monotonic() - started_s,
        "at_once": [_row(row) for row in at_once],
        "settled": [_row(row) for row in settled],
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("metric", "ratio", "interval", "verdict", "reason")
    case = row["case"]
    name = "/".join(str(case[key]) for key in ("model", "phase", "shape", "mode"))
    return {"case": name, **{key: row[key] for key in fields}}


def answers(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the counts of verdicts by group."""
    return {
        name: _counted([row for row in rows if GROUPS.get(row["metric"]) == name])
        for name in dict.fromkeys(GROUPS.values())
    }


def _counted(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    verdicts = Counter(row["verdict"] for row in rows)
    intervals = [row["interval"] for row in rows if row["interval"] is not None]
    num = len(rows)
    return {
        "num_comparisons": num,
        "decided_share": sum(verdicts[name] for name in DECIDED) / num if num else None,
        "num_false": sum(verdicts[name] for name in CHANGED),
        "coverage": sum(low <= 1 <= high for low, high in intervals) / len(intervals)
        if intervals
        else None,
        "verdicts": dict(verdicts),
    }


def main() -> None:
    """Measure the pairs, and write the document after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--settle", type=float, default=3.0, metavar="MINUTES")
    parser.add_argument("--output", type=Path, default=RESULTS / "answers_quick.json")
    options = parser.parse_args()
    machine = describe_machine()
    pairs = []
    for _ in range(options.pairs):
        with tempfile.TemporaryDirectory() as folder:
            pairs.append(compare_pair(Path(folder), minutes=options.settle))
        document = {
            "schema_version": SCHEMA_VERSION,
            "benchmark": "answers_quick",
            "measured_at": datetime.now(timezone.utc).isoformat(),
            "machine": machine,
            "fail_above": FAIL_ABOVE,
            "settle_minutes": options.settle,
            "num_pairs": len(pairs),
            "at_once": answers([row for pair in pairs for row in pair["at_once"]]),
            "settled": answers([row for pair in pairs for row in pair["settled"]]),
            "pairs": pairs,
        }
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        shown = {name: document[name] for name in ("at_once", "settled")}
        print(json.dumps(shown, indent=1), flush=True)


if __name__ == "__main__":
    main()

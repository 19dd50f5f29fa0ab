"""Measure how long `hud import` takes for a history of thousands of commits.

Each commit is a run with a few benchmarks. One history is a file of PyTorch's benchmark records,
with one benchmark or several a commit; the other is a results folder of asv, a file a commit.
Each is imported into an empty store. `--before` does the same with another checkout. The time is
the CPU time of the whole process, because other programs stretch the wall time. Writes one JSON
document.

    python -m benchmarks.import_history --before CHECKOUT
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from hashlib import sha1
from pathlib import Path
from typing import Any

from benchmarks.startup import RESULTS, ROOT, commit, describe_machine, usage_of

# 1: first version.
SCHEMA_VERSION = 1
NUM_COMMITS = 5_000
NUM_BENCHMARKS = 10
NUM_TURNS = 3
FIRST_COMMIT_S = 1_500_000_000
COMMIT_EVERY_S = 7_200
NOISE = 0.01


def commits(num_commits: int) -> Iterator[tuple[str, int]]:
    """Yield the hash and the time of each commit, oldest first."""
    for number in range(num_commits):
        digest = sha1(str(number).encode(), usedforsecurity=False).hexdigest()
        yield digest, FIRST_COMMIT_S + number * COMMIT_EVERY_S


def write_records(path: Path, *, num_commits: int, num_benchmarks: int) -> Path:
    """Write PyTorch's benchmark records, one a line."""
    noise = random.Random(1)
    with path.open("w", encoding="ascii") as file:
        for digest, at_s in commits(num_commits):
            for number in range(num_benchmarks):
                record = {
                    "timestamp": at_s,
                    "schema_version": "v3",
                    "repo": "someone/project",
                    "head_branch": "main",
                    "head_sha": digest,
                    "runners": [{"name": "box", "type": "box"}],
                    "benchmark": {
                        "name": "suite",
                        "mode": "inference",
                        "dtype": "float32",
                        "extra_info": {"compile_mode": "default", "device": "cpu"},
                    },
                    "model": {"name": f"model{number}"},
                    "metric": {
                        "name": "abs_latency",
                        "benchmark_values": [10 * noise.gauss(1, NOISE)],
                    },
                }
                file.write(f"{json.dumps(record)}\n")
    return path


def write_asv(folder: Path, *, num_commits: int, num_benchmarks: int) -> Path:
    """Write a results folder of asv, one file for each commit."""
    noise = random.Random(2)
    machine = {
        "arch": "x86_64",
        "cpu": "CPU",
        "machine": "box",
        "num_cpu": "8",
        "os": "",
        "ram": "",
    }
    (folder / "box").mkdir(parents=True)
    (folder / "box" / "machine.json").write_text(json.dumps({**machine, "version": 1}))
    for digest, at_s in commits(num_commits):
        results = {
            f"suite.time_{number}": [[noise.gauss(1, NOISE)], [], "1"]
            for number in range(num_benchmarks)
        }
        document = {
            "commit_hash": digest,
            "env_name": "virtualenv-py3.12",
            "date": at_s * 1000,
            "params": machine,
            "python": "3.12",
            "requirements": {},
            "env_vars": {},
            "result_columns": ["result", "params", "version"],
            "results": results,
            "durations": {},
            "version": 2,
        }
        name = f"{digest[:8]}-virtualenv-py3.12.json"
        (folder / "box" / name).write_text(json.dumps(document))
    return folder


def import_once(path: Path, *, checkout: Path, folder: Path) -> dict[str, float]:
    """Import `path` into an empty store with the code of `checkout`."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        command = [sys.executable, "-P", "-m", "compile_hud.runner", "import", str(path), "--json"]
        command += ["--store", f"duckdb:///{name}/store.duckdb"]
        env = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src"), "HUD_STATE_DIR": name}
        started_s = time.perf_counter()
        with (Path(name) / "report.json").open("wb") as report:
            process = subprocess.Popen(command, cwd=name, env=env, stdout=report)
            usage = usage_of(process, command=command)
        return {
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
            "wall_s": round(time.perf_counter() - started_s, 2),
            "peak_bytes": usage.ru_maxrss * 1024,
        }


def histories(folder: Path, *, num_commits: int, num_benchmarks: int) -> dict[str, Path]:
    """Write the histories and return their paths by name."""
    one = write_records(folder / "one.jsonl", num_commits=num_commits, num_benchmarks=1)
    several = write_records(
        folder / "several.jsonl", num_commits=num_commits, num_benchmarks=num_benchmarks
    )
    asv = write_asv(folder / "results", num_commits=num_commits, num_benchmarks=num_benchmarks)
    return {
        "records, 1 benchmark": one,
        f"records, {num_benchmarks} benchmarks": several,
        f"asv, {num_benchmarks} benchmarks": asv,
    }


def measure(
    paths: Mapping[str, Path], *, checkouts: Mapping[str, Path], folder: Path, num_turns: int
) -> dict[str, Any]:
    """Return the times of each history with each checkout, which take turns."""
    turns: dict[str, list[dict[str, float]]] = {}
    for _turn in range(num_turns):
        for name, path in paths.items():
            for version, checkout in checkouts.items():
                title = f"{name}{version}"
                done = import_once(path, checkout=checkout, folder=folder)
                turns.setdefault(title, []).append(done)
                print(f"{title:32} {done['cpu_s']} s of CPU time", file=sys.stderr)
    return {
        title: {"median_cpu_s": statistics.median(item["cpu_s"] for item in done), "turns": done}
        for title, done in turns.items()
    }


def main() -> None:
    """Measure, write the document and print its medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--commits", type=int, default=NUM_COMMITS)
    parser.add_argument("--benchmarks", type=int, default=NUM_BENCHMARKS)
    parser.add_argument("--turns", type=int, default=NUM_TURNS)
    parser.add_argument("--out", type=Path, default=RESULTS / "import_history.json")
    options = parser.parse_args()
    machine = describe_machine()
    checkouts = {"": ROOT} | ({", before": options.before} if options.before else {})
    with tempfile.TemporaryDirectory(prefix="hud-import-") as name:
        paths = histories(
            Path(name), num_commits=options.commits, num_benchmarks=options.benchmarks
        )
        results = measure(paths, checkouts=checkouts, folder=Path(name), num_turns=options.turns)
    document = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "import_history",
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "commit_before": "" if options.before is None else commit(options.before),
        "machine": {**machine, "load_after": [round(value, 2) for value in os.getloadavg()]},
        "num_commits": options.commits,
        "num_benchmarks": options.benchmarks,
        "histories": results,
    }
    options.out.write_text(json.dumps(document, indent=2) + "\n", encoding="ascii")
    for title, row in results.items():
        print(f"{title:32} {row['median_cpu_s']}")


if __name__ == "__main__":
    main()

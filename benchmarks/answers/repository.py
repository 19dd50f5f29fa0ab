"""Rates at which `hud compare --repo` finds planted slowdowns, and at which equal commits fail.

Each trial makes a git repository whose second commit does 5, 8, 12 or 15 % more of the same work
(0 %: a comment). It compares the two commits with `hud compare --repo`, and then with each other
tool in at most the same time. Trials of all sizes take turns, so that the load of
the machine falls on all alike. The document is written after each trial, and `--resume` continues
it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.answers.peer_tools import PEERS, PeerSetup, ask
from benchmarks.answers.planted_repository import (
    BLOCKS,
    MODEL,
    PlantedRepository,
    make_repository,
)
from benchmarks.precision.rates import wilson_interval
from benchmarks.startup import RESULTS, ROOT, describe_machine

# 1: first version.
SCHEMA_VERSION = 1
OURS = "hud compare --repo"
FAIL_ABOVE = "5%"
# -P keeps the working folder, which is a repository of models, off the path.
_HUD = (sys.executable, "-P", "-m", "compile_hud.runner")


def compare_commits(repository: PlantedRepository, *, minutes: float) -> dict[str, Any]:
    """Return the answer of `hud compare --repo`, and the seconds that it took."""
    started_s = time.monotonic()
    done = subprocess.run(
        [
            *(*_HUD, "compare", "--repo", ".", repository.base, repository.head),
            *("--model", MODEL, "--minutes", str(minutes), "--fail-above", FAIL_ABOVE, "--json"),
        ],
        cwd=repository.folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))},
        capture_output=True,
        text=True,
        check=False,
    )
    took_s = time.monotonic() - started_s
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(f"hud compare ended with {done.returncode}: {done.stderr[-2000:]}")
    document = json.loads(done.stdout)
    changed = [row for row in document["rows"] if row["verdict"] in ("regression", "improvement")]
    (time_row,) = (row for row in document["rows"] if row["metric"] == "latency_cpu_s")
    return {
        "tool": OURS,
        "exit_code": done.returncode,
        "is_regression": time_row["verdict"] == "regression",
        "ratio": time_row["ratio"],
        "interval": time_row["interval"],
        "num_pairs": document["cases"][0]["num_pairs"],
        "changed": sorted(row["metric"] for row in changed),
        "sentences": document["sentences"],
        "took_s": took_s,
    }


def trial(
    slowdown_pct: int, *, minutes: float, python: Path | None, hyperfine: Path, tools: Sequence[str]
) -> dict[str, Any]:
    """Return the answers of all tools about one new repository."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        repository = make_repository(folder, slowdown_pct=slowdown_pct)
        load = os.getloadavg()[0]
        ours = compare_commits(repository, minutes=minutes)
        answers = [ours]
        if python is not None:
            peers = folder / "peers"
            peers.mkdir()
            setup = PeerSetup(python=python, hyperfine=hyperfine, folder=peers)
            answers += [
                ask(tool, repository, setup=setup, budget_s=ours["took_s"]).to_json()
                for tool in tools
            ]
    return {"slowdown_pct": slowdown_pct, "load": load, "answers": answers}


def planned(
    num_trials: int,
    *,
    num_same: int,
    sizes: Sequence[int] = tuple(BLOCKS),
    done: Sequence[int] = (),
) -> Iterator[int]:
    """Yield the slowdown of each trial that is not in `done`, all `sizes` in turn."""
    num_done = Counter(done)
    for number in range(max(num_trials, num_same)):
        for slowdown_pct in sizes:
            num_wanted = num_trials if slowdown_pct else num_same
            if num_done[slowdown_pct] <= number < num_wanted:
                yield slowdown_pct


def summarise(trials: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each tool and slowdown how many trials it called a regression, of how many."""
    rows = []
    for tool in (OURS, *PEERS):
        for slowdown_pct in BLOCKS:
            answers = [
                answer
                for item in trials
                if item["slowdown_pct"] == slowdown_pct
                for answer in item["answers"]
                if answer["tool"] == tool
            ]
            if answers:
                rows.append(_row(tool, slowdown_pct, answers))
    return rows


def _row(tool: str, slowdown_pct: int, answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    num_called = sum(answer["is_regression"] for answer in answers)
    ratios = [answer["ratio"] for answer in answers if answer["ratio"]]
    return {
        "tool": tool,
        "slowdown_pct": slowdown_pct,
        "num_trials": len(answers),
        "num_regressions": num_called,
        "share": num_called / len(answers),
        "share_interval": list(wilson_interval(num_called, len(answers))),
        "median_ratio": statistics.median(ratios) if ratios else None,
        "median_took_s": statistics.median(answer["took_s"] for answer in answers),
        "max_took_s": max(answer["took_s"] for answer in answers),
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20, help="for each slowdown")
    parser.add_argument("--same-trials", type=int, default=50, help="of equal commits")
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=list(BLOCKS), choices=list(BLOCKS), help="percent"
    )
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--peer", type=Path, help="a Python with asv, pytest-benchmark and torch")
    parser.add_argument("--hyperfine", type=Path, default=Path("hyperfine"))
    parser.add_argument("--tools", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--resume", action="store_true", help="go on with the document")
    parser.add_argument("--output", type=Path, default=RESULTS / "answers_repository.json")
    return parser.parse_args()


def main() -> int:
    """Run the trials and write the document; return the exit status."""
    options = _parse()
    trials: list[dict[str, Any]] = []
    if options.resume and options.output.is_file():
        trials = json.loads(options.output.read_text(encoding="utf-8"))["trials"]
    plan = planned(
        options.trials,
        num_same=options.same_trials,
        sizes=options.sizes,
        done=[item["slowdown_pct"] for item in trials],
    )
    for slowdown_pct in plan:
        trials.append(
            trial(
                slowdown_pct,
                minutes=options.minutes,
                python=options.peer and options.peer.absolute(),
                hyperfine=options.hyperfine,
                tools=options.tools,
            )
        )
        document = {
            "schema_version": SCHEMA_VERSION,
            "benchmark": "answers_repository",
            "at": datetime.now(timezone.utc).isoformat(),
            "machine": describe_machine(),
            "fail_above": FAIL_ABOVE,
            "minutes": options.minutes,
            "summary": summarise(trials),
            "trials": trials,
        }
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        called = ", ".join(
            f"{item['tool']} {'yes' if item['is_regression'] else 'no'} ({item['took_s']:.0f} s)"
            for item in trials[-1]["answers"]
        )
        print(f"{slowdown_pct:2} %: {called}", flush=True)
    for row in summarise(trials):
        share = f"{row['num_regressions']} of {row['num_trials']}"
        print(
            f"{row['tool']:30} {row['slowdown_pct']:2} %  {share:>9}  {row['median_took_s']:.0f} s"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure the overhead of a run beyond its unavoidable work.

Runs `hud run --suite quick --json` twice in one fresh state directory: the first start also builds
the parts that a toolchain caches (precompiled header), the second finds them. Wall time is taken
from outside.

Unavoidable are the steps `build`, `compile`, `warm up` and `sample` of the requested cases.
Everything else is overhead:

- interpreter and imports, the worker host, facts and peaks, priming,
- the reference cases, the eager oracle, accuracy, memory and the other checks of the first launch,
- forks, reports, the spool and the store.

The header is compiled for torch.compile, which without priming builds it within the first
compilation: `ratio_with_header` counts it as unavoidable. Writes one JSON document.
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
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.startup import RESULTS, ROOT, BenchmarkError, describe_machine
from compile_hud.db.records.results import CaseResult, Outcome, RunDocument
from compile_hud.runner.files.json_files import read_document

# 1: first version.
SCHEMA_VERSION = 1
UNAVOIDABLE = ("build", "compile", "warm up", "sample")
GOAL_RATIO = 1.15


def run_hud(folder: Path, *, arguments: Sequence[str], timeout_s: float) -> dict[str, Any]:
    """Return the cost of one `hud run` in `folder`, part by part; raise BenchmarkError."""
    path = folder / "run.json"
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("HUD_") or key == "HUD_LOCK_DIR"
    }
    command = [sys.executable, "-m", "compile_hud.runner", "run", *arguments, "--json", str(path)]
    load = os.getloadavg()
    started_at = time.time()
    with (folder / "run.log").open("wb") as log:
        done = subprocess.run(
            [*command, "--fail-on", "none"],
            cwd=folder,
            env={**environment, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    ended_at = time.time()
    if done.returncode != 0:
        raise BenchmarkError((folder / "run.log").read_text(encoding="utf-8")[-2000:])
    times = account(read_document(path), started_at=started_at, ended_at=ended_at)
    return {"load_before": [round(value, 2) for value in load], **times}


def account(document: RunDocument, *, started_at: float, ended_at: float) -> dict[str, Any]:
    """Return the parts of a run's time between two Unix times; raise BenchmarkError.

    The parts add up to `wall_s`. Priming has no record of its own: it is the time before the first
    case of Inductor beyond the usual time between two cases.
    """
    run, results = document.run, document.results
    broken = [result for result in results if result.outcome is not Outcome.OK]
    if run.finished_at is None or broken:
        raise BenchmarkError(f"not finished, or not ok: {[result.case.key for result in broken]}")
    requested = [result for result in results if not result.case.is_reference]
    references = [result for result in results if result.case.is_reference]
    steps_s, launches = _steps(requested), list(_launches(requested))
    gaps_s = _gaps(document)
    priming_s = _priming(results, gaps_s=gaps_s)
    parts_s = {
        "before_run": run.started_at.timestamp() - started_at,
        "priming": priming_s,
        "between_cases": sum(gaps_s) - priming_s,
        "reference_cases": sum(_duration(result) for result in references),
        "around_launches": sum(map(_duration, requested))
        - sum(item["wall_s"] for item in launches),
        "around_steps": sum(item["outside_steps_s"] for item in launches),
        "other_steps": sum(value for name, value in steps_s.items() if name not in UNAVOIDABLE),
        "after_run": ended_at - run.finished_at.timestamp(),
    }
    unavoidable_s = sum(steps_s[name] for name in UNAVOIDABLE)
    wall_s = ended_at - started_at
    return {
        "wall_s": round(wall_s, 2),
        "unavoidable_s": round(unavoidable_s, 2),
        "ratio": round(wall_s / unavoidable_s, 4),
        "ratio_with_header": round(wall_s / (unavoidable_s + priming_s), 4),
        "parts_s": {name: round(value, 2) for name, value in parts_s.items()},
        "steps_s": {name: round(value, 2) for name, value in steps_s.items()},
        "num_cases": len(requested),
        "num_reference_cases": len(references),
        "num_launches": len(launches),
        "num_oracles_shared": sum(result.details.get("oracle") == "shared" for result in requested),
        "revision": run.revision,
        "launches": launches,
    }


def _steps(results: Sequence[CaseResult]) -> dict[str, float]:
    seconds: dict[str, float] = dict.fromkeys(UNAVOIDABLE, 0.0)
    for result in results:
        for launch in result.details["steps"]:
            for step in launch:
                length_s = step["end_s"] - step["start_s"]
                seconds[step["name"]] = seconds.get(step["name"], 0.0) + length_s
    return seconds


def _launches(results: Sequence[CaseResult]) -> Iterator[dict[str, Any]]:
    for result in results:
        details = result.details
        pairs = zip(details["steps"], details["launch_wall_s"], strict=True)
        for number, (steps, wall_s) in enumerate(pairs):
            in_steps_s = sum(step["end_s"] - step["start_s"] for step in steps)
            yield {
                "case": result.case.key,
                "launch": number,
                "wall_s": round(wall_s, 4),
                "outside_steps_s": round(wall_s - in_steps_s, 4),
            }


def _gaps(document: RunDocument) -> list[float]:
    """Return the seconds before each case, and those between the last one and the run's end."""
    results, run = document.results, document.run
    ends = [run.started_at, *(result.finished_at for result in results)]
    starts = [*(result.started_at for result in results), run.finished_at or ends[-1]]
    return [(start - end).total_seconds() for end, start in zip(ends, starts, strict=True)]


def _priming(results: Sequence[CaseResult], *, gaps_s: Sequence[float]) -> float:
    first = next(
        (number for number, item in enumerate(results) if item.case.backend == "inductor"), None
    )
    return 0.0 if first is None else gaps_s[first] - statistics.median(gaps_s)


def _duration(result: CaseResult) -> float:
    return (result.finished_at - result.started_at).total_seconds()


def main() -> int:
    """Measure, write the document and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="quick")
    parser.add_argument("--model", action="append", default=[], help="instead of the suite")
    parser.add_argument("--starts", type=int, default=2, help="1: the first start alone")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds, for each start")
    parser.add_argument("--output", type=Path, default=RESULTS / "overhead.json")
    options = parser.parse_args()
    arguments = ["--suite", options.suite]
    if options.model:
        arguments = ["--shape", "small", *(f"--model={name}" for name in options.model)]
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "overhead",
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "command": ["hud", "run", *arguments],
        "unavoidable": list(UNAVOIDABLE),
        "goal_ratio": GOAL_RATIO,
        "starts": [],
    }
    with tempfile.TemporaryDirectory(prefix="hud-overhead-") as name:
        for number in range(options.starts):
            try:
                start = run_hud(Path(name), arguments=arguments, timeout_s=options.timeout)
            except (BenchmarkError, subprocess.TimeoutExpired) as error:
                sys.stderr.write(f"{error}\n")
                return 1
            document["starts"].append({"start": number + 1, **start})
            shown = {key: value for key, value in start.items() if key != "launches"}
            print(json.dumps(shown, indent=2), flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

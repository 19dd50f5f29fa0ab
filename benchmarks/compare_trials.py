"""Measure the error rates of `hud compare --fail-above 5%` on equal code and a planted slowdown.

Runs one model under eager and default again and again, as a user would, and compares each run with
the previous one (A/A). Then measures a model with 15 % more of the same work against the original.
Counts exit codes. Writes one JSON document. `--trials 0` and `--planted-trials 0` leave a part out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.startup import RESULTS, ROOT, describe_machine

# 1: first version.
SCHEMA_VERSION = 1
HUD = Path(sys.executable).parent / "hud"
MODES = ("--mode", "eager", "--mode", "default")
FAIL_ABOVE = "5%"


def run(folder: Path, *, name: str, selection: tuple[str, ...], config: Path | None = None) -> Path:
    """Measure once and return the result file; raise CalledProcessError if a case failed."""
    path = folder / f"{name}.json"
    extra = () if config is None else ("--config", str(config))
    command = [str(HUD), "run", *selection, *MODES, *extra, "--no-store", "--json", str(path)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return path


def compare(baseline: Path, candidate: Path) -> dict[str, Any]:
    """Return the exit code of the comparison and every row that decided it."""
    command = [str(HUD), "compare", str(baseline), str(candidate), "--fail-above", FAIL_ABOVE]
    answer = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    document = json.loads(answer.stdout)
    return {"exit_code": answer.returncode, "load": os.getloadavg()[0], "comparison": document}


def decided(trial: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a trial whose verdict is a change."""
    rows: list[dict[str, Any]] = trial["comparison"]["rows"]
    return [row for row in rows if row["verdict"] in ("regression", "improvement")]


def same_code(folder: Path, *, model: str, num_trials: int) -> list[dict[str, Any]]:
    """Return the trials of each run against the previous one."""
    selection = ("--model", model, "--shape", "small")
    paths = [run(folder, name=f"a{n}", selection=selection) for n in range(num_trials + 1)]
    return [compare(left, right) for left, right in zip(paths, paths[1:], strict=False)]


def planted_slowdown(folder: Path, *, num_trials: int) -> list[dict[str, Any]]:
    """Return the trials of the slower model against the original."""
    trials = []
    configs = {}
    for kind in ("baseline", "slower"):
        configs[kind] = folder / f"{kind}.toml"
        build = f"{ROOT / 'benchmarks' / 'planted.py'}:{kind}"
        configs[kind].write_text(f"[models.planted]\nbuild = {json.dumps(build)}\n", "utf-8")
    for number in range(num_trials):
        sides = [
            run(folder, name=f"{kind}{number}", selection=("--model", "planted"), config=config)
            for kind, config in configs.items()
        ]
        trials.append(compare(*sides))
    return trials


def summarise(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the number of trials that failed the gate, and the deciding rows of each."""
    return {
        "num_trials": len(trials),
        "num_failed": sum(trial["exit_code"] == 1 for trial in trials),
        "num_with_any_change": sum(bool(decided(trial)) for trial in trials),
        "trials": [
            {"exit_code": trial["exit_code"], "load": trial["load"], "changes": decided(trial)}
            for trial in trials
        ],
    }


def main() -> int:
    """Run the trials and write the document; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="bert")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--planted-trials", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS / "compare_trials.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "benchmark": "compare_trials",
            "at": datetime.now(timezone.utc).isoformat(),
            "machine": describe_machine(),
            "fail_above": FAIL_ABOVE,
        }
        if arguments.trials:
            trials = same_code(folder, model=arguments.model, num_trials=arguments.trials)
            document["same_code"] = {"model": arguments.model, **summarise(trials)}
        if arguments.planted_trials:
            trials = planted_slowdown(folder, num_trials=arguments.planted_trials)
            document["planted_15_percent"] = summarise(trials)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for key in ("same_code", "planted_15_percent"):
        if part := document.get(key):
            print(f"{key}: {part['num_failed']} of {part['num_trials']} failed the gate")
    print(f"written to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

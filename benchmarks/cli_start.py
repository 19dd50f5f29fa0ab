"""Measure the response time of the command line: CPU seconds of whole processes.

Runs `hud --help`, `hud --version` and `hud runs` on the store of `hud demo`, and for comparison an
empty Python and `asv --help`. The commands take turns, so that the load of the machine affects all
of them alike; each number is the median of the turns. `--before` runs the same commands with the
packages of another checkout, whose modules are top-level ones. Writes one JSON document.

    python -m benchmarks.cli_start --asv ASV/bin/asv --before CHECKOUT
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.startup import RESULTS, commit, describe_machine, usage_of

# 1: first version.
SCHEMA_VERSION = 1
NUM_TURNS = 7


def cpu_s(command: Sequence[str], *, folder: Path, env: Mapping[str, str]) -> float:
    """Return the CPU seconds, user and system, of `command` and its children."""
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    usage = usage_of(process, command=command)
    return usage.ru_utime + usage.ru_stime


def commands_of(
    hud: Sequence[str], *, folder: Path, env: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the commands of one version, by name, with a store that it made."""
    store_url = f"duckdb:///{folder / 'store.duckdb'}"
    folder.mkdir()
    command = [*hud, "demo", "--store", store_url]
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
    return {
        "hud --help": [*hud, "--help"],
        "hud --version": [*hud, "--version"],
        "hud runs": [*hud, "runs", "--store", store_url],
    }


def measure(
    commands: Mapping[str, tuple[Sequence[str], Mapping[str, str]]], *, folder: Path, num_turns: int
) -> dict[str, Any]:
    """Return the CPU seconds of each command, one of each per turn."""
    samples: dict[str, list[float]] = {name: [] for name in commands}
    # The first turn reads files from the disk and compiles them.
    for turn in range(num_turns + 1):
        for name, (command, env) in commands.items():
            value = cpu_s(command, folder=folder, env=env)
            if turn > 0:
                samples[name].append(round(value, 4))
    return {
        name: {"median_cpu_s": round(statistics.median(values), 3), "cpu_s": values}
        for name, values in samples.items()
    }


def main() -> None:
    """Measure, write the document and print its medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--asv", default=shutil.which("asv"), help="the program asv")
    parser.add_argument("--before", type=Path, help="a checkout from before the lazy start")
    parser.add_argument("--turns", type=int, default=NUM_TURNS)
    parser.add_argument("--out", type=Path, default=RESULTS / "cli_start.json")
    options = parser.parse_args()
    hud = [str(Path(sys.executable).with_name("hud"))]
    machine = describe_machine()
    env = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="hud-cli-start-") as name:
        folder = Path(name)
        commands: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
            "python -c pass": ([sys.executable, "-c", "pass"], env)
        }
        if options.asv:
            commands["asv --help"] = ([options.asv, "--help"], env)
        for title, command in commands_of(hud, folder=folder / "now", env=env).items():
            commands[title] = (command, env)
        if options.before is not None:
            before = [sys.executable, "-m", "runner"]
            env_before = {**env, "PYTHONPATH": str(options.before.resolve())}
            past = commands_of(before, folder=folder / "before", env=env_before)
            for title, command in past.items():
                commands[f"{title}, before"] = (command, env_before)
        results = measure(commands, folder=folder, num_turns=options.turns)
    results.setdefault("asv --help", {"median_cpu_s": "n/a"})
    document = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "cli_start",
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "commit_before": "" if options.before is None else commit(options.before),
        "machine": {**machine, "load_after": [round(value, 2) for value in os.getloadavg()]},
        "num_turns": options.turns,
        "commands": results,
    }
    options.out.write_text(json.dumps(document, indent=2) + "\n", encoding="ascii")
    for title, row in results.items():
        print(f"{title:24} {row['median_cpu_s']}")


if __name__ == "__main__":
    main()

"""Measure how often `hud isolate` names a planted difference of two toolchains.

Makes two environments of the present one. Each has eight small packages that a model of our own
imports, in version 1.0 and 2.0, and two variables. In each trial one package, one variable, two
packages, or two packages that only together do, make the model slower. The other packages have
another version and do nothing. Runs `hud isolate` and compares its answer. Writes one document.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.startup import RESULTS, describe_machine
from compile_hud.runner.isolate.environments import Environment, describe
from compile_hud.runner.isolate.mixtures import build_mixture

# 1: first version.
SCHEMA_VERSION = 1
NUM_PARTS = 8
VARIABLES = ("PART_OF_HOST", "PART_OF_SHELL")
# Repetitions of a product in each iteration: without a fault, and more by a whole fault.
BASE_WORK, EXTRA_WORK = 20, 6
_MODEL = """
import os

import torch
from torch import nn

import part_0, part_1, part_2, part_3, part_4, part_5, part_6, part_7

PARTS = (part_0, part_1, part_2, part_3, part_4, part_5, part_6, part_7)
BOTH = {both!r}


class Planted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256, 256) / 16)
        self.work = {base} + sum(part.EXTRA for part in PARTS)
        self.work += sum(int(os.environ.get(name, "0")) for name in {variables!r})
        if BOTH and all(PARTS[number].IS_NEW for number in BOTH):
            self.work += {extra}

    def forward(self, x):
        for _ in range(self.work):
            x = torch.tanh(x @ self.weight)
        return x


def build(config):
    return Planted(), {{"x": torch.randn(64, 256)}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The work that each package and variable adds in the candidate, and a pair that adds some."""

    kind: str
    parts: dict[str, int]
    variables: dict[str, str]
    both: tuple[int, ...] = ()

    @property
    def causes(self) -> list[list[str]]:
        """Return the names of the causes, those that belong together in one list."""
        if self.both:
            return [[f"part-{number}" for number in self.both]]
        names = [name for name, work in self.parts.items() if work]
        return [[name] for name in [*names, *(name for name in self.variables)]]


def faults(num_trials: int, *, seed: int) -> list[Fault]:
    """Return trials of each kind in turn."""
    rng = random.Random(seed)
    kinds = ("package", "variable", "together", "package", "two packages")
    return [_fault(kinds[number % len(kinds)], rng) for number in range(num_trials)]


def _fault(kind: str, rng: random.Random) -> Fault:
    first, second = rng.sample(range(NUM_PARTS), 2)
    parts = {f"part-{number}": 0 for number in range(NUM_PARTS)}
    variables: dict[str, str] = {}
    if kind == "package":
        parts[f"part-{first}"] = EXTRA_WORK
    elif kind == "two packages":
        parts[f"part-{first}"] = EXTRA_WORK // 2
        parts[f"part-{second}"] = EXTRA_WORK - EXTRA_WORK // 2
    elif kind == "variable":
        variables[rng.choice(VARIABLES)] = str(EXTRA_WORK)
    both = (min(first, second), max(first, second)) if kind == "together" else ()
    return Fault(kind=kind, parts=parts, variables=variables, both=both)


def write_part(packages: Path, name: str, *, version: str, work: int) -> None:
    """Install one of the small packages into a folder of packages."""
    module = name.replace("-", "_")
    record = []
    texts = {
        f"{module}.py": f"EXTRA = {work}\nIS_NEW = {version != '1.0'}\n",
        f"{module}-{version}.dist-info/METADATA": f"Name: {name}\nVersion: {version}\n",
    }
    for path, text in texts.items():
        (packages / path).parent.mkdir(exist_ok=True)
        (packages / path).write_text(text, encoding="utf-8")
        record.append(f"{path},,")
    record_path = packages / f"{module}-{version}.dist-info" / "RECORD"
    record_path.write_text("\n".join(record) + "\n", encoding="utf-8")


def make_toolchain(folder: Path, *, base: Environment, version: str, fault: Fault) -> Path:
    """Make an environment with the small packages in `version`, and return its interpreter."""
    build_mixture(folder, before=base, after=base, changes=(), swapped=())
    packages = next((folder / "env" / "lib").glob("python*")) / "site-packages"
    is_new = version != "1.0"
    for name, work in fault.parts.items():
        write_part(packages, name, version=version, work=work if is_new else 0)
    lines = [f"export {name}={value}" for name, value in fault.variables.items() if is_new]
    python = folder / "python"
    text = "\n".join(["#!/bin/sh", *lines, f'exec {folder}/env/bin/python "$@"', ""])
    python.write_text(text, encoding="utf-8")
    return python


def run_trial(fault: Fault, *, folder: Path, base: Environment, core: int | None) -> dict[str, Any]:
    """Return the answer of `hud isolate` for a fault, and whether it is right."""
    pythons = {
        name: make_toolchain(folder / name, base=base, version=version, fault=fault)
        for name, version in (("old", "1.0"), ("new", "2.0"))
    }
    text = _MODEL.format(both=fault.both, base=BASE_WORK, extra=EXTRA_WORK, variables=VARIABLES)
    (folder / "planted.py").write_text(text, encoding="utf-8")
    settings = [
        "[toolchains]", *(f'{name} = "{python}"' for name, python in pythons.items()),
        "[models.planted]", 'build = "planted.py:build"', "[run]", "rounds = 20", "budget_s = 1",
    ]  # fmt: skip
    (folder / "hud.toml").write_text("\n".join(settings) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "compile_hud.runner", "isolate", "old", "new"]
    command += ["--model", "planted", "--mode", "eager", "--json"]
    pin = [] if core is None else ["taskset", "-c", str(core)]
    started_s = time.monotonic()
    done = subprocess.run(
        [*pin, *command], capture_output=True, text=True, cwd=folder, env=dict(os.environ)
    )
    took_s = time.monotonic() - started_s
    if not done.stdout:
        raise RuntimeError(f"{fault}: {done.stderr}")
    answer = json.loads(done.stdout)
    named = [
        sorted(item["name"] for item in share["differences"]) for share in answer["shares"] or ()
    ]
    return {
        "kind": fault.kind,
        "causes": fault.causes,
        "named": named,
        "is_right": sorted(named) == sorted(fault.causes),
        "is_answered": done.returncode == 0,
        "shares": [_figures(share) for share in answer["shares"] or ()],
        "rest": None if answer["rest"] is None else _figures(answer["rest"]),
        "change": answer["ends"],
        "num_toolchains": 2 + answer["num_mixtures"],
        "took_s": round(took_s, 1),
    }


def _figures(share: dict[str, Any]) -> list[float]:
    """Return a share in percent, and its interval."""
    return [round(value, 1) for value in (share["share_pct"], *share["interval_pct"])]


def summary(trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of right answers by kind, and the most toolchains."""
    kinds = dict.fromkeys(trial["kind"] for trial in trials)
    return {
        "num_trials": len(trials),
        "num_right": sum(trial["is_right"] for trial in trials),
        "right_by_kind": {
            kind: [
                sum(trial["is_right"] for trial in trials if trial["kind"] == kind),
                sum(trial["kind"] == kind for trial in trials),
            ]
            for kind in kinds
        },
        "most_toolchains": max((trial["num_toolchains"] for trial in trials), default=0),
    }


def main() -> int:
    """Run the trials, write the document and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "isolate_planted.json")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--core", type=int, help="run all on this core")
    options = parser.parse_args()
    base = describe(Path(sys.executable))
    trials: list[dict[str, Any]] = []
    machine = describe_machine()
    for fault in faults(options.trials, seed=options.seed):
        with tempfile.TemporaryDirectory() as folder:
            trials.append(run_trial(fault, folder=Path(folder), base=base, core=options.core))
        sys.stderr.write(f"{json.dumps(trials[-1])}\n")
        document = {
            "schema_version": SCHEMA_VERSION,
            "measured_at": datetime.now(timezone.utc).isoformat(),
            "machine": machine,
            "seed": options.seed,
            "summary": summary(trials),
            "faults": [asdict(item) for item in faults(len(trials), seed=options.seed)],
            "trials": trials,
            "load_after": [round(value, 2) for value in os.getloadavg()],
        }
        options.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

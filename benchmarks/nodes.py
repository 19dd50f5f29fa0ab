"""Measure how much sooner two nodes of a Ray cluster finish a plan than one.

Each node has one core of this machine to itself, if the machine is idle otherwise. A trial is the
same plan on one node and on both, in turning order, each with a new cluster and a new store. Both
compared times end with the last case. One begins with the first case, the other with the run, when
nodes start their worker hosts. Numbers that do not depend on the clock have to be equal for each
case, whatever the number of nodes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from benchmarks.startup import RESULTS, ROOT, BenchmarkError, describe_machine
from compile_hud.db.records.results import RunDocument
from tests.support.servers.ray_nodes import RayNodes

# 1: first version; 2: names the phases.
SCHEMA_VERSION = 2
# The goal: two nodes take no more than this share of one node's time.
GOAL = 0.6
MODELS = (
    "albert",
    "bert",
    "distilbert",
    "roberta",
    "electra",
    "gpt2",
    "llama",
    "qwen",
    "nn_transformer",
    "vit",
    "swin",
    "segformer",
    "resnet",
    "convnext",
    "efficientnet",
    "mobilenet",
)
# Two busy nodes alone reach this load in the mean of a minute.
MAX_LOAD = 2.5
# Capturing without a compiler: cases of equal length, and graphs to compare.
MODES = ("eager", "aot_eager")
# Enough cases that one more on a node than on the other is little, as in a plan of a night.
PHASES = ("inference", "training")
# These metrics are counted or computed, not timed.
EQUAL_METRICS = (
    "num_parameters",
    "flops",
    "compulsory_bytes",
    "peak_bytes",
    "graphs",
    "graph_breaks",
    "recompiles",
    "guards",
    "num_kernels",
    "max_abs_error",
    "rmse_ratio",
    "cosine_similarity",
)
CONFIG = """
[run]
launches = 2
max_launches = 2
confirm = false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A plan that was measured: its times, the number of cases by node, and values that must be
    equal.

    `facts` are the outcome and the metrics of EQUAL_METRICS of each case, by its key.
    """

    cases_s: float
    whole_s: float
    num_results: Mapping[str, int]
    facts: Mapping[str, Mapping[str, Any]]

    def to_json(self) -> dict[str, Any]:
        return {
            "cases_s": round(self.cases_s, 2),
            "whole_s": round(self.whole_s, 2),
            "num_results": dict(self.num_results),
        }


def measure_plan(nodes: RayNodes, *, models: Sequence[str]) -> Finished:
    """Measure the plan on the present nodes; raise BenchmarkError."""
    chosen = [
        *(f"--model={name}" for name in models),
        *(f"--mode={name}" for name in MODES),
        *(f"--phase={name}" for name in PHASES),
    ]
    with tempfile.TemporaryDirectory(prefix="hud-nodes-") as name:
        folder = Path(name)
        (folder / "hud.toml").write_text(CONFIG, encoding="ascii")
        path = folder / "out.json"
        options = ["--executor=ray", "--device=cpu", "--shape=tiny", "--no-reference"]
        command = [
            sys.executable,
            "-m",
            "compile_hud.runner",
            "run",
            *options,
            *chosen,
            f"--json={path}",
        ]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("HUD_")
        }
        ended = subprocess.run(
            command,
            cwd=folder,
            env={**environment, "PYTHONPATH": f"{ROOT}:{ROOT}/src", "RAY_ADDRESS": nodes.address},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise BenchmarkError(f"hud run ended with {ended.returncode}: {ended.stderr}")
        content = json.loads(path.read_text(encoding="utf-8"))
    documents = content if isinstance(content, list) else [content]
    return finished(tuple(map(RunDocument.from_json, documents)))


def finished(documents: Sequence[RunDocument]) -> Finished:
    """Return the results of the runs of one plan."""
    results = [result for document in documents for result in document.results]
    last = max(result.finished_at for result in results)

    def seconds_since(start: datetime) -> float:
        return (last - start).total_seconds()

    return Finished(
        cases_s=seconds_since(min(result.started_at for result in results)),
        whole_s=seconds_since(min(document.run.started_at for document in documents)),
        num_results={item.run.machine: len(item.results) for item in documents},
        facts={
            result.case.key: {
                "outcome": str(result.outcome),
                **{
                    item.metric: item.median
                    for item in result.measurements
                    if item.metric in EQUAL_METRICS
                },
            }
            for result in results
        },
    )


def differences(one: Finished, two: Finished) -> list[str]:
    """Return a line for each fact of a case that differs between one node and two."""
    lines = []
    for key in sorted(one.facts.keys() | two.facts.keys()):
        before, after = one.facts.get(key, {}), two.facts.get(key, {})
        lines += [
            f"{key} {name}: {before.get(name)} on one node, {after.get(name)} on two"
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)
        ]
    return lines


def measure_on(cores: Sequence[int], *, models: Sequence[str]) -> Finished:
    """Measure the plan on a new cluster with a node on each of `cores`."""
    with tempfile.TemporaryDirectory(prefix="hud-nodes-") as folder:
        nodes = RayNodes(Path(folder))
        try:
            for number, core in enumerate(cores, start=1):
                nodes.add(f"node-{number}", core=core)
            return measure_plan(nodes, models=models)
        finally:
            nodes.close()


def trials(numbers: range, *, models: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the results of each trial: the plan on one node and on two."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise BenchmarkError("two nodes with a core each need two cores")
    for number in numbers:
        load_before = os.getloadavg()
        # Any drift then affects both alike.
        order = (1, 2) if number % 2 == 0 else (2, 1)
        # With one node, each core has its turn as well.
        places = {1: [cores[number % 2]], 2: cores}
        done = {num_nodes: measure_on(places[num_nodes], models=models) for num_nodes in order}
        one, two = done[1], done[2]
        yield {
            "load_before": load_before,
            "one_node": one.to_json(),
            "two_nodes": two.to_json(),
            "ratio_cases": round(two.cases_s / one.cases_s, 3),
            "ratio_whole": round(two.whole_s / one.whole_s, 3),
            "num_facts": sum(map(len, one.facts.values())),
            "differences": differences(one, two),
        }


def summary(done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the summary of the trials, and the trials."""
    return {
        "goal": GOAL,
        "median_ratio_cases": statistics.median(item["ratio_cases"] for item in done),
        "median_ratio_whole": statistics.median(item["ratio_whole"] for item in done),
        "are_results_equal": not any(item["differences"] for item in done),
        # Each trial waits for an idle machine; otherwise no node has a core to itself.
        "num_trials_beside_others": sum(item["load_before"][0] > MAX_LOAD for item in done),
        "trials": list(done),
    }


@click.command()
@click.option("--trials", "num_trials", default=5, show_default=True)
@click.option("--resume", is_flag=True, help="Go on with the trials that the document has.")
@click.option("--model", "models", multiple=True, default=MODELS, help="Models of the plan.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS / "nodes.json")
def main(*, num_trials: int, resume: bool, models: tuple[str, ...], output: Path) -> None:
    """Measure a plan on one node and on two, and write the ratios, again after each trial."""
    machine = describe_machine()
    done: list[dict[str, Any]] = []
    if resume:
        done = json.loads(output.read_text(encoding="utf-8"))["trials"]
    for trial in trials(range(len(done), num_trials), models=models):
        done.append(trial)
        document = {
            "schema_version": SCHEMA_VERSION,
            "machine": machine,
            "models": models,
            "modes": MODES,
            "phases": PHASES,
            **summary(done),
        }
        output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        click.echo(f"trial {len(done)}: {trial['ratio_cases']}, {trial['ratio_whole']}", err=True)


if __name__ == "__main__":
    main()

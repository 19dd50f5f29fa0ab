"""Measure the effect of a compilation on another core on a case that is being sampled.

Launches of one compiled case alternate under a worker host, with a filled compile cache. One runs
by itself, the next while another process compiles a model over and over. The two levels and their
scatter decide whether the next case may be compiled while this one is sampled (docs/adr/0005). The
conditions take turns, so the machine's other load affects both alike. Writes one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.startup import RESULTS, ROOT, describe_machine
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.planning.plan import make_plan
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.protocol.messages import LaunchReport, MeasureSettings

# 1: first version.
SCHEMA_VERSION = 1
METRICS = ("latency_s", "latency_cpu_s", "eager_latency_cpu_s", "speedup")
NEIGHBOUR = """
import tempfile, os, torch
from compile_hud.models_zoo.encoders import bert
from compile_hud.models_zoo.catalog.catalog import CATALOG
torch.set_num_threads(1)
config = CATALOG["bert"].sizes["small"].config
while True:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        torch._dynamo.reset()
        model, inputs = bert.build(config).eval(), bert.example_inputs(config, seed=0)
        with torch.no_grad():
            torch.compile(model)(**inputs)
"""


@contextmanager
def compiling_neighbour(folder: Path) -> Iterator[int]:
    """Yield the process group of a process that compiles for ever, stopped at first."""
    process = subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def measure(model: str, *, num_pairs: int, folder: Path) -> dict[str, Any]:
    """Return levels and scatter of a model's compiled case, with and without a compilation next to
    it.
    """
    (planned,) = make_plan(
        Selection(models=(model,), modes=("default",), shapes=("small",)),
        catalog=CATALOG,
        device="cpu",
    )
    settings = MeasureSettings(num_launches=2 * num_pairs + 2, budget_s=2.0)
    executor = LocalExecutor(python=Path(sys.executable), state_dir=folder / "state")
    executor.open()
    session = executor.begin(
        CaseOrder(run_id="run", case=planned.case, workload=planned.workload, settings=settings)
    )
    reports: dict[str, list[LaunchReport]] = {"alone": [], "beside_compile": []}
    try:
        with compiling_neighbour(folder) as group:
            # Both a cold start and one from artifacts compile more than the compared launches.
            for _ in range(3):
                session.launch()
            for _ in range(num_pairs):
                reports["alone"].append(session.launch())
                os.killpg(group, signal.SIGCONT)
                reports["beside_compile"].append(session.launch())
                os.killpg(group, signal.SIGSTOP)
    finally:
        session.close()
        executor.close()
    levels = {
        name: {metric: _levels(launches, metric) for metric in METRICS}
        for name, launches in reports.items()
    }
    return {"model": model, "num_launches": num_pairs, "levels": levels, "summary": _sum_up(levels)}


def _levels(launches: Sequence[LaunchReport], metric: str) -> list[float]:
    return [statistics.median(launch.metrics[metric].samples) for launch in launches]


def _sum_up(levels: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """Return, for each metric, the change of the level and the scatter of either side."""
    alone, compiling = levels["alone"], levels["beside_compile"]
    return {
        metric: {
            "change": statistics.median(compiling[metric]) / statistics.median(alone[metric]) - 1,
            "cv_alone": _cv(alone[metric]),
            "cv_beside_compile": _cv(compiling[metric]),
        }
        for metric in METRICS
    }


def _cv(values: Sequence[float]) -> float:
    return statistics.stdev(values) / statistics.fmean(values)


def main() -> int:
    """Measure, write the document and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["bert", "resnet"])
    parser.add_argument("--pairs", type=int, default=10, help="launches a condition and model")
    parser.add_argument("--output", type=Path, default=RESULTS / "disturbance.json")
    options = parser.parse_args()
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "disturbance",
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "cases": [],
    }
    for model in options.models:
        with tempfile.TemporaryDirectory(prefix="hud-disturbance-") as name:
            document["cases"].append(
                measure(model, num_pairs=options.pairs, folder=Path(name).resolve())
            )
    text = json.dumps(document, indent=2) + "\n"
    options.output.write_text(text, encoding="utf-8")
    print(json.dumps([case["summary"] for case in document["cases"]], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

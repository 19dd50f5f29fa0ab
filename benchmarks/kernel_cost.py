"""Measure the cost of recording kernels: for the samples, for a case, and for the store.

Cases are measured in turn with and without their kernels recorded (`[run] kernels`), each time with
an empty compile cache. The document has the ratios of their levels, of their compile times and of
the seconds of a case. Each ratio has its 95 % interval over the pairs. Compile times matter because
the origin of a kernel is recorded during compilation. Then the results of one side, with their real
kernels, code and traces, are stored as nights of 30 models under 6 modes. The document has their
bytes, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from benchmarks.startup import RESULTS, BenchmarkError, describe_machine
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import CaseResult, Outcome, Run, RunDocument, RunState
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.planning.plan import PlannedCase, make_plan
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.protocol.messages import MeasureSettings

# 1: first version.
SCHEMA_VERSION = 1
MODELS = ("bert", "gpt2", "resnet")
MODES = ("eager", "default")
METRICS = ("latency_s", "latency_cpu_s", "speedup", "compile_cold_s", "compile_cold_cpu_s")
SETTINGS = MeasureSettings(num_launches=1, max_launches=1, budget_s=1.0, target_interval=0.0)
CASES_A_NIGHT = 30 * 6
NUM_NIGHTS = 10
START = datetime(2026, 1, 1, 2, 30, tzinfo=timezone.utc)


def measure_pairs(folder: Path, *, num_pairs: int) -> dict[str, list[dict[str, Any]]]:
    """Return the results of the pairs of each case; raise BenchmarkError if one failed."""
    plan = make_plan(
        Selection(models=MODELS, modes=MODES, shapes=("small",)),
        catalog=CATALOG,
        device="cpu",
    )
    executor = LocalExecutor(python=Path(sys.executable), state_dir=folder)
    pairs: dict[str, list[dict[str, Any]]] = {}
    try:
        executor.open()
        for number, planned in itertools.product(range(num_pairs), plan):
            # The first and the second meet a different machine, so they take turns in that too.
            order = (True, False) if number % 2 else (False, True)
            sides = {has: measure(executor, planned, has_kernels=has) for has in order}
            pairs.setdefault(planned.case.key, []).append({"on": sides[True], "off": sides[False]})
    finally:
        executor.close()
    return pairs


def measure(executor: LocalExecutor, planned: PlannedCase, *, has_kernels: bool) -> dict[str, Any]:
    """Return the result of a case, its seconds, and its medians."""
    order = CaseOrder(
        run_id="benchmark",
        case=planned.case,
        workload=planned.workload,
        settings=replace(SETTINGS, kernels=has_kernels),
    )
    start_s = time.perf_counter()
    result = executor.execute(order)
    wall_s = time.perf_counter() - start_s
    if result.outcome is not Outcome.OK or bool(result.kernels) is not has_kernels:
        raise BenchmarkError(f"{planned.case.key}: {result.outcome} {result.reason}")
    medians = {item.metric: item.median for item in result.measurements if item.metric in METRICS}
    return {"result": result, "medians": {**medians, "case_wall_s": wall_s}}


def compare(pairs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return for each metric the ratio of with to without kernels, all cases together."""
    names = (*METRICS, "case_wall_s")
    return {
        name: ratio_of(
            [
                pair["on"]["medians"][name] / pair["off"]["medians"][name]
                for case_pairs in pairs.values()
                for pair in case_pairs
                if name in pair["on"]["medians"]
            ]
        )
        for name in names
    }


def ratio_of(ratios: Sequence[float]) -> dict[str, float]:
    """Return the geometric mean of `ratios` with its 95 % interval by Student."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    margin = error * float(student.ppf(0.975, len(logs) - 1))
    return {
        "ratio": round(math.exp(mean), 4),
        "low": round(math.exp(mean - margin), 4),
        "high": round(math.exp(mean + margin), 4),
        "num_pairs": len(logs),
    }


def night_bytes(results: Sequence[CaseResult], *, spool: Path, folder: Path) -> dict[str, Any]:
    """Return the bytes of a night whose cases have the kernels and traces of `results`, in turn."""
    traces = [(spool / result.details["profile"]["trace"]).stat().st_size for result in results]
    store = Store(f"duckdb:///{folder / 'nights.duckdb'}")
    sizes = []
    for night in range(NUM_NIGHTS):
        with store.write() as connection:
            put_documents(connection, [make_night(night, results)], at=START)
        sizes.append((folder / "nights.duckdb").stat().st_size)
    # A file has its tables and its first block from the start.
    store_bytes = (sizes[-1] - sizes[0]) / (NUM_NIGHTS - 1)
    trace_bytes = CASES_A_NIGHT * statistics.mean(traces)
    return {
        "num_cases": CASES_A_NIGHT,
        "kernels_a_result": round(statistics.mean(len(result.kernels) for result in results), 1),
        "store_bytes": round(store_bytes),
        "trace_bytes": round(trace_bytes),
        "bytes": round(store_bytes + trace_bytes),
        "trace_bytes_of": {
            result.case.key: size for result, size in zip(results, traces, strict=True)
        },
    }


def make_night(night: int, results: Sequence[CaseResult]) -> RunDocument:
    """Return a run of CASES_A_NIGHT cases, the results again and again under other names."""
    at = START + timedelta(days=night)
    copies = []
    for number in range(CASES_A_NIGHT):
        result = results[number % len(results)]
        case = replace(result.case, model=f"{result.case.model}-{number // len(results)}")
        copies.append(replace(result, id=f"{night}-{number}", run_id=f"night-{night}", case=case))
    run = Run(
        id=f"night-{night}",
        started_at=at,
        finished_at=at,
        state=RunState.FINISHED,
        suite="nightly",
        toolchain="nightly",
        revision=f"2.14.0.dev{night}",
        machine="box",
        environment={},
        fingerprint="f" * 64,
        plan=tuple(copy.case for copy in copies),
        trigger="benchmark",
        is_synthetic=True,
    )
    return RunDocument(run=run, results=tuple(copies))


def main() -> int:
    """Measure, write the document and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="pairs a case (%(default)s)")
    parser.add_argument("--output", type=Path, default=RESULTS / "kernel_cost.json")
    options = parser.parse_args()
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "kernel_cost",
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": describe_machine(),
    }
    with tempfile.TemporaryDirectory(prefix="hud-kernels-") as name:
        folder = Path(name)
        pairs = measure_pairs(folder, num_pairs=options.pairs)
        results = [case_pairs[0]["on"]["result"] for case_pairs in pairs.values()]
        document["with_over_without"] = compare(pairs)
        document["night"] = night_bytes(results, spool=folder / "spool", folder=folder)
    document["medians"] = {
        key: [{side: pair[side]["medians"] for side in ("on", "off")} for pair in case_pairs]
        for key, case_pairs in pairs.items()
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: document[key] for key in ("with_over_without", "night")}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

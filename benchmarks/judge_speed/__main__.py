"""Measure the time of detection: one new night of many series, all of them again, and one look.

Builds a store of synthetic nights: cases of ten judged metrics each (seven with noise, three
counts). The noise of each series is that of a nightly suite, and one of fifty models has a step.
Then times `detect` as it runs after a run (only cases with new results) and as `hud detect` runs it
(all). Reads and writes of the store are included, and both must give the same alerts. The cost of
one look at one series is measured too (looks.py). Writes one document.

This is a package, so that the processes that judge import only the detector: those of `hud detect`
start from a script that imports next to nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.judge_speed.looks import measure_looks
from benchmarks.startup import RESULTS, BenchmarkError, describe_machine
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.judge_state import load_events, load_judge_states
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import (
    Case,
    CaseResult,
    Dtype,
    Measurement,
    Outcome,
    Phase,
    Run,
    RunDocument,
    RunState,
)
from compile_hud.db.store import Store
from compile_hud.runner.detection.detect import detect

# 2: looks at one series.
SCHEMA_VERSION = 2
LEVELS = {
    "latency_s": 0.012,
    "latency_cpu_s": 0.011,
    "speedup": 1.6,
    "compile_cold_s": 30.0,
    "compile_cold_cpu_s": 25.0,
    "compile_warm_s": 6.0,
    "peak_bytes": 2.0e9,
    "graphs": 3.0,
    "graph_breaks": 1.0,
    "recompiles": 0.0,
}
MODES = ("eager", "default", "reduce-overhead", "max-autotune")
# Median and spread, on logarithms, of the noise between nights of one series.
NOISE, SPREAD = 0.0053, 1.05
STEP, MODELS_PER_STEP = 1.1, 50
START = datetime(2026, 1, 1, 2, 30, tzinfo=timezone.utc)
# Nights in one transaction: all their rows are in memory at once.
NIGHTS_PER_WRITE = 4
METHOD = "made up"


class Nights:
    """Synthetic runs of cases whose series have ten metrics each."""

    def __init__(self, num_series: int, *, num_nights: int, seed: int = 1) -> None:
        """Draw the noise of every series, and the night from which some models are slower."""
        self._random = np.random.default_rng(seed)
        num_cases = num_series // len(LEVELS)
        self.cases = [_case(number) for number in range(num_cases)]
        shape = (num_cases, len(LEVELS))
        self._noise = NOISE * np.exp(SPREAD * self._random.standard_normal(shape))
        self._onsets = self._random.integers(num_nights // 2, num_nights, size=num_cases)

    def run(self, number: int) -> RunDocument:
        """Return the run of one night."""
        at = START + timedelta(days=number)
        run = Run(
            id=f"night-{number:05}",
            started_at=at,
            finished_at=at,
            state=RunState.FINISHED,
            suite="nightly",
            toolchain="nightly",
            revision=f"2.14.0.dev{number}",
            machine="box",
            environment={},
            fingerprint="f" * 64,
            plan=tuple(self.cases),
            trigger="made up",
            is_synthetic=True,
        )
        values = np.exp(self._noise * self._random.standard_normal(self._noise.shape))
        values *= list(LEVELS.values())
        return RunDocument(run=run, results=tuple(self._results(run, number, values.tolist())))

    def _results(
        self, run: Run, number: int, values: Sequence[Sequence[float]]
    ) -> Iterator[CaseResult]:
        for index, (case, row) in enumerate(zip(self.cases, values, strict=True)):
            is_slow = index // len(MODES) % MODELS_PER_STEP == 0 and number >= self._onsets[index]
            measurements = []
            for name, value in zip(LEVELS, row, strict=True):
                median = LEVELS[name] if METRICS[name].is_exact else value
                if is_slow and name.startswith("latency"):
                    median *= STEP
                measurements.append(_measurement(name, median))
            yield CaseResult(
                id=f"{number}-{index}",
                run_id=run.id,
                case=case,
                outcome=Outcome.OK,
                started_at=run.started_at,
                finished_at=run.started_at,
                measurements=tuple(measurements),
            )


def _case(number: int) -> Case:
    mode = MODES[number % len(MODES)]
    return Case(
        model=f"model-{number // len(MODES):05}",
        family="transformer",
        phase=Phase.INFERENCE,
        shape="small",
        dtype=Dtype.FP32,
        mode=mode,
        variant=mode,
        backend="" if mode == "eager" else "inductor",
        device="cuda",
    )


def _measurement(name: str, value: float) -> Measurement:
    return Measurement(
        metric=name,
        unit=METRICS[name].unit,
        samples=(value,),
        median=value,
        interval=(value, value),
        method=METHOD,
    )


def fill(store: Store, nights: Nights, *, first: int, last: int) -> None:
    """Store the nights from `first` up to `last`, without `last`."""
    for start in range(first, last, NIGHTS_PER_WRITE):
        numbers = range(start, min(start + NIGHTS_PER_WRITE, last))
        documents = [nights.run(number) for number in numbers]
        with store.write() as connection:
            put_documents(connection, documents, at=START)


def judge(store: Store, *, is_full: bool) -> dict[str, float]:
    """Return the cost of one `detect`: its own processes and those it started."""
    before, started_s = _cpu_s(), time.perf_counter()
    report = detect(store, is_full=is_full)
    return {
        "wall_s": round(time.perf_counter() - started_s, 2),
        "cpu_s": round(_cpu_s() - before, 2),
        "num_alerts": len(report.alerts),
        "num_events": len(load_events(store)),
    }


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


def measure(folder: Path, *, num_series: int, num_nights: int) -> dict[str, Any]:
    """Return the times of a store in `folder`; raise BenchmarkError if both ways differ."""
    store = Store(f"duckdb:///{folder / 'judged.duckdb'}")
    nights = Nights(num_series, num_nights=num_nights)
    fill(store, nights, first=0, last=num_nights)
    timings: dict[str, Any] = {"first": judge(store, is_full=False)}
    fill(store, nights, first=num_nights, last=num_nights + 1)
    machine = describe_machine()
    timings["one_new_night"] = judge(store, is_full=False)
    incremental = (load_alerts(store), load_events(store), load_judge_states(store))
    timings["nothing_new"] = judge(store, is_full=False)
    timings["all"] = judge(store, is_full=True)
    if incremental != (load_alerts(store), load_events(store), load_judge_states(store)):
        raise BenchmarkError("judging everything gave other alerts than judging what was new")
    return {
        "schema_version": SCHEMA_VERSION,
        "measured_at": datetime.now(timezone.utc).isoformat(),
        "machine": machine,
        "num_series": len(nights.cases) * len(LEVELS),
        "num_nights": num_nights + 1,
        "store_bytes": (folder / "judged.duckdb").stat().st_size,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "are_identical": True,
        "look": measure_looks(),
        "load_after": [round(value, 2) for value in os.getloadavg()],
        **timings,
    }


def main() -> None:
    """Measure and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--output", type=Path, default=RESULTS / "judge_speed.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        document = measure(Path(folder), num_series=arguments.series, num_nights=arguments.nights)
    arguments.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({name: document[name] for name in ("one_new_night", "all", "look")}))


if __name__ == "__main__":
    main()

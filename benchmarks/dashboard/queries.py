"""The store's queries for the overview, trends, a series and a kernel diff, and their times."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from sqlalchemy import select

from benchmarks.dashboard.history import TOOLCHAIN, History, Machine
from benchmarks.startup import BenchmarkError
from compile_hud.db.queries.kernels import load_profiled
from compile_hud.db.queries.latest import load_latest
from compile_hud.db.queries.results import load_result_summaries
from compile_hud.db.queries.runs import load_plans, load_runs
from compile_hud.db.queries.series import load_trend
from compile_hud.db.queries.trends import load_trend_inputs
from compile_hud.db.records.results import Case
from compile_hud.db.records.summaries import PlannedRun
from compile_hud.db.schema.tables import MeasurementTable
from compile_hud.db.store import Store
from compile_hud.runner.analysis.trends.records import PASS_RATE, TREND_METRICS
from compile_hud.runner.analysis.trends.trends import (
    TrendSelection,
    mode_trends,
    range_start,
)

# The overview shows these metrics of each cell, whatever metric is selected.
METRICS: Final = ("speedup", "latency_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One query, repeated `num_asked` times; its wall time and CPU time."""

    name: str
    num_asked: int
    p50_ms: float
    p95_ms: float
    cpu_p50_ms: float
    cpu_p95_ms: float


class Questions:
    """Queries of pages, each time about another case, from a seed."""

    def __init__(self, store: Store, history: History, *, seed: int) -> None:
        self._store = store
        self._history = history
        self._draw = random.Random(seed)
        self._runs = load_plans(store)

    def overview(self) -> Any:
        """Return the newest results of one machine."""
        name = self._machine().name
        return load_latest(self._store, machine=name, toolchain=TOOLCHAIN, metrics=METRICS)

    def series(self) -> Any:
        """Return the whole history of one case."""
        machine = self._machine()
        return load_trend(
            self._store,
            case_key=self._case(machine).key,
            metric="latency_s",
            machine=machine.name,
            toolchain=TOOLCHAIN,
        )

    def trends(self) -> Any:
        """Return the results of one machine over 90 days, from which trends are computed."""
        runs = self._runs_of(self._machine())
        return load_trend_inputs(
            self._store,
            machine=runs[-1].machine,
            toolchain=TOOLCHAIN,
            since=range_start(runs[-1].at, num_days=90),
            metrics=[name for name in TREND_METRICS if name != PASS_RATE],
        )

    def computed_trends(self) -> Any:
        """Return the trends of the modes of one machine over 90 days."""
        inputs = self.trends()
        return mode_trends(inputs.history, alerts=inputs.alerts, selection=TrendSelection())

    def kernel_diff(self) -> Any:
        """Return the kernels of one case in the newest night and in another one."""
        machine = self._machine()
        case, runs = self._case(machine), self._runs_of(machine)
        older = self._draw.randrange(2, self._history.size.num_kernel_nights + 1)
        return load_profiled(self._store, [(runs[-1].id, case.key), (runs[-older].id, case.key)])

    def run(self) -> Any:
        """Return the results of one machine in any night."""
        runs = self._runs_of(self._machine())
        return load_result_summaries(self._store, self._draw.choice(runs).id)

    def runs(self) -> Any:
        """Return the newest runs."""
        return load_runs(self._store, limit=50)

    def check(self, num_series: int) -> int:
        """Return the number of values that equal those of the raw rows; raise BenchmarkError
        otherwise.
        """
        num_equal = 0
        for machine in self._history.machines:
            newest = load_result_summaries(self._store, self._runs_of(machine)[-1].id)
            raw = {(item.id, name): measurement for item in newest
                   for name, measurement in item.measurements.items()}  # fmt: skip
            cells = load_latest(self._store, machine=machine.name, toolchain=TOOLCHAIN)
            medians = {(cell.summary.id, name): measurement for cell in cells
                    for name, measurement in cell.summary.measurements.items()}  # fmt: skip
            if raw != medians or not raw:
                raise BenchmarkError(f"the overview of {machine.name} is not that of the raw rows")
            num_equal += len(raw)
        return num_equal + sum(self._checked_trend() for _ in range(num_series))

    def _checked_trend(self) -> int:
        machine = self._machine()
        case = self._case(machine)
        points = load_trend(
            self._store, case_key=case.key, metric="latency_s", machine=machine.name
        )
        statement = select(MeasurementTable.c.result_id, MeasurementTable.c.median).where(
            MeasurementTable.c.case_key == case.key,
            MeasurementTable.c.metric == "latency_s",
            MeasurementTable.c.run_id.in_([run.id for run in self._runs_of(machine)]),
        )
        with self._store.read() as connection:
            raw = {row.result_id: row.median for row in connection.execute(statement)}
        if raw != {point.result_id: point.median for point in points} or not raw:
            raise BenchmarkError(f"the trend of {case.key} is not that of the raw rows")
        return len(raw)

    def _machine(self) -> Machine:
        return self._draw.choice(self._history.machines)

    def _case(self, machine: Machine) -> Case:
        return self._draw.choice(machine.cases[machine.num_references :])

    def _runs_of(self, machine: Machine) -> Sequence[PlannedRun]:
        return [run for run in self._runs if run.machine == machine.name]


# Queries that read neither kernels nor samples.
TRENDS: Final = ("overview", "trends", "computed_trends")
ALL: Final = (*TRENDS, "series", "kernel_diff", "run", "runs")


def measure(
    questions: Questions, *, num_questions: int, names: Sequence[str] = ALL
) -> list[dict[str, Any]]:
    """Return the times of the queries with these names."""
    return [asdict(_timing(getattr(questions, name), num_questions)) for name in names]


def _timing(question: Callable[[], Any], num_questions: int) -> Timing:
    question()
    walls, cpus = [], []
    for _ in range(num_questions):
        started_s, cpu_s = time.perf_counter(), time.process_time()
        if not question():
            raise BenchmarkError(f"{question.__name__} found nothing")
        walls.append(1000 * (time.perf_counter() - started_s))
        cpus.append(1000 * (time.process_time() - cpu_s))
    p50_ms, p95_ms = np.percentile(walls, [50, 95])
    cpu_p50_ms, cpu_p95_ms = np.percentile(cpus, [50, 95])
    return Timing(
        name=question.__name__,
        num_asked=num_questions,
        p50_ms=round(float(p50_ms), 1),
        p95_ms=round(float(p95_ms), 1),
        cpu_p50_ms=round(float(cpu_p50_ms), 1),
        cpu_p95_ms=round(float(cpu_p95_ms), 1),
    )

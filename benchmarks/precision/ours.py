"""One estimate by Compile HUD: a worker host of its own and as many launches as the time allows."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from compile_hud.db.records.results import Case, CaseResult, Dtype, Outcome, Phase
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.analysis.stats.estimates import launch_medians
from compile_hud.runner.analysis.stats.launch_levels import SPEED_PROBE, launch_levels
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.launch_aggregation import combine
from compile_hud.runner.execution.worker_process import WorkerHost
from compile_hud.runner.planning.plan import plan_case
from compile_hud.runner.protocol.messages import LaunchReport, LaunchRequest, MeasureSettings

# Most of a launch is its compilation; sampling for a fifth of it is worth it.
SETTINGS = MeasureSettings(num_rounds=60, budget_s=1.2, target_interval=0.0)

# The reference speed for normalised times of all estimates; any value gives the same result.
SPEED_PROBE_S = 5e-4

# Seconds for forking, ending and reporting.
STEPS_OVERHEAD_S = 0.3

METRICS = {
    "eager_s": "eager_latency_cpu_s",
    "compiled_s": "latency_cpu_s",
    "speedup": "speedup",
    "eager_wall_s": "eager_latency_s",
    "compiled_wall_s": "latency_s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFolders:
    """The folders of the worker host: its state, and a filled compile cache."""

    home: Path
    cache: Path


def order(model: str, shape: str) -> CaseOrder:
    """Return the order of the model in mode default, which interleaves eager."""
    way, spec = VARIANTS["default"], CATALOG[model]
    case = Case(
        model=model,
        family=spec.family,
        phase=Phase.INFERENCE,
        shape=shape,
        dtype=Dtype.FP32,
        mode=way.mode,
        variant=way.name,
        backend=way.backend,
        device="cpu",
    )
    planned = plan_case(case, catalog=CATALOG)
    return CaseOrder(run_id="precision", case=case, workload=planned.workload, settings=SETTINGS)


def estimate(model: str, shape: str, *, folders: WorkerFolders, until: float) -> dict[str, Any]:
    """Return eager and compiled latency and speedup, from a host's start to its end.

    Further launches start as long as one more will likely be done at `until`, a time of
    `time.monotonic()`.
    """
    case = order(model, shape)
    host = WorkerHost(python=Path(sys.executable), home=folders.home)
    host.start()
    reports: list[LaunchReport] = []
    latest_s = 0.0
    try:
        while not reports or time.monotonic() + latest_s < until:
            # The first launch filled the cache; these come later.
            reports.append(launch(host, case, number=1 + len(reports), folders=folders))
            # The launch's own steps: before the first one the host imports the model's file.
            latest_s = float(reports[-1].details["steps"][-1]["end_s"]) + STEPS_OVERHEAD_S
    finally:
        host.close()
    return numbers(_result(case, reports))


def launch(
    host: WorkerHost, case: CaseOrder, *, number: int, folders: WorkerFolders
) -> LaunchReport:
    """Return the report of one launch; raise RuntimeError if it is not ok."""
    with tempfile.TemporaryDirectory() as folder:
        log, report = Path(folder, "log.txt"), Path(folder, "report.json")
        request = LaunchRequest(
            case=case.case,
            workload=case.workload,
            settings=case.settings,
            launch=number,
            cache_dir=str(folders.cache),
            report_path=str(report),
            log_path=str(log),
        )
        ending = host.ask(
            {"action": "launch", "request": request.to_json()}, log=log, timeout_s=600.0
        )
        if not report.exists():
            raise RuntimeError(f"{case.case.key}: {ending.text}\n{log.read_text(errors='replace')}")
        launch_report = LaunchReport.from_json(json.loads(report.read_text(encoding="utf-8")))
    if launch_report.outcome is not Outcome.OK:
        raise RuntimeError(f"{case.case.key}: {launch_report.outcome}, {launch_report.reason}")
    return launch_report


def numbers(result: CaseResult) -> dict[str, Any]:
    """Return medians over launches of their levels, on both clocks, and the numbers of tables."""
    levels = {
        name: launch_levels(result, metric, speed_probe_s=SPEED_PROBE_S)
        for name, metric in METRICS.items()
    }
    shown = {name: result.measurement(metric) for name, metric in METRICS.items()}
    return {
        **{name: float(np.median(own)) for name, own in levels.items()},
        "shown": {name: item.median for name, item in shown.items() if item is not None},
        "launches": {name: own.tolist() for name, own in levels.items()},
        "launch_medians": _launch_medians(result),
    }


def _launch_medians(result: CaseResult) -> dict[str, list[float]]:
    """Return the components of the levels, the speed probe included."""
    return {
        metric: launch_medians(item.samples, launches=item.launches)
        for metric in (*METRICS.values(), SPEED_PROBE)
        if (item := result.measurement(metric)) is not None
    }


def _result(case: CaseOrder, reports: list[LaunchReport]) -> CaseResult:
    now = datetime.now(timezone.utc)
    return combine(
        case, reports, result_id="estimate", started_at=now, finished_at=now, log_tail=""
    )

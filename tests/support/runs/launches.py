"""Launch orders for the odd models of tests/fixtures, and lists of the processes they leave."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

from compile_hud.db.records.results import Case, CaseResult, Dtype, Phase
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import MeasureSettings, Workload

FIXTURES = Path(__file__).parents[2] / "fixtures"
MODEL_FILE = f"{FIXTURES / 'odd_models.py'}:make"
QUICK: dict[str, Any] = {
    "num_launches": 1,
    "num_rounds": 6,
    "budget_s": 0.2,
    "timeout_s": 240.0,
    "target_interval": 0.0,
}
MEGABYTE = 1 << 20


def order(
    kind: str,
    *,
    variant: str = "eager",
    phase: Phase = Phase.INFERENCE,
    dtype: Dtype = Dtype.FP32,
    config: dict[str, Any] | None = None,
    build: str = MODEL_FILE,
    **settings: Any,
) -> CaseOrder:
    way = VARIANTS[variant]
    case = Case(
        model=kind,
        family="odd",
        phase=phase,
        shape="default",
        dtype=dtype,
        mode=way.mode,
        variant=way.name,
        backend=way.backend,
        device="cpu",
    )
    workload = Workload(
        build=build,
        config={"kind": kind, **(config or {})},
        num_samples=4,
        num_tokens=None,
        tolerance=way.tolerance.set_fields,
        dynamic=way.dynamic,
        fullgraph=way.fullgraph,
        transform=way.transform,
    )
    return CaseOrder(
        run_id="run", case=case, workload=workload, settings=MeasureSettings(**(QUICK | settings))
    )


def median(result: CaseResult, metric: str) -> float:
    measurement = result.measurement(metric)
    assert measurement is not None, (metric, result.reason, result.log_tail)
    return measurement.median


def step_names(result: CaseResult) -> list[list[str]]:
    return [[step["name"] for step in launch] for launch in result.details["steps"]]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_for(path: Path, *, watch: subprocess.Popen[bytes] | None = None) -> str:
    """Block until `path` exists, at most a minute; a file has no other way to announce itself."""
    pause = threading.Event()
    for _ in range(1200):
        if path.exists():
            return path.read_text(encoding="ascii")
        assert watch is None or watch.poll() is None, "the runner ended early"
        pause.wait(0.05)
    raise AssertionError(f"{path} never appeared")

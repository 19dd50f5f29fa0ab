"""Variants of other packages on a CUDA device; their twins on a CPU are in test_runtimes.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from compile_hud.db.records.results import Case, Dtype, Outcome, Phase
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.planning.plan import plan_case
from compile_hud.runner.protocol.messages import MeasureSettings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("own_gpu"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
# What a case that is skipped has to name: a command, or what the device lacks.
MISSING = ("-m pip install", "compute capability")


@pytest.mark.parametrize(
    "variant", ["onnxruntime", "tensorrt", "int8-weight-only", "float8-weight-only"]
)
def test_kernels_of_another_package_are_right_or_report_what_is_missing(
    variant: str, tmp_path: Path
) -> None:
    spec, way = CATALOG["bert"], VARIANTS[variant]
    case = Case(
        model=spec.name,
        family=spec.family,
        phase=Phase.INFERENCE,
        shape="small",
        dtype=Dtype.FP32,
        mode=way.mode,
        variant=way.name,
        backend=way.backend,
        device="cuda",
    )
    executor = LocalExecutor(python=Path(sys.executable), state_dir=tmp_path, device="cuda")
    executor.open()
    try:
        result = executor.execute(
            CaseOrder(
                run_id="run",
                case=case,
                workload=plan_case(case, catalog=CATALOG).workload,
                settings=MeasureSettings(num_launches=1, max_launches=1),
            )
        )
    finally:
        executor.close()
    if result.outcome is Outcome.SKIPPED:
        assert any(text in result.reason for text in MISSING), result.reason
    else:
        assert result.outcome is Outcome.OK, (result.reason, result.log_tail)
        assert result.effective_mode == "default"

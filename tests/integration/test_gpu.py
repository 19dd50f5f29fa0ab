"""What only a CUDA device can show; tests/integration/test_measure.py has the twins on a CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from db.records import Case, CaseResult, Dtype, Outcome, Phase
from models_zoo.catalog import CATALOG
from models_zoo.variants import VARIANTS
from runner.executor import LocalExecutor
from runner.executor_api import CaseOrder
from runner.protocol import MeasureSettings, Workload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    local = LocalExecutor(
        python=Path(sys.executable), state_dir=tmp_path_factory.mktemp("state"), device="cuda"
    )
    local.open()
    yield local
    local.close()


def measured(
    executor: LocalExecutor,
    variant: str,
    *,
    phase: Phase = Phase.INFERENCE,
    dtype: Dtype = Dtype.FP32,
    **settings: Any,
) -> CaseResult:
    spec, way = CATALOG["bert"], VARIANTS[variant]
    size = spec.sizes["small"]
    case = Case(
        model=spec.name,
        family=spec.family,
        phase=phase,
        shape="small",
        dtype=dtype,
        mode=way.mode,
        variant=way.name,
        backend=way.backend,
        device="cuda",
    )
    workload = Workload(
        build=spec.build,
        config=size.config,
        num_samples=size.num_samples,
        num_tokens=size.num_tokens,
    )
    wanted = MeasureSettings(**({"num_launches": 2, "max_launches": 2} | settings))
    result = executor.execute(
        CaseOrder(run_id="run", case=case, workload=workload, settings=wanted)
    )
    assert result.outcome is Outcome.OK, (result.reason, result.log_tail)
    return result


def test_cuda_graphs_are_really_recorded(executor: LocalExecutor) -> None:
    result = measured(executor, "reduce-overhead")
    assert result.effective_mode == "reduce-overhead"
    assert [warning.code for warning in result.warnings if "mode" in warning.code] == []


def test_cuda_graphs_do_not_hide_memory(executor: LocalExecutor) -> None:
    plain = measured(executor, "default").measurement("peak_bytes")
    graphs = measured(executor, "reduce-overhead").measurement("peak_bytes")
    assert plain is not None
    assert graphs is not None
    assert graphs.median > 0.9 * plain.median


def test_what_is_reserved_holds_what_is_allocated(executor: LocalExecutor) -> None:
    result = measured(executor, "reduce-overhead")
    found = {item.metric: item.median for item in result.measurements}
    assert 0 < found["cudagraph_pool_bytes"] <= found["peak_reserved_bytes"]
    assert found["peak_bytes"] <= found["peak_reserved_bytes"]
    assert 0.5 < found["compression_ratio"] < 2.0


def test_the_allocators_history_outlives_the_case(executor: LocalExecutor) -> None:
    result = measured(executor, "default", memory_snapshot=True)
    assert Path(result.details["memory_snapshot"]).stat().st_size > 0


@pytest.mark.parametrize("dtype", list(Dtype))
def test_training_is_accurate_in_every_dtype(executor: LocalExecutor, dtype: Dtype) -> None:
    measured(executor, "default", phase=Phase.TRAINING, dtype=dtype)

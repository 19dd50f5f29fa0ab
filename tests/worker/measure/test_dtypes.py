"""The effect of a dtype on weights, products and gradients, and its refusals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import nn

from compile_hud.db.records.results import MEASURED_DTYPES, Dtype, Outcome, Phase
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.measure import device
from compile_hud.runner.measure.accuracy import metrics as accuracy
from compile_hud.runner.measure.accuracy.step import make_reference
from compile_hud.runner.measure.device import Device, allow_tf32
from compile_hud.runner.measure.subject import Subject, build_subject, mean_square
from compile_hud.runner.protocol.messages import Workload
from tests.support.runs.launch_contexts import make_context
from tests.support.runs.launches import order

CPU = Device(kind="cpu", num_threads=1)
CUDA = Device(kind="cuda", num_threads=1)


def zoo_subject(name: str, *, dtype: Dtype, phase: Phase = Phase.INFERENCE) -> Subject:
    """Return the zoo's model `name` at its smallest."""
    spec = CATALOG[name]
    request = make_context(nn.Linear(1, 1), {}, phase=phase, dtype=dtype).request
    workload = Workload(
        build=spec.build, config=spec.sizes["tiny"].config, num_samples=1, num_tokens=None
    )
    return build_subject(replace(request, workload=workload), device=CPU)


@pytest.mark.parametrize(
    ("dtype", "weights", "products"),
    [
        (Dtype.FP32, torch.float32, torch.float32),
        (Dtype.TF32, torch.float32, torch.float32),
        (Dtype.BF16, torch.bfloat16, torch.bfloat16),
        (Dtype.BF16_AUTOCAST, torch.float32, torch.bfloat16),
        (Dtype.FP16, torch.float16, torch.float16),
        (Dtype.FP16_AUTOCAST, torch.float32, torch.float16),
    ],
)
def test_a_dtype_reports_what_weights_and_products_are_in(
    dtype: Dtype, weights: torch.dtype, products: torch.dtype
) -> None:
    subject = zoo_subject("bert", dtype=dtype)
    assert {parameter.dtype for parameter in subject.model.parameters()} == {weights}
    with subject.autocast(), torch.no_grad():
        factor = torch.ones(2, 2, dtype=weights)
        assert torch.mm(factor, factor).dtype is products


def test_only_fp16_autocast_scales_its_gradients() -> None:
    scaled = {
        dtype: zoo_subject("bert", dtype=dtype, phase=Phase.TRAINING).scaler is not None
        for dtype in MEASURED_DTYPES
    }
    assert {dtype for dtype, has_scaler in scaled.items() if has_scaler} == {Dtype.FP16_AUTOCAST}


def test_every_dtype_has_its_limits() -> None:
    tables = (accuracy.MIN_COSINE, accuracy.GRADIENT_MIN_COSINE, accuracy.ROUNDING_RMSE)
    assert [tuple(table) for table in tables] == [MEASURED_DTYPES] * len(tables)


@pytest.mark.parametrize("name", ["gpt2_decode", "llama_decode"])
def test_a_static_cache_takes_what_autocast_projects(name: str) -> None:
    reference = make_reference(zoo_subject(name, dtype=Dtype.BF16_AUTOCAST))
    checked = accuracy.check_accuracy(
        reference.eager.parts["outputs"],
        oracle=reference.oracle.parts["outputs"],
        min_cosine=accuracy.MIN_COSINE[Dtype.BF16_AUTOCAST],
        tolerance=accuracy.tolerance_for(Dtype.BF16_AUTOCAST, {}),
        eager=accuracy.EagerError(),
    )
    assert checked.reason == ""


@pytest.fixture
def precision() -> Iterator[None]:
    """Leave the precision of products as it was."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


@pytest.mark.usefixtures("precision")
def test_tf32_reaches_products_and_convolutions_by_every_setting_of_torch() -> None:
    torch.backends.cudnn.allow_tf32 = False
    assert not torch.backends.cuda.matmul.allow_tf32
    allow_tf32()
    assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == "high"
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    assert torch.backends.cudnn.conv.fp32_precision == "tf32"


def test_tf32_needs_a_device_that_has_it(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    for capability, has_it in (((7, 5), False), ((8, 0), True), ((12, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda pair=capability: pair)
        assert (CUDA.unsupported_reason(Dtype.TF32) is None) == has_it
    assert str(CPU.unsupported_reason(Dtype.TF32)) == words
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert "unset it" in str(CUDA.unsupported_reason(Dtype.TF32))


def test_a_cpu_has_fp16_where_it_computes_in_it(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(device, "_cpu_has_fp16", lambda: False)
    assert str(CPU.unsupported_reason(Dtype.FP16)) == words
    assert CUDA.unsupported_reason(Dtype.FP16) is None
    monkeypatch.setattr(device, "_cpu_has_fp16", lambda: True)
    assert CPU.unsupported_reason(Dtype.FP16) is None


def test_a_torch_without_onednn_computes_nothing_in_fp16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr(torch.ops, "mkldnn", None)
    assert CPU.unsupported_reason(Dtype.FP16) is not None


def test_nothing_trains_weights_in_fp16() -> None:
    reason = CUDA.unsupported_reason(Dtype.FP16, phase=Phase.TRAINING)
    assert reason is not None
    assert "ends in NaN" in reason
    assert CUDA.unsupported_reason(Dtype.FP16_AUTOCAST, phase=Phase.TRAINING) is None


def test_a_step_of_the_optimizer_on_weights_in_fp16_ends_in_nan() -> None:
    model = nn.Linear(4, 4, bias=False).half()
    subject = Subject(
        model=model,
        inputs={"input": torch.full((1, 4), 1e-3, dtype=torch.float16)},
        phase=Phase.TRAINING,
        dtype=Dtype.FP16,
        device=CPU,
        loss=mean_square,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.0),
    )
    subject.step(model)()
    assert bool(model.weight.isnan().any())


@pytest.mark.nightly
def test_a_case_under_bf16_autocast_is_trained_and_accurate(tmp_path: Path) -> None:
    executor = LocalExecutor(python=Path(sys.executable), state_dir=tmp_path)
    executor.open()
    try:
        case_order = order("plain", dtype=Dtype.BF16_AUTOCAST, phase=Phase.TRAINING)
        result = executor.execute(case_order)
        refused = executor.execute(order("plain", dtype=Dtype.FP16, phase=Phase.TRAINING))
    finally:
        executor.close()
    assert result.outcome is Outcome.OK, (result.reason, result.log_tail)
    error = result.measurement("max_abs_error")
    assert error is not None
    # The rounding of bf16, where fp32 would leave less than a thousandth of it.
    assert error.median > 1e-4
    assert refused.outcome is Outcome.SKIPPED
    assert "fp16-autocast" in refused.reason

"""Weights in 8 bits: what is quantized, what it costs in memory and accuracy, and where it ends."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import Tensor, nn

from compile_hud.db.records.results import MEASURED_DTYPES, Outcome
from compile_hud.models_zoo.catalog.errors import UnavailableModelError
from compile_hud.models_zoo.catalog.spec import ModelTransform, Tolerance
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.measure.accuracy.metrics import tolerance_for
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.model_transforms import TransformError, apply_transform
from compile_hud.runner.measure.quantization import report_quantized
from compile_hud.runner.measure.resources.memory import storage_bytes
from tests.support.runs.launch_contexts import make_context
from tests.support.runs.launches import order

INT8 = ModelTransform(weights="int8")
FLOAT8 = ModelTransform(weights="float8")
# torchao registers an enum with torch's pytree, which calls that deprecated.
pytestmark = pytest.mark.filterwarnings("ignore")


class Tied(nn.Module):
    """Ends with a layer whose first row is zero, as one that shares an embedding with padding."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 32)
        self.last = nn.Linear(32, 32, bias=False)
        self.last.weight.data[0] = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(x))


def inputs() -> dict[str, Tensor]:
    return {"x": torch.randn(4, 32, generator=torch.Generator().manual_seed(0))}


@pytest.mark.parametrize("transform", [INT8, FLOAT8])
def test_quantized_weights_are_near_and_leave_eager_as_it_was(transform: ModelTransform) -> None:
    subject = make_context(nn.Linear(32, 32), {"input": inputs()["x"]}).subject
    weight = subject.model.weight.detach().clone()
    transformed = apply_transform(subject, transform=transform)
    assert transformed is not None
    with torch.no_grad():
        ours, theirs = transformed.model(**transformed.inputs), subject.model(**subject.inputs)
    assert not torch.equal(ours, theirs)
    assert torch.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.99
    assert torch.equal(subject.model.weight, weight)
    # A byte for each weight and some for each row (scale, zero point), beside bias and input.
    num_bytes = storage_bytes(transformed.alive()) - 32 * 4 - 4 * 32 * 4
    assert 32 * 32 < num_bytes <= 32 * 32 + 32 * 5


def test_a_row_of_zeros_keeps_a_layer_out_of_float8() -> None:
    torch.manual_seed(0)
    context = make_context(Tied(), inputs())
    workload = dataclasses.replace(context.request.workload, transform=FLOAT8)
    request = dataclasses.replace(context.request, workload=workload)
    context = dataclasses.replace(context, request=request)
    transformed = apply_transform(context.subject, transform=FLOAT8)
    assert transformed is not None
    with torch.no_grad():
        assert torch.isfinite(transformed.model(**inputs())).all()
    report_quantized(context)
    assert context.findings.details["quantized"] == {
        "weights": "float8",
        "num_layers": 1,
        "left": ["last"],
    }
    assert [warning.code for warning in context.findings.warnings] == ["not-quantized"]


def test_a_model_without_linear_layers_has_nothing_to_quantize(words: SnapshotAssertion) -> None:
    subject = make_context(nn.ReLU(), {"input": torch.ones(2, 4)}).subject
    with pytest.raises(TransformError) as caught:
        apply_transform(subject, transform=INT8)
    assert str(caught.value) == words


def test_a_gpu_without_8_bit_floats_is_skipped(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    cuda = Device(kind="cuda", num_threads=1)
    subject = make_context(nn.Linear(4, 4), {"input": torch.ones(2, 4)}, device=cuda).subject
    with pytest.raises(TransformError) as caught:
        apply_transform(subject, transform=FLOAT8)
    assert (" 8.9 " in str(caught.value), " 8.0:" in str(caught.value)) == (True, True)
    assert str(caught.value) == words


def test_a_missing_torchao_explains_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao.quantization", None)
    subject = make_context(nn.Linear(4, 4), {"input": torch.ones(2, 4)}).subject
    with pytest.raises(UnavailableModelError, match=f"`{sys.executable} -m pip install torchao`"):
        apply_transform(subject, transform=INT8)


@pytest.mark.parametrize("dtype", MEASURED_DTYPES)
@pytest.mark.parametrize("name", ["int8-weight-only", "float8-weight-only"])
def test_a_quantized_variant_is_nowhere_held_stricter_than_its_dtype(name: str, dtype: str) -> None:
    plain = tolerance_for(dtype, {})
    widened = tolerance_for(dtype, VARIANTS[name].tolerance.set_fields)
    assert widened.min_cosine <= plain.min_cosine
    assert widened.rounding_rmse >= plain.rounding_rmse


def test_the_laxer_of_two_tolerances_counts() -> None:
    model = Tolerance(min_cosine=0.95, rounding_rmse=0.01, max_rmse_ratio=9.0)
    variant = Tolerance(min_cosine=0.99, rounding_rmse=0.1)
    both = Tolerance(min_cosine=0.95, rounding_rmse=0.1, max_rmse_ratio=9.0)
    assert model.widened_by(variant) == variant.widened_by(model) == both
    assert model.widened_by(Tolerance()) == model


@pytest.mark.slow
@pytest.mark.nightly
def test_int8_is_measured_as_a_variant(tmp_path: Path) -> None:
    executor = LocalExecutor(python=Path(sys.executable), state_dir=tmp_path)
    executor.open()
    try:
        result = executor.execute(order("plain", variant="int8-weight-only"))
    finally:
        executor.close()
    assert result.outcome is Outcome.OK, result.reason
    assert result.effective_mode == "default"
    assert result.details["quantized"]["num_layers"] > 0
    assert result.measurement("compression_ratio") is not None
    assert result.measurement("cosine_similarity") is not None
    assert result.measurement("rmse_ratio") is None

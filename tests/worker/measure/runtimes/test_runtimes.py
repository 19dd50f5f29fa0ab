"""Other runtimes as variants: what a case of them has and lacks, with the runtime and without."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import Tensor, nn

from compile_hud.db.records.results import Dtype, Outcome
from compile_hud.models_zoo.catalog.errors import UnavailableModelError
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.model_transforms import TransformError
from compile_hud.runner.measure.runtimes import onnx_runtime, openvino, tensorrt
from compile_hud.runner.measure.runtimes.exported import (
    Export,
    ExportedModel,
    ExportError,
    Load,
    check_outputs,
)
from compile_hud.runner.measure.runtimes.registry import (
    allocates_itself,
    compile_options,
    is_exported,
)
from tests.support.builders import make_case
from tests.support.runs.launch_contexts import CPU
from tests.support.runs.launches import order

CUDA = Device(kind="cuda", num_threads=1)


class Pair(nn.Module):
    """Returns a dict of two tensors and something that is none."""

    def forward(self, *, left: Tensor, right: Tensor) -> dict[str, Any]:
        return {"sum": (left + right).T, "nothing": None, "larger": left > right}


class Twin:
    """A runtime that has the model itself, and writes what it returns where it should."""

    facts: Mapping[str, Any] = {"name": "twin"}

    def __init__(self, export: Export) -> None:
        self.export = export
        self.num_binds = 0
        self.inputs: Mapping[str, Tensor] = {}

    def bind(self, inputs: Mapping[str, Tensor]) -> None:
        assert all(tensor.is_contiguous() for tensor in inputs.values())
        self.num_binds += 1
        self.inputs = inputs

    def run(self) -> None:
        outputs = self.export.model(**self.inputs).values()
        tensors = [item for item in outputs if torch.is_tensor(item)]
        for room, tensor in zip(self.export.outputs, tensors, strict=True):
            room.copy_(tensor)


@dataclass
class Odd:
    """A class of results that torch knows nothing of."""

    hidden: Tensor


class Hiding(nn.Module):
    def forward(self, x: Tensor) -> Odd:
        return Odd(hidden=x)


class Deciding(nn.Module):
    """Takes a way that depends on its numbers, which no export can follow."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def in_runtime(model: nn.Module, load: Load) -> ExportedModel:
    return ExportedModel(model=model, load=load, dtype=Dtype.FP32, device=CPU)


def test_an_exported_model_returns_what_the_model_returns() -> None:
    left, right = torch.randn(2, 3), torch.randn(2, 3)
    forward = in_runtime(Pair(), Twin)
    outputs = forward(left=left, right=right)
    assert list(outputs) == ["sum", "nothing", "larger"]
    assert torch.equal(outputs["sum"], (left + right).T)
    assert outputs["sum"].is_contiguous()
    assert outputs["nothing"] is None
    assert torch.equal(outputs["larger"], left > right)
    assert forward.facts == {"name": "twin"}


def test_a_runtime_begins_when_the_work_of_torch_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    order_of_events: list[str] = []

    class Noting(Twin):
        def run(self) -> None:
            order_of_events.append("runtime")
            super().run()

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: order_of_events.append("torch is done"))
    forward = ExportedModel(model=Pair(), load=Noting, dtype=Dtype.FP32, device=CUDA)
    for _ in range(2):
        forward(left=torch.zeros(2, 3), right=torch.ones(2, 3))
    assert order_of_events == ["torch is done", "runtime"] * 2


def test_only_inputs_that_lie_elsewhere_are_bound_again() -> None:
    twins: list[Twin] = []

    def load(export: Export) -> Twin:
        twins.append(Twin(export))
        return twins[-1]

    forward = in_runtime(Pair(), load)
    left, right = torch.zeros(2, 3), torch.ones(2, 3)
    forward(left=left, right=right)
    left += 5
    assert torch.equal(forward(left=left, right=right)["sum"], torch.full((3, 2), 6.0))
    assert twins[0].num_binds == 1
    # Not contiguous: a copy of it is bound each time, since its numbers may have changed.
    turned = torch.zeros(3, 2).T
    forward(left=turned, right=right)
    turned += 7
    assert torch.equal(forward(left=turned, right=right)["sum"], torch.full((3, 2), 8.0))
    assert len(twins) == 1


def test_outputs_that_export_cannot_see_are_no_outputs_of_a_runtime(
    words: SnapshotAssertion,
) -> None:
    with pytest.raises(ExportError) as caught:
        in_runtime(Hiding(), Twin)(x=torch.ones(2))
    assert str(caught.value) == words


def test_another_number_of_outputs_is_an_error(words: SnapshotAssertion) -> None:
    export = Export(model=Pair(), inputs={}, outputs=[], dtype=Dtype.FP32, device=CPU)
    with pytest.raises(ExportError) as caught:
        check_outputs(2, export=export)
    assert str(caught.value) == words


def test_a_missing_runtime_explains_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    command = f"{sys.executable} -m pip install onnxruntime onnx onnxscript`"
    with pytest.raises(UnavailableModelError, match=command):
        onnx_runtime.check(CPU, Dtype.FP32)


def test_onnx_runtime_without_cuda_names_which_build_has_it(words: SnapshotAssertion) -> None:
    with pytest.raises(TransformError) as caught:
        onnx_runtime.check(CUDA, Dtype.FP32)
    assert str(caught.value) == words


@pytest.mark.parametrize("dtype", [Dtype.BF16, Dtype.BF16_AUTOCAST])
def test_onnx_runtime_has_no_bf16_on_a_cpu(dtype: Dtype, words: SnapshotAssertion) -> None:
    with pytest.raises(TransformError) as caught:
        onnx_runtime.check(CPU, dtype)
    assert str(caught.value) == words


def test_what_cannot_be_exported_fails_with_the_reason_of_the_exporter(
    words: SnapshotAssertion,
) -> None:
    with pytest.raises(ExportError) as caught:
        in_runtime(Deciding().eval(), onnx_runtime.load)(x=torch.ones(2))
    assert str(caught.value) == words
    assert "data-dependent" in str(caught.value.__cause__)


class Mixed(nn.Module):
    """Has every kind of number that the zoo has, and inputs in another order than forward's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, *, ids: Tensor) -> tuple[Tensor, ...]:
        y = self.linear(x)
        return y, x > 0, ids + 1, y.sum()


@pytest.mark.slow
# OpenVINO's converter copies what torch.utils._pytree calls deprecated.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("load", "dtype"),
    [
        (onnx_runtime.load, Dtype.FP32),
        (openvino.load, Dtype.FP32),
        (openvino.load, Dtype.BF16),
    ],
)
def test_runtimes_write_what_eager_returns(load: Load, dtype: Dtype) -> None:
    weights = torch.float32 if dtype is Dtype.FP32 else torch.bfloat16
    model = Mixed().eval().to(weights)
    inputs = {"ids": torch.arange(3), "x": torch.randn(2, 4, dtype=weights)}
    with torch.no_grad():
        forward = ExportedModel(model=model, load=load, dtype=dtype, device=CPU)
        forward(**inputs)
        inputs["x"].neg_()
        expected = model(**inputs)
        for ours, theirs in zip(forward(**inputs), expected, strict=True):
            assert ours.dtype is theirs.dtype
            torch.testing.assert_close(ours, theirs)


def test_openvino_sends_no_telemetry() -> None:
    openvino.check(CPU, Dtype.FP32)
    assert sys.modules["openvino_telemetry"] is None


def test_openvino_has_no_cuda(words: SnapshotAssertion) -> None:
    with pytest.raises(TransformError) as caught:
        openvino.check(CUDA, Dtype.FP32)
    assert str(caught.value) == words


def test_tensorrt_names_which_release_fits_this_torch(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setitem(sys.modules, "torch_tensorrt", None)
    monkeypatch.setattr(torch, "__version__", "2.14.1+cu130")
    with pytest.raises(UnavailableModelError) as caught:
        tensorrt.check(CUDA, Dtype.FP32)
    assert "==2.14.*" in str(caught.value)
    assert str(caught.value) == words


@pytest.mark.parametrize(("dtype", "is_off"), [(Dtype.FP32, True), (Dtype.TF32, False)])
def test_tensorrt_neither_rounds_nor_falls_back_by_default(dtype: Dtype, is_off: bool) -> None:
    case = make_case(dtype=dtype, variant="tensorrt", mode="default", backend="tensorrt")
    options = {"pass_through_build_failures": True, "disable_tf32": is_off}
    assert compile_options(case) == {"options": options}
    assert compile_options(make_case(backend="inductor")) == {}
    # A backend of torch.compile, so Dynamo counts; its engines' memory is still not torch's.
    assert not is_exported(case)
    assert allocates_itself(case)


def test_a_runtime_for_gpus_is_skipped_on_a_cpu(
    executor: LocalExecutor, words: SnapshotAssertion
) -> None:
    result = executor.execute(order("plain", variant="tensorrt"))
    assert result.outcome is Outcome.SKIPPED
    assert result.reason == words


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_another_runtime_is_measured_as_a_variant(executor: LocalExecutor, runtime: str) -> None:
    result = executor.execute(order("plain", variant=runtime, num_launches=2))
    assert result.outcome is Outcome.OK, result.reason
    assert result.effective_mode == "default"
    assert result.details["runtime"]["name"] == runtime
    assert result.details["runtime"]["num_threads"] == 1
    has = {measurement.metric for measurement in result.measurements}
    assert {"latency_s", "speedup", "compile_cold_s", "cosine_similarity", "rmse_ratio"} <= has
    # Neither Dynamo nor a cache nor torch's allocator nor its profiler has a part in it.
    assert not has & {"graphs", "graph_breaks", "recompiles", "guards", "compile_warm_s"}
    assert not has & {"compile_dynamo_s", "compile_inductor_s", "peak_bytes", "num_kernels"}
    codes = {warning.code for warning in result.warnings}
    assert "no-memory" in codes
    assert not codes & {"mode-fallback", "cache-miss", "no-kernels", "recompile-limit"}

"""OpenVINO on a CPU: the whole program of torch.export, with bound tensors and no copies.

OpenVINO's backend of torch.compile is not used, since it silently falls back to Inductor and eager
(docs/adr/0007-other-runtimes-are-called-like-a-model.md).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch

from compile_hud.db.records.results import Dtype
from compile_hud.models_zoo.building.packages import import_provider
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.model_transforms import TransformError
from compile_hud.runner.measure.runtimes.exported import Export, ExportError, Session, check_outputs

# By default it computes fp32 models in bf16 if the CPU has instructions for that.
_PRECISIONS: Mapping[Dtype, str] = {Dtype.FP32: "f32", Dtype.BF16: "bf16", Dtype.FP16: "f16"}


def check(device: Device, _dtype: Dtype) -> None:
    """Import the package; raise if it is missing or the device is no CPU."""
    if device.is_cuda:
        raise TransformError("openvino has no device for NVIDIA's GPUs: measure it with cpu")
    _import()


def load(export: Export) -> Session:
    """Return the model in OpenVINO; raise errors of torch.export and of the runtime."""
    runtime = _import()
    program = torch.export.export(export.model, (), kwargs=dict(export.inputs))
    model = runtime.convert_model(program)
    names = [_name_of(port, known=export.inputs) for port in model.inputs]
    # The converter leaves every dimension open.
    model.reshape({index: list(export.inputs[name].shape) for index, name in enumerate(names)})
    options = {
        "INFERENCE_NUM_THREADS": export.device.num_threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        # The runner pins the measured thread itself.
        "ENABLE_CPU_PINNING": False,
    }
    if export.dtype in _PRECISIONS:
        options["INFERENCE_PRECISION_HINT"] = _PRECISIONS[export.dtype]
    compiled = runtime.Core().compile_model(model, "CPU", options)
    return OpenvinoSession(compiled, names=names, export=export, runtime=runtime)


class OpenvinoSession:
    """An openvino.CompiledModel with one request, its inputs and outputs bound."""

    def __init__(self, compiled: Any, *, names: list[str], export: Export, runtime: Any) -> None:
        self._names = names
        self._runtime = runtime
        self._request = compiled.create_infer_request()
        self.facts: Mapping[str, Any] = {
            "name": "openvino",
            "version": runtime.__version__,
            "precision": compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name(),
            "num_threads": compiled.get_property("INFERENCE_NUM_THREADS"),
        }
        check_outputs(len(compiled.outputs), export=export)
        for index, tensor in enumerate(export.outputs):
            self._request.set_output_tensor(index, self._share(tensor))

    def bind(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Bind contiguous `inputs`, which later calls read without a copy."""
        for index, name in enumerate(self._names):
            self._request.set_input_tensor(index, self._share(inputs[name]))

    def run(self) -> None:
        """Execute once, until the outputs are written."""
        self._request.infer()

    def _share(self, tensor: torch.Tensor) -> Any:
        if tensor.dtype is torch.bfloat16:
            # numpy has no bf16: the bytes under another name.
            array, kind = tensor.view(torch.int16).numpy(), self._runtime.Type.bf16
            return self._runtime.Tensor(array, list(tensor.shape), kind)
        return self._runtime.Tensor(tensor.numpy(), shared_memory=True)


def _import() -> Any:
    # OpenVINO reports each import and conversion to its vendor through this package. A None entry
    # disables it, since a measurement sends no telemetry.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    return import_provider("openvino")


def _name_of(port: Any, *, known: Mapping[str, torch.Tensor]) -> str:
    """Return the name of the input behind `port`, which has the names of its operators as well."""
    named: list[str] = [name for name in port.get_names() if name in known]
    if len(named) != 1:
        raise ExportError(f"OpenVINO's input {port.get_any_name()!r} is none of {', '.join(known)}")
    return named[0]

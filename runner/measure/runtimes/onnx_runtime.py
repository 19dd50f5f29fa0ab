"""ONNX Runtime: the model as torch.onnx exports it, with bound tensors and no copies.

On CUDA a call returns when its outputs are written: the runtime treats torch's default stream as no
stream and uses one of its own (microsoft/onnxruntime#19229).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from compile_hud.db.records.results import Dtype
from compile_hud.models_zoo.building.packages import import_provider
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.model_transforms import TransformError
from compile_hud.runner.measure.runtimes.exported import Export, ExportError, Session, check_outputs

PACKAGES = "onnxruntime onnx onnxscript"
CPU_PROVIDER = "CPUExecutionProvider"
CUDA_PROVIDER = "CUDAExecutionProvider"
# The numbers that the ONNX format has for them, onnx.TensorProto.DataType.
ELEMENT_TYPES: Mapping[torch.dtype, int] = {
    torch.float32: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float16: 10,
    torch.float64: 11,
    torch.bfloat16: 16,
}
# Warnings of the runtime concern people who tune a graph.
_LOG_ERRORS = 3


def check(device: Device, dtype: Dtype) -> None:
    """Import the packages; raise for a missing package or an unsupported `dtype`."""
    runtime = import_provider("onnxruntime", install=PACKAGES)
    import_provider("onnx", install=PACKAGES)
    import_provider("onnxscript", install=PACKAGES)
    if device.is_cuda and CUDA_PROVIDER not in runtime.get_available_providers():
        raise TransformError(
            f"this onnxruntime ({runtime.__version__}) has no {CUDA_PROVIDER}. Put the build with"
            f" CUDA in its place: `{sys.executable} -m pip uninstall onnxruntime`, then"
            f" `{sys.executable} -m pip install onnxruntime-gpu`."
        )
    if not device.is_cuda and dtype in (Dtype.BF16, Dtype.BF16_AUTOCAST):
        raise TransformError(
            f"the {CPU_PROVIDER} of onnxruntime has no kernels for bf16: measure it in fp32, or"
            " bf16 under openvino"
        )


def load(export: Export) -> Session:
    """Return the model in ONNX Runtime; raise ExportError and errors of the runtime."""
    runtime = import_provider("onnxruntime", install=PACKAGES)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = export.device.num_threads
    options.log_severity_level = _LOG_ERRORS
    # Weights are in a separate file, since one file is limited to 2 GB.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        _write(export, path)
        session = runtime.InferenceSession(path, options, providers=_providers(export))
    return OnnxSession(session, export=export, version=runtime.__version__)


class OnnxSession:
    """An onnxruntime.InferenceSession with its inputs and outputs bound."""

    def __init__(self, session: Any, *, export: Export, version: str) -> None:
        self._session = session
        self._binding = session.io_binding()
        providers = session.get_providers()
        if export.device.is_cuda and CUDA_PROVIDER not in providers:
            raise ExportError(
                f"ONNX Runtime fell back to {', '.join(providers)}: it could not load the libraries"
                f" of CUDA and cuDNN that {CUDA_PROVIDER} needs; the log names them"
            )
        self.facts: Mapping[str, Any] = {
            "name": "onnxruntime",
            "version": version,
            "providers": providers,
            "num_threads": export.device.num_threads,
        }
        check_outputs(len(session.get_outputs()), export=export)
        for output, tensor in zip(session.get_outputs(), export.outputs, strict=True):
            self._binding.bind_output(output.name, **_binding(tensor))

    def bind(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Bind contiguous `inputs`, which later calls read without a copy."""
        for node in self._session.get_inputs():
            self._binding.bind_input(node.name, **_binding(inputs[node.name]))

    def run(self) -> None:
        """Execute once, until the outputs are written."""
        self._session.run_with_iobinding(self._binding)


def _write(export: Export, path: Path) -> None:
    try:
        program = torch.onnx.export(
            export.model, (), kwargs=dict(export.inputs), dynamo=True, verbose=False
        )
    except torch.onnx.OnnxExporterError as error:
        cause = _root(error)
        raise ExportError(f"torch.onnx cannot export it ({type(cause).__name__})") from cause
    assert program is not None
    program.save(path, external_data=True)


def _root(error: BaseException) -> BaseException:
    """Return the first cause: the exporter wraps its reasons in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _providers(export: Export) -> list[Any]:
    if not export.device.is_cuda:
        return [CPU_PROVIDER]
    # The option is on by default and covers all operators: eager in fp32 disables it for products
    # only.
    uses_tf32 = int(export.dtype is Dtype.TF32)
    options = {"device_id": torch.cuda.current_device(), "use_tf32": uses_tf32}
    # An operator without a CUDA kernel runs on the CPU, as in usual deployments.
    return [(CUDA_PROVIDER, options), CPU_PROVIDER]


def _binding(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "device_type": tensor.device.type,
        "device_id": tensor.device.index or 0,
        "element_type": ELEMENT_TYPES[tensor.dtype],
        "shape": tuple(tensor.shape),
        "buffer_ptr": tensor.data_ptr(),
    }

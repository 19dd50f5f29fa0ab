"""The runtimes other than torch.compile that a variant may name as its backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compile_hud.db.records.results import Case, Dtype
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.runtimes import aot_inductor, onnx_runtime, openvino, tensorrt
from compile_hud.runner.measure.runtimes.exported import ExportedModel, Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A runtime that executes a model instead of torch.

    `check` imports its packages and raises UnavailableModelError or TransformError if it cannot run
    here. Either `load` imports an exported model into it, or it is a backend of torch.compile with
    the settings of `compile_options`.
    """

    check: Callable[[Device, Dtype], None]
    load: Load | None = None
    compile_options: Callable[[Dtype], dict[str, Any]] | None = None


RUNTIMES: Mapping[str, Runtime] = {
    "aot_inductor": Runtime(check=aot_inductor.check, load=aot_inductor.load),
    "onnxruntime": Runtime(check=onnx_runtime.check, load=onnx_runtime.load),
    "openvino": Runtime(check=openvino.check, load=openvino.load),
    "tensorrt": Runtime(check=tensorrt.check, compile_options=tensorrt.compile_options),
}


def check_runtime(case: Case, *, device: Device) -> None:
    """Raise if the runtime of `case` cannot run here; the message has the remedy."""
    if case.backend in RUNTIMES:
        RUNTIMES[case.backend].check(device, case.dtype)


def is_exported(case: Case) -> bool:
    """Return whether another runtime executes the whole model, without Dynamo."""
    return case.backend in RUNTIMES and RUNTIMES[case.backend].load is not None


def allocates_itself(case: Case) -> bool:
    """Return whether the backend has memory that torch's allocator does not see."""
    return case.backend in RUNTIMES


def compile_options(case: Case) -> dict[str, Any]:
    """Return torch.compile's options for the backend of `case`; empty without any."""
    runtime = RUNTIMES.get(case.backend)
    if runtime is None or runtime.compile_options is None:
        return {}
    return {"options": runtime.compile_options(case.dtype)}


def exported(model: torch.nn.Module, *, case: Case, device: Device) -> ExportedModel:
    """Return `model` in the runtime that `case` names; nothing is exported before it is called."""
    load = RUNTIMES[case.backend].load
    assert load is not None
    return ExportedModel(model=model, load=load, dtype=case.dtype, device=device)

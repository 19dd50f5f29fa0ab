"""The runtimes beside torch that a variant may name as its backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from db.records import Case
from runner.measure.device import Device
from runner.measure.runtimes import onnx_runtime, openvino
from runner.measure.runtimes.exported import ExportedModel, Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """How to have a model executed by another runtime.

    `check` imports its packages and raises UnavailableModelError or CannotTreatError where it
    cannot run here; `load` brings an exported model into it.
    """

    check: Callable[[Device], None]
    load: Load


RUNTIMES: Mapping[str, Runtime] = {
    "onnxruntime": Runtime(check=onnx_runtime.check, load=onnx_runtime.load),
    "openvino": Runtime(check=openvino.check, load=openvino.load),
}


def check_runtime(case: Case, *, device: Device) -> None:
    """Raise where the runtime that `case` names cannot run here; the message says what to do."""
    if case.backend in RUNTIMES:
        RUNTIMES[case.backend].check(device)


def is_exported(case: Case) -> bool:
    """Return whether another runtime executes the whole model, without Dynamo."""
    return case.backend in RUNTIMES


def exported(model: torch.nn.Module, *, case: Case, device: Device) -> ExportedModel:
    """Return `model` in the runtime that `case` names; nothing is exported before it is called."""
    return ExportedModel(
        model=model, load=RUNTIMES[case.backend].load, dtype=case.dtype, device=device
    )

"""TensorRT, through torch_tensorrt's backend of torch.compile.

Graphs with an unsupported operator stay with torch, as in usual deployments. An engine that cannot
be built is an error and no fallback to torch.
"""

from __future__ import annotations

from typing import Any

import torch

from compile_hud.db.records.results import Dtype
from compile_hud.models_zoo.building.packages import import_provider
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.model_transforms import TransformError


def check(device: Device, _dtype: Dtype) -> None:
    """Import the package; raise if it is missing or the device is a CPU."""
    if not device.is_cuda:
        raise TransformError("tensorrt builds engines for NVIDIA's GPUs: measure it with cuda")
    # A release is built for one torch; another version would install its own torch.
    release = ".".join(torch.__version__.split(".")[:2])
    import_provider("torch_tensorrt", install=f"'torch-tensorrt=={release}.*'")


def compile_options(dtype: Dtype) -> dict[str, Any]:
    """Return the settings of torch_tensorrt for cases of `dtype`."""
    return {"pass_through_build_failures": True, "disable_tf32": dtype is not Dtype.TF32}

"""AOTInductor: the program of torch.export compiled into a package, and loaded from it.

The package is what a server without a compiler would load. Inputs are not copied, and each call
returns new tensors.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from compile_hud.db.records.results import Dtype
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.model_transforms import TransformError
from compile_hud.runner.measure.runtimes.exported import Export, Session


def check(_device: Device, _dtype: Dtype) -> None:
    """Raise TransformError if this torch cannot write a package."""
    import torch._inductor

    if not hasattr(torch._inductor, "aoti_compile_and_package"):
        raise TransformError(f"torch {torch.__version__} writes no packages of AOTInductor")


def load(export: Export) -> Session:
    """Return the loaded package; raise errors of torch.export and of Inductor."""
    program = torch.export.export(export.model, (), kwargs=dict(export.inputs))
    with tempfile.TemporaryDirectory() as folder:
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(Path(folder, "model.pt2"))
        )
        size = Path(path).stat().st_size
        return AotInductorSession(torch._inductor.aoti_load_package(path), size=size)


class AotInductorSession:
    """A loaded package; `facts` have its bytes."""

    def __init__(self, package: Any, *, size: int) -> None:
        self._package = package
        self._inputs: Mapping[str, torch.Tensor] = {}
        self.facts: Mapping[str, Any] = {
            "name": "aot_inductor",
            "version": torch.__version__,
            "package_bytes": size,
        }

    def bind(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Use `inputs` in later calls."""
        self._inputs = inputs

    def run(self) -> Any:
        """Execute once and return the outputs."""
        return self._package(**self._inputs)

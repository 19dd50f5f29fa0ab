"""Named ranges that PyTorch's and NVIDIA's profilers display."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from compile_hud.runner.measure.device import Device


@contextmanager
def named_range(name: str, *, device: Device) -> Iterator[None]:
    """Show the block as `name` in PyTorch's profiler and, on CUDA, in NVIDIA's (NVTX)."""
    if device.is_cuda:
        torch.cuda.nvtx.range_push(name)
    try:
        with torch.profiler.record_function(name):
            yield
    finally:
        if device.is_cuda:
            torch.cuda.nvtx.range_pop()

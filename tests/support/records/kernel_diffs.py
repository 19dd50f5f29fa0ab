"""Sides of kernel diffs, in the form of traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compile_hud.db.records.kernels import Kernel, Profile
from compile_hud.runner.analysis.kernels.change_classes import KernelChange
from compile_hud.runner.analysis.kernels.diff import diff_kernels
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from tests.support.builders import make_kernel

US = 1e-6


def triton(
    name: str = "triton_poi_fused_add_gelu_0",
    *,
    operators: tuple[str, ...] = ("aten.add", "aten.gelu"),
    **fields: Any,
) -> Kernel:
    """Return a pointwise kernel, called 12 times an iteration, 10 us each."""
    label = name.rpartition("_")[0]
    kernel = make_kernel(
        name, label=label, library="triton", operators=operators, mean_s=10 * US, count=12.0
    )
    return replace(kernel, device="cuda:0", **fields)


def cublas(name: str = "ampere_sgemm_128x64_tn", **fields: Any) -> Kernel:
    """Return a product of a library, 10 us a call."""
    kernel = make_kernel(
        name, label=name, kind="gemm", library="cublas", operators=["aten.addmm"], mean_s=10 * US
    )
    return replace(kernel, device="cuda:0", **fields)


def product(*paths: str, lines: Mapping[str, str] | None = None, mean_s: float = 1e-4) -> Kernel:
    """Return a matrix product that each module of `paths` calls once, from the user's `lines`."""
    launch: dict[str, Any] = {"call_lines": dict(lines or {})}
    if len(paths) > 1:
        launch["modules"] = [{"path": path, "count": 1.0, "total_s": mean_s} for path in paths]
    kernel = make_kernel(
        "aten::addmm",
        label="aten::addmm",
        kind="gemm",
        library="aten",
        count=float(len(paths)),
        mean_s=mean_s,
        operators=("aten::addmm",),
        num_bytes=None,
    )
    return replace(kernel, module=paths[0] if len(paths) == 1 else "", launch=launch)


def taking(kernel: Kernel, mean_us: float, *, count: float | None = None) -> Kernel:
    """Return `kernel` with `count` calls of `mean_us` each."""
    count = kernel.count if count is None else count
    mean_s = mean_us * US
    return replace(kernel, count=count, total_s=count * mean_s, mean_s=mean_s, min_s=mean_s)


def side_with(
    *kernels: Kernel,
    sources: Mapping[str, str] | None = None,
    latency_s: float | None = None,
    parts: Mapping[str, float] | None = None,
) -> KernelSide:
    """Return a side of a diff with `kernels`, and with a profile if it has `parts`."""
    profile = None
    if parts is not None:
        profile = Profile(
            num_iterations=10, iteration_s=0.001, latency_s=latency_s, components=parts
        )
    return KernelSide(kernels=kernels, sources=sources or {}, profile=profile, latency_s=latency_s)


def only_row(baseline: KernelSide, candidate: KernelSide) -> KernelChange:
    """Return the row of a diff that has one."""
    (row,) = diff_kernels(baseline, candidate).rows
    return row

"""Synthetic kernels for the kernel pages of the demo.

Their times add up to the synthetic latency of the case. A slowdown of the case is in one generated
kernel, whose code changes at the same time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.kernels import Kernel, KernelSource, Origin, Profile
from compile_hud.db.records.results import Case

NUM_LAYERS = 12
# Models and modes with synthetic kernels: more would make the demo slow, and show no more.
MODELS = ("bert", "vit")
MODES = ("eager", "default", "reduce-overhead")
NUM_ITERATIONS = 10
# The profiler's cost as a factor of an iteration, and the fastest call relative to the mean.
_COST, _FASTEST = 1.02, 0.98
_SLOWED = "triton_per_fused_add_native_layer_norm"
_NOTE = "# synthetic: written by hud demo, it was never compiled"
_BEFORE = f"""\
{_NOTE}
@triton.jit
def {_SLOWED}_1(in_out_ptr0, in_ptr0, in_ptr1, xnumel, r0_numel, XBLOCK: tl.constexpr):
    r0_numel = 768
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r0_index = tl.arange(0, 1024)[None, :]
    r0_mask = r0_index < r0_numel
    tmp0 = tl.load(in_out_ptr0 + (r0_index + 768 * xindex), r0_mask, other=0.0).to(tl.float32)
    tmp1 = tl.load(in_ptr0 + (r0_index + 768 * xindex), r0_mask, other=0.0).to(tl.float32)
    tmp2 = tmp0 + tmp1
    tmp3, tmp4, tmp5 = triton_helpers.welford(tmp2, 0, r0_mask, 1)
    tl.store(in_out_ptr0 + (r0_index + 768 * xindex), (tmp2 - tmp3) * tl.rsqrt(tmp4), r0_mask)
"""
# Two passes over memory instead of one.
_AFTER = _BEFORE.replace(
    "    tmp3, tmp4, tmp5 = triton_helpers.welford(tmp2, 0, r0_mask, 1)\n",
    "    tl.store(in_out_ptr0 + (r0_index + 768 * xindex), tmp2, r0_mask)\n"
    "    tmp6 = tl.load(in_out_ptr0 + (r0_index + 768 * xindex), r0_mask, other=0.0)\n"
    "    tmp3, tmp4 = tl.sum(tmp6, 1) / 768, tl.sum(tmp6 * tmp6, 1) / 768\n",
)
_GELU = f"""\
{_NOTE}
@triton.jit
def triton_poi_fused_gelu_0(in_out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    tmp0 = tl.load(in_out_ptr0 + xindex).to(tl.float32)
    tl.store(in_out_ptr0 + xindex, tmp0 * 0.5 * (1.0 + tl.erf(tmp0 * 0.7071067811865476)))
"""


@dataclass(frozen=True, slots=True)
class _DemoKernel:
    """A kernel of the demo; `share` is that of an iteration without a slowdown."""

    name: str
    kind: str
    library: str
    operators: tuple[str, ...]
    calls_a_layer: int
    share: float
    text: str = ""


_GEMM = _DemoKernel("demo_gemm_bf16_128x128", "gemm", "cublas", ("aten::addmm",), 4, 0.52)
_FLASH = _DemoKernel(
    "demo_flash_fwd_kernel",
    "attention",
    "flash-attention",
    ("aten::_scaled_dot_product_flash_attention",),
    1,
    0.16,
)
_EAGER = (
    _GEMM,
    _FLASH,
    _DemoKernel("demo_add_kernel", "elementwise", "aten", ("aten::add",), 2, 0.08),
    _DemoKernel("demo_gelu_kernel", "elementwise", "aten", ("aten::gelu",), 1, 0.07),
    _DemoKernel("demo_norm_kernel", "reduction", "aten", ("aten::native_layer_norm",), 2, 0.1),
)
_COMPILED = (
    _GEMM,
    _FLASH,
    _DemoKernel("triton_poi_fused_gelu_0", "fused", "triton", ("aten.gelu",), 1, 0.09, _GELU),
    _DemoKernel(f"{_SLOWED}_1", "fused", "triton", ("aten.add", "aten.native_layer_norm"), 2, 0.14),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoKernels:
    """The kernels, sources and details of a case result, empty for most cases."""

    kernels: tuple[Kernel, ...] = ()
    sources: tuple[KernelSource, ...] = ()
    details: Mapping[str, Any]


def demo_kernels(case: Case, *, latency_s: float, slower: float) -> DemoKernels:
    """Return the kernels of an iteration of `latency_s`, which is slower by the factor `slower`."""
    if case.model not in MODELS or case.mode not in MODES:
        return DemoKernels(details={})
    iteration_s = _COST * latency_s
    is_slower = slower > 1
    rows = _EAGER if case.mode == "eager" else _COMPILED
    made = []
    for row in rows:
        total_s = row.share * latency_s / slower
        text = row.text
        if row.name.startswith(_SLOWED):
            total_s += latency_s - latency_s / slower
            text = _AFTER if is_slower else _BEFORE
        made.append((_kernel(row, total_s=total_s, iteration_s=iteration_s, text=text), text))
    kernels = [kernel for kernel, _ in made]
    parts: dict[str, float] = {}
    for kernel in kernels:
        parts[kernel.kind] = parts.get(kernel.kind, 0.0) + kernel.total_s
    busy_s = math.fsum(parts.values())
    profile = Profile(
        num_iterations=NUM_ITERATIONS,
        iteration_s=iteration_s,
        latency_s=latency_s,
        components={**parts, "idle": iteration_s - busy_s},
        busy=busy_s / iteration_s,
        is_graph_replay=case.mode == "reduce-overhead",
    )
    sources = {text: _source(text) for _, text in made if text}
    return DemoKernels(
        kernels=tuple(kernels),
        sources=tuple(sources.values()),
        details={"profile": profile.to_json()},
    )


def _kernel(row: _DemoKernel, *, total_s: float, iteration_s: float, text: str) -> Kernel:
    count = float(row.calls_a_layer * NUM_LAYERS)
    mean_s = total_s / count
    is_generated = bool(text)
    return Kernel(
        name=row.name,
        label=row.name.rpartition("_")[0] if is_generated else row.name,
        kind=row.kind,
        library=row.library,
        device="cuda:0",
        count=count,
        total_s=total_s,
        mean_s=mean_s,
        min_s=_FASTEST * mean_s,
        share=total_s / iteration_s,
        operators=row.operators,
        module="encoder",
        source_hash=_source(text).hash if is_generated else "",
        config={"num_warps": 4, "XBLOCK": 1} if is_generated else {},
        origins=tuple(
            Origin(node=name.partition(".")[2], target=name, module="encoder")
            for name in (row.operators if is_generated else ())
        ),
    )


def _source(text: str) -> KernelSource:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return KernelSource(hash=digest, language="triton", text=text)

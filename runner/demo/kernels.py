"""Synthetic kernels for the kernel pages of the demo.

Their times add up to the synthetic latency of the case. A slowdown of the case is in one generated
kernel, whose code changes at the same time and spills registers. The newest results have the rest
of a real profile too: operations, bytes, and the timeline of an iteration.

Findings follow from the kernels: fp32 products use plain cores, and the optimizer is not fused.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compile_hud.db.records.kernels import (
    CALL_LINES,
    Kernel,
    KernelSource,
    Origin,
    Profile,
    TimelineSpan,
)
from compile_hud.db.records.results import Case, Dtype, Phase

NUM_LAYERS = 12
# Models and modes with synthetic kernels in every run: more would make the demo slow.
MODELS = ("bert", "vit")
MODES = ("eager", "default", "reduce-overhead")
NUM_ITERATIONS = 10
# A replayed graph has the operators of generated kernels only.
GRAPH_MODES = ("reduce-overhead", "max-autotune")
_SPILLS = {"registers": 255, "spills": 96}
# The measured limits of the device.
PEAKS = {"copy_bytes_per_s": 2.6e12, "bf16_flops_per_s": 6.4e14, "fp32_flops_per_s": 5.1e13}
_COPY = "copy_bytes_per_s"
# Parts of these limits that the kernels reach.
_OF_FLOPS, _OF_BYTES = 0.61, 0.74
# FLOP per byte of the kernels that memory limits.
_INTENSITY = 3.0
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
_CONVOLUTION = _DemoKernel(
    "demo_implicit_gemm_bf16_nhwc", "convolution", "cudnn", ("aten::convolution",), 3, 0.61
)
_PLAIN_GEMM = replace(_GEMM, name="demo_sgemm_128x128_ffma")
_ADAM = _DemoKernel(
    "demo_multi_tensor_adam", "elementwise", "aten", ("aten::_foreach_addcdiv_",), 1, 0.06
)
_BACKWARD = _DemoKernel("demo_gemm_bf16_128x64_bwd", "gemm", "cublas", ("aten::mm",), 4, 0.30)
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


# Models whose products are convolutions.
_VISION = ("resnet", "unet")
# A line of a model, for the operators of a layer; no such file exists.
_FILE = "synthetic_model.py"
_LINES = {
    "gemm": (41, "hidden = self.project(hidden)"),
    "convolution": (27, "hidden = self.conv(hidden)"),
    "attention": (52, "hidden = F.scaled_dot_product_attention(query, key, value)"),
    "fused": (58, "return self.norm(hidden + residual)"),
    "elementwise": (60, "hidden = F.gelu(hidden)"),
    "reduction": (58, "return self.norm(hidden + residual)"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoKernels:
    """The kernels, sources and details of a case result, empty for most cases."""

    kernels: tuple[Kernel, ...] = ()
    sources: tuple[KernelSource, ...] = ()
    details: Mapping[str, Any]


def demo_kernels(
    case: Case,
    *,
    latency_s: float,
    slower: float,
    peaks: Mapping[str, float] = PEAKS,
    is_detailed: bool = False,
) -> DemoKernels:
    """Return the kernels of an iteration of `latency_s`, which is slower by the factor `slower`.

    Without `is_detailed` only some cases have kernels, without operations and timeline.
    """
    if not is_detailed and (case.model not in MODELS or case.mode not in MODES):
        return DemoKernels(details={})
    iteration_s = _COST * latency_s
    is_slower, is_replay = slower > 1, case.mode in GRAPH_MODES
    made = []
    for row in _rows_of(case):
        total_s = row.share * latency_s / slower
        text = row.text
        if row.name.startswith(_SLOWED):
            total_s += latency_s - latency_s / slower
            text = _AFTER if is_slower else _BEFORE
        kernel = _kernel(row, total_s=total_s, iteration_s=iteration_s, text=text)
        if is_replay and not row.text and row is not _ADAM:
            kernel = replace(kernel, operators=(), module="", launch={})
        if text == _AFTER:
            kernel = replace(kernel, launch={**kernel.launch, **_SPILLS})
        made.append((_with_details(kernel, case, peaks=peaks) if is_detailed else kernel, text))
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
        is_graph_replay=is_replay,
        timeline=tuple(_timeline(kernels, idle_s=iteration_s - busy_s)) if is_detailed else (),
    )
    sources = {text: _source(text) for _, text in made if text}
    return DemoKernels(
        kernels=tuple(kernels),
        sources=tuple(sources.values()),
        details={"profile": profile.to_json()},
    )


def _rows_of(case: Case) -> Sequence[_DemoKernel]:
    """Return the kernels of a case; their shares leave a part of the iteration idle."""
    rows = list(_EAGER if case.mode == "eager" else _COMPILED)
    if case.dtype is Dtype.FP32:
        rows[0] = _PLAIN_GEMM
    if case.model in _VISION:
        rows[:2] = [_CONVOLUTION]
    if case.phase is not Phase.TRAINING:
        return rows
    # Backward takes half of the time, and the optimizer its share.
    half = [replace(row, share=0.6 * row.share) for row in rows]
    return [*half, _BACKWARD, _ADAM]


def _with_details(kernel: Kernel, case: Case, *, peaks: Mapping[str, float]) -> Kernel:
    """Return `kernel` with operations, bytes and launch parameters."""
    copy = peaks[_COPY]
    if kernel.kind in ("gemm", "convolution", "attention"):
        limit = peaks["bf16_flops_per_s" if case.dtype == "bf16" else "fp32_flops_per_s"]
        flops = _OF_FLOPS * limit * kernel.mean_s
        num_bytes, roofline = flops / (2 * limit / copy), _OF_FLOPS
    else:
        num_bytes = _OF_BYTES * copy * kernel.mean_s
        flops, roofline = _INTENSITY * num_bytes, _OF_BYTES
    launch = {"grid": [1024, 1, 1], "block": [128, 1, 1], "registers": 96, **kernel.launch}
    return replace(
        kernel,
        flops=flops,
        num_bytes=num_bytes,
        roofline=roofline,
        launch=launch,
    )


def _timeline(kernels: Sequence[Kernel], *, idle_s: float) -> Iterator[TimelineSpan]:
    """Yield the calls of an iteration, layer by layer, with equal gaps between layers."""
    at_s = 0.0
    for _layer in range(NUM_LAYERS):
        for index, kernel in enumerate(kernels):
            for _call in range(round(kernel.count) // NUM_LAYERS):
                yield TimelineSpan(start_s=at_s, duration_s=kernel.mean_s, lane=0, kernel=index)
                at_s += kernel.mean_s
        at_s += idle_s / NUM_LAYERS


def _kernel(row: _DemoKernel, *, total_s: float, iteration_s: float, text: str) -> Kernel:
    count = float(row.calls_a_layer * NUM_LAYERS)
    mean_s = total_s / count
    is_generated = bool(text)
    line, code = _LINES[row.kind]
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
            Origin(
                node=name.partition(".")[2],
                target=name,
                module="encoder",
                file=_FILE,
                line=line,
                code=code,
            )
            for name in (row.operators if is_generated else ())
        ),
        launch={} if is_generated else {CALL_LINES: {"encoder": f"{_FILE}:{line}"}},
    )


def _source(text: str) -> KernelSource:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return KernelSource(hash=digest, language="triton", text=text)

"""Two versions of a generated kernel, for transplants."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compile_hud.db.records.kernels import VECTOR_ISA, Kernel
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from compile_hud.runner.transplant.interfaces import KernelCode
from tests.support.builders import make_kernel

TENSOR: Mapping[str, Any] = {"dtype": "float32", "sizes": [64, 32], "strides": [32, 1]}
ARGUMENTS: Sequence[Any] = (TENSOR, TENSOR)
PARAMETERS = "const float* in_ptr0,\n                       float* out_ptr0"


def cpp_code(body: str = "fast();", *, parameters: str = PARAMETERS) -> str:
    """Return code as Inductor writes it for a CPU."""
    return f'#include <cpp_prefix.h>\nextern "C"  void  kernel({parameters})\n{{\n    {body}\n}}'


def triton_code(
    name: str = "triton_poi_fused_add_0",
    *,
    body: str = "pass",
    parameters: str = "in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr",
    signature: str = "{'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32',"
    " 'XBLOCK': 'constexpr'}",
) -> str:
    """Return code as Inductor writes it for a GPU."""
    return (
        "@triton_heuristics.pointwise(\n    size_hints={'x': 2048},\n"
        f"    triton_meta={{'signature': {signature}}},\n)\n"
        f"@triton.jit\ndef {name}({parameters}):\n    {body}\n"
    )


def version(
    text: str,
    *,
    name: str = "cpp_fused_add_0",
    language: str = "cpp",
    mean_us: float = 100.0,
    arguments: Sequence[Any] = ARGUMENTS,
    vector_isa: str | None = "avx2",
    config: Mapping[str, Any] | None = None,
) -> KernelCode:
    """Return one version of a kernel with its row of the table."""
    launch: dict[str, Any] = {"arguments": list(arguments)}
    if vector_isa is not None:
        launch[VECTOR_ISA] = vector_isa
    kernel = make_kernel(
        name,
        label=name.rpartition("_")[0],
        library="inductor-cpp" if language == "cpp" else "triton",
        count=1.0,
        mean_s=1e-6 * mean_us,
        source_hash=hashlib.sha256(text.replace(name, "").encode()).hexdigest(),
    )
    kernel = replace(kernel, launch=launch, config=dict(config or {}))
    return KernelCode(kernel=kernel, text=text, language=language)


def side_of_versions(
    *versions: KernelCode, latency_s: float, others: Sequence[Kernel] = ()
) -> KernelSide:
    """Return a side of a diff with the kernels and their code."""
    return KernelSide(
        kernels=(*(item.kernel for item in versions), *others),
        sources={item.kernel.source_hash: item.text for item in versions if item.text},
        latency_s=latency_s,
    )

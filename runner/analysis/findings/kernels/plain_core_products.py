"""fp32-on-plain-cores: products in fp32 that use none of the tensor cores of the GPU.

Method: the name of a kernel says which cores it uses. cuBLAS and cuDNN write `ffma`, `sgemm`,
`simt` or `f32f32_f32f32` for plain cores. They write `tf32`, `tensorop` or the shape of an
instruction, such as `s1688`, for tensor cores. Other names decide nothing. Tensor cores for TF32
came with compute capability 8.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compile_hud.db.records.results import Dtype
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import calls_text, location_of
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

_KINDS = ("gemm", "convolution", "attention")
_PLAIN = re.compile(
    r"ffma|sgemm|simt|f32f32_f32f32|scudnn|winograd.*(?<!t)f32|fmha\w*_f32_", re.IGNORECASE
)
_TENSOR = re.compile(r"tensorop|tf32|s1688|s16816|s884|h884|wgmma|hmma|imma", re.IGNORECASE)
_FIRST_WITH_TF32 = 8.0
# The user chose fp32 for these, and TF32 is the remedy; the others lower the precision themselves.
_FULL = (Dtype.FP32,)
_REMEDY_FP32 = 'allow TF32: torch.set_float32_matmul_precision("high"), here --dtype tf32'


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the products on plain cores of a GPU that has tensor cores for them."""
    if not case.is_cuda or not _has_tf32(case.environment.get("compute_capability")):
        return
    indices = tuple(
        index
        for index, kernel in enumerate(case.kernels)
        if kernel.kind in _KINDS and _PLAIN.search(kernel.name) and not _TENSOR.search(kernel.name)
    )
    if not indices:
        return
    kernels = [case.kernels[index] for index in indices]
    dtype = case.result.case.dtype
    yield Draft(
        text=f"{calls_text(kernels)} of products compute in fp32 on plain cores, in a case of"
        f" {dtype}",
        where=location_of(kernels),
        remedy=_REMEDY_FP32 if dtype in _FULL else "",
        kernels=indices,
        has_own_cause=True,
    )


def _has_tf32(capability: object) -> bool:
    try:
        return float(str(capability)) >= _FIRST_WITH_TF32
    except ValueError:
        return False


KIND = FindingKind(
    code="fp32-on-plain-cores",
    meaning="Matrix products or convolutions in fp32 leave the tensor cores unused.",
    remedy="keep the inputs of the products in the dtype of the case, or allow TF32",
    source="kernels",
    rule=find,
)

"""low-occupancy and register-spills: generated kernels that use the GPU badly.

Low occupancy alone is harmless: a kernel at its roofline needs no more warps. So a kernel counts if
it also reaches less than half of its limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.kernels.tiny_kernels import TINY_S
from compile_hud.runner.analysis.findings.locations import calls_text, location_of
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

# In percent of the warps of a multiprocessor.
LOW_OCCUPANCY = 25
LOW_ROOFLINE = 0.5
# Products by tensor cores have large tiles, and so few warps, by design.
_PRODUCTS = ("gemm", "convolution", "attention")
# A few spills are cheap: they stay in the L1 cache.
MIN_SPILLS = 16


def find_low_occupancy(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the generated kernels that keep few warps busy, far from their limit."""
    indices = [
        index
        for index, kernel in enumerate(case.kernels)
        if kernel.library == "triton"
        and kernel.kind not in _PRODUCTS
        and kernel.mean_s >= TINY_S
        and kernel.roofline is not None
        and kernel.roofline < LOW_ROOFLINE
        and (occupancy := _number(kernel.launch.get("occupancy"))) is not None
        and occupancy < LOW_OCCUPANCY
    ]
    kernels = [case.kernels[index] for index in indices]
    if kernels:
        lowest = min(kernels, key=lambda kernel: kernel.launch["occupancy"])
        yield Draft(
            text=f"{calls_text(kernels)} of generated kernels keep few warps busy, the least"
            f" {lowest.launch['occupancy']} % (`{lowest.label}`)",
            where=location_of(kernels),
            kernels=tuple(indices),
        )


def find_spills(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the generated kernels whose registers spill to memory."""
    indices = [
        index for index, kernel in enumerate(case.kernels) if _num_spills(kernel) >= MIN_SPILLS
    ]
    kernels = [case.kernels[index] for index in indices]
    if kernels:
        worst = max(kernels, key=_num_spills)
        yield Draft(
            text=f"{calls_text(kernels)} of generated kernels spill registers to memory, at most"
            f" {_num_spills(worst):.0f} (`{worst.label}`)",
            where=location_of(kernels),
            kernels=tuple(indices),
        )


def _num_spills(kernel: Kernel) -> float:
    return _number(kernel.launch.get("spills")) or 0.0


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


LOW = FindingKind(
    code="low-occupancy",
    meaning="Generated kernels keep few warps busy and reach less than half of their limit.",
    remedy="try max-autotune, or smaller blocks: fewer registers and less shared memory per block",
    source="kernels",
    rule=find_low_occupancy,
    min_share=0.05,
)
SPILLS = FindingKind(
    code="register-spills",
    meaning="Generated kernels spill registers to memory.",
    remedy="try max-autotune, or split the fusion: fewer values live at the same time",
    source="kernels",
    rule=find_spills,
)

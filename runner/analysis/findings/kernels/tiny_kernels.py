"""tiny-kernels: many kernels that each last less than a launch takes.

A launch takes the host some 5 us, and the GPU needs a few us between two kernels. Memory clears
that a library adds to its own kernels are no kernels of the model.
"""

from __future__ import annotations

from collections.abc import Iterator

from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import calls_text, location_of
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

TINY_S = 5e-6
# Fewer calls cost less than an iteration varies.
MIN_CALLS = 20


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the kernels of a GPU below TINY_S, if they are many."""
    if not case.is_cuda:
        return
    indices = tuple(
        index
        for index, kernel in enumerate(case.kernels)
        if kernel.mean_s < TINY_S and not kernel.is_dispatch and kernel.library != "cuda"
    )
    kernels = [case.kernels[index] for index in indices]
    if sum(kernel.count for kernel in kernels) < MIN_CALLS:
        return
    yield Draft(
        text=f"{calls_text(kernels)} of kernels below 5 us",
        where=location_of(kernels),
        kernels=indices,
    )


KIND = FindingKind(
    code="tiny-kernels",
    meaning="Many kernels last less than 5 us, as long as launching them takes.",
    remedy="use larger batches or CUDA graphs; look for graph breaks and fallbacks between them",
    source="kernels",
    rule=find,
    min_share=0.10,
)

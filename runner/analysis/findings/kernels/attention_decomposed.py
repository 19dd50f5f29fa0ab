"""attention-decomposed: eager has a fused attention kernel, and compiled code does not.

Method: the diff of the kernels of eager and of the case names the kernels that do the work of the
fused one (analysis/kernels/attention.py). The kernels of a replayed CUDA graph have no shapes. So
the softmax has to run as often as the attention, and twice as many products that eager has not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from compile_hud.db.records.findings import Exhibit
from compile_hud.db.records.kernels import Kernel
from compile_hud.db.records.results import CaseResult
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import location_of, time_text
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.kernels.fusion import is_same_count
from compile_hud.runner.analysis.kernels.grouping import GENERATED, MatchedBy, operator_name
from compile_hud.runner.analysis.kernels.replays import is_unattributed

ATTENTION = "attention"
# `log_softmax` belongs to a loss.
_SOFTMAX = re.compile(r"(?<!log_)softmax")
# Words in labels of generated kernels that move, convert or scale the inputs of a product.
_MOVING = re.compile(
    r"triton_poi_fused_(?:_?(?:to_copy|unsafe_view|clone|mul|div|transpose|view))+"
)
_PRODUCTS_PER_CALL = 2
_OPERATOR = "scaled_dot_product_attention"


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the attention of eager that the case computes in parts."""
    if case.eager is None or case.is_eager or _attention_of(case.kernels):
        return
    fused = _attention_of(case.eager.kernels)
    if not fused:
        return
    parts = _matched_parts(case) or _replayed_parts(
        case, eager=case.eager, num_calls=sum(kernel.count for kernel in fused)
    )
    if not parts:
        return
    eager_s = sum(kernel.total_s for kernel in fused)
    kernels = [case.kernels[index] for index in parts]
    yield Draft(
        text=f"attention runs as {counted(len(parts), 'kernel')}; eager has"
        f" {counted(len(fused), 'fused kernel')} of {time_text(eager_s)}",
        # A part may be one kernel for all layers, but eager knows the module that calls attention.
        where=replace(
            location_of(kernels),
            module=location_of(fused).module or location_of(kernels).module,
            operators=(_OPERATOR,),
        ),
        kernels=tuple(parts),
        evidence=tuple(
            Exhibit(kind="eager-kernel", name=kernel.name, value=kernel.total_s, unit="s")
            for kernel in fused
        ),
    )


def _attention_of(kernels: Sequence[Kernel]) -> list[Kernel]:
    return [kernel for kernel in kernels if kernel.kind == ATTENTION]


def _matched_parts(case: ResultEvidence) -> list[int]:
    """Return the kernels that the diff matches with the fused one, by index."""
    names = {
        (kernel.name, kernel.shapes, kernel.operators, kernel.module)
        for match in case.matches
        if match.matched_by is MatchedBy.ATTENTION
        for group in match.candidate
        for kernel in group.kernels
    }
    return [
        index
        for index, kernel in enumerate(case.kernels)
        if (kernel.name, kernel.shapes, kernel.operators, kernel.module) in names
    ]


def _replayed_parts(case: ResultEvidence, *, eager: CaseResult, num_calls: float) -> list[int]:
    """Return the parts of attention among the kernels of a replayed graph, by index."""
    known = {kernel.name for kernel in eager.kernels}
    indexed = list(enumerate(case.kernels))
    softmaxes = [
        (index, kernel)
        for index, kernel in indexed
        if kernel.library in GENERATED and _SOFTMAX.search(kernel.label)
    ]
    products = [
        (index, kernel)
        for index, kernel in indexed
        if kernel.kind == "gemm" and kernel.name not in known and _may_be_batched(kernel)
    ]
    num_softmaxes = sum(kernel.count for _, kernel in softmaxes)
    products = _often(products, count=num_calls)
    num_products = sum(kernel.count for _, kernel in products)
    if not is_same_count(num_softmaxes, num_calls) or not is_same_count(
        num_products, _PRODUCTS_PER_CALL * num_calls
    ):
        return []
    moves = [
        (index, kernel)
        for index, kernel in indexed
        if _MOVING.fullmatch(kernel.label) and is_same_count(kernel.count, num_calls)
    ]
    return sorted(index for index, _ in (*softmaxes, *products, *moves))


def _may_be_batched(kernel: Kernel) -> bool:
    """Return whether the kernel is a batched product, or its operator is unknown."""
    return is_unattributed(kernel) or "bmm" in {operator_name(text) for text in kernel.operators}


def _often(products: list[tuple[int, Kernel]], *, count: float) -> list[tuple[int, Kernel]]:
    """Return the products that run as often as the attention, or twice as often."""
    return [
        (index, kernel)
        for index, kernel in products
        if any(is_same_count(kernel.count, times * count) for times in (1, _PRODUCTS_PER_CALL))
    ]


KIND = FindingKind(
    code="attention-decomposed",
    meaning="Eager runs a fused attention kernel; compiled code runs products and a softmax.",
    remedy="pass a mask of the size of the batch, or choose a backend with"
    " torch.nn.attention.sdpa_kernel",
    source="kernels of the case and of eager",
    rule=find,
)

"""layout-copies and dtype-conversions: kernels that compute nothing.

Method: a kernel moves if it has no operators but those that name, move or convert bytes. It
converts if its operators include a conversion, or its inputs have different floating-point dtypes.
A move that is part of a kernel with work costs little, and is not listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import calls_text, location_of
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.kernels.grouping import MOVES, operator_name

_CONVERSIONS = frozenset(("to_copy", "convert_element_type", "to"))
_VIEWS = frozenset(("unsafe_view", "contiguous", "constant_pad_nd", "alias", "permute"))
# cuDNN changes the layout of the inputs of a convolution by kernels of its own.
_LAYOUT_NAME = re.compile(r"nchwToNhwc|nhwcToNchw|nchwToFold", re.IGNORECASE)
_DTYPES = re.compile(r"\b(?:float|bfloat|half|complex)\d*\b")


def find_layout_copies(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the copies that change the layout or the contiguity of a tensor."""
    yield from _draft(
        case,
        [
            index
            for index, kernel in enumerate(case.kernels)
            if _LAYOUT_NAME.search(kernel.name)
            or (_is_move(kernel, case=case) and not _is_conversion(kernel))
        ],
        what="copy tensors to another layout and compute nothing",
    )


def find_conversions(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the copies that change the dtype of a tensor."""
    yield from _draft(
        case,
        [
            index
            for index, kernel in enumerate(case.kernels)
            if _is_move(kernel, case=case) and _is_conversion(kernel)
        ],
        what="convert tensors to another dtype and compute nothing",
    )


def _draft(case: ResultEvidence, indices: list[int], *, what: str) -> Iterator[Draft]:
    kernels = [case.kernels[index] for index in indices]
    if kernels:
        yield Draft(
            text=f"{calls_text(kernels)} {what}",
            where=location_of(kernels),
            kernels=tuple(indices),
        )


def _is_move(kernel: Kernel, *, case: ResultEvidence) -> bool:
    if kernel.is_dispatch or kernel.kind in ("gemm", "convolution", "attention", "communication"):
        return False
    if kernel.library == "aten" and case.is_inductor and not case.is_cuda:
        # On a CPU such a copy is a part of another operator: sorting copies its input.
        return False
    names = {operator_name(text) for text in kernel.operators}
    copies = names & {"clone", "contiguous", "copy"} or names & _CONVERSIONS
    return bool(copies) and names <= MOVES | _CONVERSIONS | _VIEWS


def _is_conversion(kernel: Kernel) -> bool:
    names = {operator_name(text) for text in kernel.operators}
    dtypes = set(_DTYPES.findall(kernel.shapes))
    return bool(names & _CONVERSIONS) or len(dtypes) > 1


LAYOUT_COPIES = FindingKind(
    code="layout-copies",
    meaning="Kernels only copy tensors to another layout, such as channels-last.",
    remedy="keep one layout: memory_format=torch.channels_last, fewer transposes before products",
    source="kernels",
    rule=find_layout_copies,
    min_share=0.05,
)
CONVERSIONS = FindingKind(
    code="dtype-conversions",
    meaning="Kernels only convert tensors to another dtype.",
    remedy="keep weights and activations in the dtype of the products, instead of autocast",
    source="kernels",
    rule=find_conversions,
    min_share=0.05,
)

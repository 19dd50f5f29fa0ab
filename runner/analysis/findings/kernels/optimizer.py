"""unfused-optimizer: the optimizer runs many kernels over lists of tensors.

Method: torch.optim runs `_foreach_` operators by default, each of which reads and writes all
weights. A fused optimizer is one operator, `_fused_adamw_` and the like. Loss scaling and clipping
of gradients use the same operators, but other ones than an optimizer alone (`lerp`, `addcdiv`).
"""

from __future__ import annotations

from collections.abc import Iterator

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import (
    calls_text,
    location_of,
    metric_exhibit,
)
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.kernels.grouping import operator_name

_OF_STEP = frozenset(
    ("foreach_lerp", "foreach_addcdiv", "foreach_addcmul", "foreach_sqrt", "foreach_div")
    + ("foreach_add", "foreach_mul", "foreach_pow", "foreach_sub", "foreach_neg")
)
_FUSED = "fused_"
METRIC = "optimizer_s"


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the kernels of an optimizer that is not fused."""
    if not case.is_training:
        return
    names = [_operator(kernel) for kernel in case.kernels]
    if any(name.startswith((_FUSED, "fused")) for name in names):
        return
    indices = tuple(index for index, name in enumerate(names) if name in _OF_STEP)
    kernels = [case.kernels[index] for index in indices]
    if not any(name in ("foreach_lerp", "foreach_addcdiv", "foreach_addcmul") for name in names):
        return
    step_s = case.median(METRIC)
    yield Draft(
        text=f"the optimizer steps by {calls_text(kernels)} of `_foreach_` kernels",
        where=location_of(kernels),
        kernels=indices,
        evidence=() if step_s is None else (metric_exhibit(METRIC, step_s),),
    )


def _operator(kernel: Kernel) -> str:
    return operator_name(kernel.operators[0]) if kernel.operators else ""


KIND = FindingKind(
    code="unfused-optimizer",
    meaning="The optimizer reads and writes all weights once for each of its operations.",
    remedy="construct the optimizer with fused=True, or compile its step",
    source="kernels",
    rule=find,
)

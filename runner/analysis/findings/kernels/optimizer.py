"""unfused-optimizer: the optimizer runs many kernels, over lists of tensors or for each weight.

Method: torch.optim runs `_foreach_` operators by default on a GPU, each of which reads and writes
all weights. On a CPU it runs several operators for each weight: those on tensors of the shape of
one that `lerp_` or `addcdiv_` updates. A fused optimizer is one operator, `_fused_adamw_` and the
like. Loss scaling and clipping of gradients use the same operators, but not `lerp` and `addcdiv`.

The cost is the time of the step less that of a fused one, which the same launch measured: Python of
each call counts, and what a fused step takes does not. Without it the cost is not measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import (
    calls_text,
    location_of,
    metric_exhibit,
    time_text,
)
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.kernels.grouping import operator_name

_OF_STEP = frozenset(
    ("foreach_lerp", "foreach_addcdiv", "foreach_addcmul", "foreach_sqrt", "foreach_div")
    + ("foreach_add", "foreach_mul", "foreach_pow", "foreach_sub", "foreach_neg")
)
# Those of AdamW for each weight; all but the last two change their tensor.
_OF_WEIGHT = frozenset(("lerp_", "addcdiv_", "addcmul_", "mul_", "add_", "div_", "sqrt", "div"))
_UPDATES = ("lerp_", "addcdiv_")
_FUSED = "fused_"
METRIC = "optimizer_s"
FUSED_METRIC = "fused_optimizer_s"


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the kernels of an optimizer that is not fused."""
    if not case.is_training:
        return
    names = [_operator(kernel) for kernel in case.kernels]
    if any(name.startswith((_FUSED, "fused")) for name in names):
        return
    if any(name in ("foreach_lerp", "foreach_addcdiv", "foreach_addcmul") for name in names):
        indices = tuple(index for index, name in enumerate(names) if name in _OF_STEP)
        what = "of `_foreach_` kernels"
    else:
        indices, what = _of_each_weight(case.kernels), "of kernels, several for each weight"
    if not indices:
        return
    kernels = [case.kernels[index] for index in indices]
    step_s, fused_s = case.median(METRIC), _fused_s(case)
    evidence = {METRIC: step_s, FUSED_METRIC: fused_s}
    yield Draft(
        text=f"the optimizer steps by {calls_text(kernels)} {what}"
        + ("" if fused_s is not None else f" in {time_text(_kernels_s(case, kernels))}"),
        where=location_of(kernels),
        kernels=indices,
        measured_s=None if step_s is None or fused_s is None else max(0.0, step_s - fused_s),
        is_measured=fused_s is not None,
        evidence=tuple(
            metric_exhibit(name, time_s) for name, time_s in evidence.items() if time_s is not None
        ),
    )


def _kernels_s(case: ResultEvidence, kernels: Sequence[Kernel]) -> float:
    return case.kernel_scale * math.fsum(kernel.total_s for kernel in kernels)


def _fused_s(case: ResultEvidence) -> float | None:
    """Return the median time of a fused step, None if none was taken."""
    breakdown = case.result.details.get("breakdown")
    samples = breakdown.get(FUSED_METRIC) if isinstance(breakdown, Mapping) else None
    times_s = [item for item in samples or () if isinstance(item, int | float)]
    return statistics.median(times_s) if times_s else None


def _of_each_weight(kernels: Sequence[Kernel]) -> tuple[int, ...]:
    """Return the kernels that step the weights one by one, by index."""
    names = [
        kernel.operators[0].rpartition("::")[2] if kernel.operators else "" for kernel in kernels
    ]
    weights = [
        {
            _first_shape(kernel)
            for kernel, name in zip(kernels, names, strict=True)
            if name == update
        }
        for update in _UPDATES
    ]
    shapes = set.intersection(*weights)
    return tuple(
        index
        for index, (kernel, name) in enumerate(zip(kernels, names, strict=True))
        if name in _OF_WEIGHT and kernel.library == "aten" and _first_shape(kernel) in shapes
    )


def _first_shape(kernel: Kernel) -> str:
    return kernel.shapes.partition(",")[0]


def _operator(kernel: Kernel) -> str:
    return operator_name(kernel.operators[0]) if kernel.operators else ""


KIND = FindingKind(
    code="unfused-optimizer",
    meaning="The optimizer reads and writes all weights once for each of its operations.",
    remedy="construct the optimizer with fused=True, or compile its step",
    source="kernels",
    rule=find,
)

"""guard-overhead: Dynamo's checks before compiled code take a share of each iteration.

On a CPU the look-ups are part of the iteration. Their rows have the mean of few iterations, which
one interruption multiplies, so their cost is at most the median. Those of frames that resume after
a graph break are in the cost of the break. On a GPU they cost only the time in which the GPU has no
work: otherwise they are hidden.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compile_hud.db.records.kernels import CACHE_LOOKUP
from compile_hud.runner.analysis.findings.compile.graph_capture import break_guards_s
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import metric_exhibit, time_text
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the time of the guards."""
    guard_s = case.median("guard_s")
    if not guard_s:
        return
    kernels = tuple(
        index for index, kernel in enumerate(case.kernels) if kernel.name == CACHE_LOOKUP
    )
    num_guards = case.median("guards")
    checks = "guard checks" if num_guards is None else f"{num_guards:.0f} guard checks"
    evidence = [metric_exhibit("guard_s", guard_s)]
    if num_guards is not None:
        evidence.append(metric_exhibit("guards", num_guards, unit="1"))
    own_s = max(0.0, guard_s - break_guards_s(case))
    lookups_s = case.kernel_scale * math.fsum(case.kernels[index].total_s for index in kernels)
    yield Draft(
        text=_text(checks, guard_s=guard_s, is_cuda=case.is_cuda),
        kernels=() if case.is_cuda else kernels,
        part=min(1.0, own_s / lookups_s) if lookups_s else 1.0,
        gap_s=guard_s if case.is_cuda else 0.0,
        evidence=tuple(evidence),
    )


def _text(checks: str, *, guard_s: float, is_cuda: bool) -> str:
    """Return the finding; the time is in it only where the cost is another one."""
    if not is_cuda:
        return f"each iteration waits for the {checks} of Dynamo"
    return (
        f"the {checks} of Dynamo take {time_text(guard_s)} of each iteration; the cost is the part"
        " in which the GPU has no work"
    )


KIND = FindingKind(
    code="guard-overhead",
    meaning="Checking guards before compiled code takes a share of each iteration.",
    remedy="compile fewer and larger functions, keep arguments few and constant, or skip guards:"
    " torch.compiler.set_stance(skip_guard_eval_unsafe=True)",
    source="kernels",
    rule=find,
)

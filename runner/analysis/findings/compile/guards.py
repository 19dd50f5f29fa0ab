"""guard-overhead: Dynamo's checks before compiled code take a share of each iteration.

On a CPU the look-ups are part of the iteration. On a GPU they cost only the time in which the GPU
has no work: otherwise they are hidden.
"""

from __future__ import annotations

from collections.abc import Iterator

from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import metric_exhibit, time_text
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

# torch's name of a look-up in a trace.
LOOKUP = "TorchDynamo Cache Lookup"


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the time of the guards."""
    guard_s = case.median("guard_s")
    if not guard_s:
        return
    kernels = tuple(index for index, kernel in enumerate(case.kernels) if kernel.name == LOOKUP)
    num_guards = case.median("guards")
    count = "guards" if num_guards is None else f"{num_guards:.0f} guards"
    evidence = [metric_exhibit("guard_s", guard_s)]
    if num_guards is not None:
        evidence.append(metric_exhibit("guards", num_guards, unit="1"))
    yield Draft(
        text=f"checking {count} takes {time_text(guard_s)} of each iteration",
        kernels=() if case.is_cuda else kernels,
        gap_s=guard_s if case.is_cuda else 0.0,
        evidence=tuple(evidence),
    )


KIND = FindingKind(
    code="guard-overhead",
    meaning="Checking guards before compiled code takes a share of each iteration.",
    remedy="compile fewer and larger functions, keep arguments few and constant, or skip guards:"
    " torch.compiler.set_stance(skip_guard_eval_unsafe=True)",
    source="kernels",
    rule=find,
)

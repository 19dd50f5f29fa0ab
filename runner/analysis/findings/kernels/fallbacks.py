"""extern-fallback and unsupported-codegen: operators that Inductor has no code for.

Method: Inductor reports such operators when it compiles, and the result has the warnings. The time
is that of the kernels of ATen with these operators. In inference, each kernel of ATen that is
neither a product nor attention is such an operator too. In training, the optimizer's are not.

On a CPU each call from generated code has a time that was measured without the profiler, dispatch
and Python included. The cost is then that of the calls.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator

from compile_hud.db.records.findings import Exhibit
from compile_hud.db.records.kernels import Kernel
from compile_hud.db.shared.text import listed
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import calls_text, location_of
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.kernels.grouping import MOVES, operator_name

FALLBACK_WARNING = "operator-fallback"
COMPLEX_WARNING = "complex-operators"
_OWN_KERNELS = ("gemm", "convolution", "attention", "communication", "dispatch")
_LISTED = re.compile(r"[a-z_][\w]*(?:\.|::)[\w.]+")
_NUM_LISTED = 4
# CUDA graphs copy their inputs by this operator, outside of compiled code.
_OF_REPLAY = frozenset(("foreach_copy",))


def find_fallbacks(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the operators that run as kernels of ATen in compiled code."""
    if not case.is_inductor:
        return
    warned = case.warning_text(FALLBACK_WARNING)
    names = {operator_name(text) for text in _LISTED.findall(warned.partition(":")[2])}
    indices = tuple(
        index
        for index, kernel in enumerate(case.kernels)
        if _operators(kernel) & names or (not case.is_training and _is_extern(case, kernel))
    )
    kernels = [case.kernels[index] for index in indices]
    operators = sorted(set().union(names, *map(_operators, kernels)))
    if not operators:
        return
    calls = calls_text(kernels) if kernels else "calls"
    yield Draft(
        text=f"{calls} of {listed(operators, limit=_NUM_LISTED)} run in ATen, and nothing fuses"
        " with them",
        where=location_of(kernels),
        kernels=indices,
        measured_s=_calls_s(case, operators, is_complex=False),
        evidence=(Exhibit(kind="warning", name=FALLBACK_WARNING),) if warned else (),
    )


def find_unsupported(case: ResultEvidence) -> Iterator[Draft]:
    """Yield operators on complex numbers, which Inductor generates no code for."""
    if not case.is_inductor:
        return
    warned = case.warning_text(COMPLEX_WARNING)
    indices = tuple(
        index
        for index, kernel in enumerate(case.kernels)
        if "complex" in kernel.shapes and not kernel.is_dispatch
    )
    if warned or indices:
        kernels = [case.kernels[index] for index in indices]
        yield Draft(
            text="operators on complex numbers run in ATen, one kernel each",
            where=location_of(kernels),
            kernels=indices,
            measured_s=_calls_s(case, None, is_complex=True),
            evidence=(Exhibit(kind="warning", name=COMPLEX_WARNING),) if warned else (),
        )


def _calls_s(
    case: ResultEvidence, operators: Collection[str] | None, *, is_complex: bool
) -> float | None:
    """Return the seconds of the calls of these operators, None if no call was measured."""
    times = case.host_times
    calls = () if times is None or case.is_cuda else times.fallbacks
    named = [
        item.total_s
        for item in calls
        if item.is_complex is is_complex
        and (operators is None or operator_name(item.operator) in operators)
    ]
    return math.fsum(named) or None


def _operators(kernel: Kernel) -> frozenset[str]:
    return frozenset(operator_name(text) for text in kernel.operators)


def _is_extern(case: ResultEvidence, kernel: Kernel) -> bool:
    """Return whether ATen runs an operator with work in a compiled forward pass."""
    if kernel.library != "aten" or kernel.kind in _OWN_KERNELS or case.detail("graph_breaks"):
        return False
    names = _operators(kernel) - MOVES - _OF_REPLAY
    return bool(names)


FALLBACKS = FindingKind(
    code="extern-fallback",
    meaning="ATen runs operators that Inductor has no code for, each as its own kernel.",
    remedy="replace the operator by ones that fuse, or write it as a custom Triton operator",
    source="compiler warnings and kernels",
    rule=find_fallbacks,
)
UNSUPPORTED = FindingKind(
    code="unsupported-codegen",
    meaning="Inductor generates no code for this dtype, such as complex numbers.",
    remedy="compute on torch.view_as_real of complex tensors",
    source="compiler warnings and kernels",
    rule=find_unsupported,
)

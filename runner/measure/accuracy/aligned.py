"""The accuracy of a compiled model that draws random numbers.

Inductor draws them in another order than eager. For this check it calls eager's generators
(`fallback_random`), as the accuracy runs of PyTorch's benchmarks/dynamo do. The code that was timed
does not, so the check compiles again, and comes last.
"""

from __future__ import annotations

import torch

from compile_hud.runner.measure.accuracy.start_state import generator_state
from compile_hud.runner.measure.accuracy.step import check_result, make_reference
from compile_hud.runner.measure.compile.compiler import compile_model
from compile_hud.runner.measure.compile.dynamo import reset
from compile_hud.runner.measure.compile.source_locations import failure_reason
from compile_hud.runner.measure.context import Context

_HINT = "switch off what is random (dropout) for a check; the times are valid"


def check_aligned(context: Context) -> str:
    """Return the reason why the variant is inaccurate with eager's random numbers.

    It is empty where that cannot be checked; a warning then has the reason.
    """
    case, workload = context.request.case, context.request.workload
    if case.backend != "inductor":
        _not_checked(context, f"{case.backend} draws other random numbers than eager")
        return ""
    reset()
    try:
        reference = make_reference(context.subject)
        # Eager ran last, from the start that the variant has too.
        after_eager = generator_state()
        with torch._inductor.config.patch(fallback_random=True):
            forward = compile_model(context.variant.model, case=case, workload=workload)
            reason = check_result(context, forward, reference=reference)
        is_aligned = generator_state() == after_eager
    except RuntimeError as error:
        _not_checked(context, f"with eager's random numbers it failed: {failure_reason(error)}")
        return ""
    if reason and not is_aligned:
        _not_checked(context, "it draws other random numbers than eager")
        return ""
    return reason


def _not_checked(context: Context, reason: str) -> None:
    details = context.findings.details["accuracy"]
    details["not_checked"] = reason
    # These are distances between results of other random numbers.
    details.pop("parts", None)
    context.findings.warn(
        "accuracy-not-checked", f"the accuracy was not checked: {reason}", hint=_HINT
    )

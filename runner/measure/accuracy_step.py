"""The steps `eager oracle` and `accuracy` of a launch."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

from runner.measure.accuracy import (
    GRADIENT_MIN_COSINE,
    MIN_COSINE,
    Accuracy,
    check_accuracy,
)
from runner.measure.context import Context, Forward
from runner.measure.subject import Subject, fp64_twin


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What results are held against: the fp64 oracle, and eager in the dtype of the case."""

    oracle: dict[str, torch.Tensor]
    eager: dict[str, torch.Tensor]


def make_reference(subject: Subject) -> Reference:
    """Return what the results of `subject` are held against."""
    twin = fp64_twin(subject)
    oracle = twin.result(twin.model)
    del twin
    return Reference(oracle=oracle, eager=subject.result(subject.model))


def check_result(context: Context, forward: Forward, *, reference: Reference) -> str:
    """Return why the result of `forward` is inaccurate, empty when it is not; keep the metrics."""
    request, found = context.request, context.found
    result = reference.eager if context.is_eager else context.subject.result(forward)
    checked: list[tuple[Accuracy, Accuracy]] = []
    for part, oracle in reference.oracle.items():
        floors = GRADIENT_MIN_COSINE if part == "gradients" else MIN_COSINE
        check = functools.partial(
            check_accuracy,
            oracle=oracle,
            dtype=request.case.dtype,
            min_cosine=request.workload.min_cosine or floors[request.case.dtype],
        )
        eager = check(reference.eager[part])
        accuracy = check(result[part], eager_rmse=None if context.is_eager else eager.rmse)
        if accuracy.reason:
            return f"{part}: {accuracy.reason}"
        checked.append((accuracy, eager))
    method = f"against the fp64 eager oracle: {', '.join(reference.oracle)}; the worst of them"
    found.add("max_abs_error", (max(item.max_abs_error for item, _ in checked),), method=method)
    found.add("cosine_similarity", (min(item.cosine for item, _ in checked),), method=method)
    ratios = [accuracy.rmse / eager.rmse for accuracy, eager in checked if eager.rmse > 0]
    if ratios and not context.is_eager:
        found.add("rmse_ratio", (max(ratios),), method=method)
    return ""

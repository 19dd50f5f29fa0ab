"""The steps `eager oracle` and `accuracy` of a launch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from compile_hud.db.shared.text import counted
from compile_hud.runner.measure.accuracy.metrics import (
    Accuracy,
    AccuracyLimits,
    Distance,
    EagerError,
    check_accuracy,
    distance,
    num_allowed_flips,
    tolerance_for,
)
from compile_hud.runner.measure.accuracy.outputs import GRADIENTS, Result
from compile_hud.runner.measure.accuracy.start_state import generator_state
from compile_hud.runner.measure.compile.source_locations import failure_reason
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.subject import Subject, fp64_twin

SAME = Distance(max_abs=0.0, rmse=0.0, cosine=1.0)
NO_SIMILARITY = Distance(max_abs=math.inf, rmse=math.inf, cosine=0.0)
# The calls use the same inputs: a variant that gives two answers has no accuracy.
NUM_CALLS = 2
# With other random numbers than eager's, dropout of 1 % brings a cosine of 0.99. Rounding to bf16
# leaves 0.999 and more.
MIN_ALIGNED_COSINE = 0.998


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The references for results: the fp64 oracle, and eager in the dtype of the case.

    `spread` is the distance between two eager runs, for the components that differ. A model
    `is_random` if a run draws random numbers. `by_eager` are the parts of the oracle that are
    eager's own, since fp64 draws other random numbers, leaves its range or fails: `oracle_error`.
    """

    oracle: Result
    eager: Result
    spread: Mapping[str, Distance]
    is_random: bool = False
    by_eager: tuple[str, ...] = ()
    oracle_error: str = ""
    # Eager agrees with itself only if the attributes of its modules start over, too.
    has_own_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCheck:
    """The check of one part: its worst call and eager's own error."""

    worst: Accuracy
    eager: Accuracy


def make_reference(subject: Subject) -> Reference:
    """Return the reference results of `subject`; eager runs twice, from the same start.

    A model whose two runs differ may count its calls or keep a cache in attributes: it then starts
    from its first attributes as well, and keeps doing so if that makes the runs equal.
    """
    reference = _reference_of(subject)
    if not reference.spread or subject.start is None or subject.has_own_state:
        return reference
    subject.has_own_state = True
    restarted = _reference_of(subject)
    if restarted.spread:
        subject.has_own_state = False
        return reference
    return replace(restarted, has_own_state=True)


def _reference_of(subject: Subject) -> Reference:
    oracle, oracle_error = _oracle_of(subject)
    subject.start_over()
    before = _random_state(subject)
    eager = subject.result(subject.model)
    is_random = subject.start is not None and _random_state(subject) != before
    spread = differences(eager, subject.result(subject.model))
    by_eager = tuple(eager.parts)
    if oracle is None:
        oracle = eager
    else:
        by_eager = _unusable_parts(oracle, eager=eager, is_random=is_random)
    return Reference(
        oracle=replace(
            oracle,
            parts={**oracle.parts, **{name: eager.parts[name] for name in by_eager}},
            # An index that is drawn says nothing about rounding.
            discrete=eager.discrete if is_random else oracle.discrete,
        ),
        eager=eager,
        spread=spread,
        is_random=is_random,
        by_eager=by_eager,
        oracle_error=oracle_error,
    )


def _random_state(subject: Subject) -> tuple[object, ...]:
    own = () if subject.start is None else subject.start.generator_states()
    return (*generator_state(), own)


def _oracle_of(subject: Subject) -> tuple[Result | None, str]:
    """Return the result of the fp64 copy; None and the reason if the model cannot run in fp64.

    A tensor in an attribute of a module is converted by nothing, and some operators have no fp64.
    """
    twin = fp64_twin(subject)
    try:
        return twin.result(twin.model), ""
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        return None, failure_reason(error)


def _unusable_parts(oracle: Result, *, eager: Result, is_random: bool) -> tuple[str, ...]:
    """Return the parts of the oracle that are no reference for eager of the same start."""
    if oracle.parts.keys() != eager.parts.keys():
        return ()
    names = []
    for name, theirs in oracle.parts.items():
        ours = eager.parts[name]
        if ours.shape != theirs.shape:
            continue
        is_beyond = bool((torch.isfinite(ours) & ~torch.isfinite(theirs)).any())
        is_other = is_random and distance(ours, other=theirs).cosine < MIN_ALIGNED_COSINE
        if is_beyond or is_other:
            names.append(name)
    return tuple(names)


def differences(first: Result, second: Result) -> dict[str, Distance]:
    """Return the distance between two results for components that differ in any bit."""
    if first.layout != second.layout:
        return dict.fromkeys(first.parts, NO_SIMILARITY)
    return {
        part: distance(vector, other=second.parts[part])
        for part, vector in first.parts.items()
        # NaN where there was NaN is the same answer, however useless.
        if not torch.allclose(vector, second.parts[part], rtol=0.0, atol=0.0, equal_nan=True)
    }


def check_result(context: Context, forward: Forward, *, reference: Reference) -> str:
    """Record the metrics of `forward`; return the reason why it is inaccurate, else empty.

    The details have every distance in both cases.
    """
    request, findings = context.request, context.findings
    tolerance = tolerance_for(request.case.dtype, request.workload.tolerance)
    context.variant.has_own_state |= reference.has_own_state
    results = [reference.eager]
    if not context.is_eager:
        results = [context.variant.result(forward) for _ in range(NUM_CALLS)]
    details: dict[str, Any] = {"tolerance": dataclasses.asdict(tolerance)}
    if reference.is_random:
        details["is_random"] = True
    if reference.by_eager:
        details["oracle_is_eager"] = list(reference.by_eager)
    if reference.oracle_error:
        findings.warn(
            "no-fp64-oracle",
            f"the model does not run in fp64, so eager is the reference: {reference.oracle_error}",
            hint="register tensors of modules as buffers: then they have the model's dtype",
        )
    findings.details["accuracy"] = details
    if reason := _other_layout(results, eager=reference.eager):
        return reason
    _report_nondeterminism(context, results, reference=reference)
    reason, checks = _examine(details, results, reference=reference, tolerance=tolerance)
    if not reason and checks:
        _report(context, checks)
    return reason


def check_other_shape(
    context: Context, result: Result, *, reference: Reference
) -> tuple[str, dict[str, Any]]:
    """Return the reason why one result of another shape is inaccurate, or empty; and distances.

    `context` has that shape's subject and records no metric.
    """
    tolerance = tolerance_for(context.request.case.dtype, context.request.workload.tolerance)
    details: dict[str, Any] = {}
    reason = _other_layout([result], eager=reference.eager)
    if not reason:
        reason, _ = _examine(details, [result], reference=reference, tolerance=tolerance)
    return reason, details


def _examine(
    details: dict[str, Any],
    results: Sequence[Result],
    *,
    reference: Reference,
    tolerance: AccuracyLimits,
) -> tuple[str, dict[str, PartCheck]]:
    """Fill the details; return the fault of the worst of `results`, and each check."""
    checks = {
        part: _check_part(part, results, reference=reference, tolerance=tolerance)
        for part in reference.oracle.parts
    }
    details["parts"] = {part: _part_details(check) for part, check in checks.items()}
    reasons = [
        f"{part}: {check.worst.reason}" for part, check in checks.items() if check.worst.reason
    ]
    reasons += _check_discrete(details, results, reference=reference, tolerance=tolerance)
    return (reasons[0] if reasons else ""), checks


def _other_layout(results: Sequence[Result], *, eager: Result) -> str:
    for result in results:
        if len(result.layout) != len(eager.layout):
            return f"it returned {counted(len(result.layout), 'tensor')}, eager {len(eager.layout)}"
        for ours, theirs in zip(result.layout, eager.layout, strict=True):
            if ours != theirs:
                return f"it returned {ours} where eager returns {theirs}"
    return ""


def _check_part(
    part: str, results: Sequence[Result], *, reference: Reference, tolerance: AccuracyLimits
) -> PartCheck:
    oracle = reference.oracle.parts[part]
    floor = tolerance.min_gradient_cosine if part == GRADIENTS else tolerance.min_cosine
    spread = reference.spread.get(part, SAME)
    if part in reference.by_eager:
        # Both sides of the distance are rounded.
        rounding = tolerance.rounding_rmse * tolerance.max_rmse_ratio
        tolerance = replace(tolerance, rounding_rmse=rounding)

    def check(result: Result, *, rmse: float | None) -> Accuracy:
        return check_accuracy(
            result.parts[part],
            oracle=oracle,
            min_cosine=floor,
            tolerance=tolerance,
            eager=EagerError(rmse=rmse, spread=spread),
        )

    eager = check(reference.eager, rmse=None)
    if results[0] is reference.eager:
        return PartCheck(worst=eager, eager=eager)
    checks = [check(result, rmse=eager.rmse) for result in results]
    worst = max(checks, key=lambda accuracy: (bool(accuracy.reason), accuracy.rmse))
    return PartCheck(worst=worst, eager=eager)


def _part_details(check: PartCheck) -> dict[str, float | None]:
    numbers = {
        "cosine": check.worst.cosine,
        "max_abs_error": check.worst.max_abs_error,
        "rmse": check.worst.rmse,
        "eager_cosine": check.eager.cosine,
        "eager_max_abs_error": check.eager.max_abs_error,
        "eager_rmse": check.eager.rmse,
    }
    # JSON has no infinity.
    return {name: number if math.isfinite(number) else None for name, number in numbers.items()}


def _check_discrete(
    details: dict[str, Any],
    results: Sequence[Result],
    *,
    reference: Reference,
    tolerance: AccuracyLimits,
) -> list[str]:
    """Return the fault of integers and truth values; record how many differ."""
    reasons = []
    for name, oracle in reference.oracle.discrete.items():
        num_by_eager = int((reference.eager.discrete[name] != oracle).sum())
        num_flips = max(int((result.discrete[name] != oracle).sum()) for result in results)
        allowed = num_allowed_flips(oracle.numel(), num_by_eager=num_by_eager, tolerance=tolerance)
        details.setdefault("discrete", {})[name] = {
            "num_values": oracle.numel(),
            "num_different": num_flips,
            "num_different_eager": num_by_eager,
            "num_allowed": allowed,
        }
        if num_flips > allowed:
            reasons.append(
                f"{name}: {num_flips} of {oracle.numel()} integers differ from the fp64 oracle,"
                f" {num_by_eager} in eager; at most {allowed} may"
            )
    return reasons


def _report_nondeterminism(
    context: Context, results: Sequence[Result], *, reference: Reference
) -> None:
    findings = context.findings
    if reference.spread:
        findings.details["eager_nondeterminism"] = _spread_details(reference.spread)
        findings.warn(
            "nondeterministic-eager",
            f"two eager runs on the same inputs differ in {', '.join(reference.spread)};"
            " what is allowed against the oracle was widened by as much",
            hint="see torch.use_deterministic_algorithms for what is not deterministic; switch off"
            " what is random (dropout)",
        )
        return
    spread = differences(results[0], results[-1])
    if spread:
        findings.details["variant_nondeterminism"] = _spread_details(spread)
        findings.warn(
            "nondeterministic-variant",
            f"two calls of the variant on the same inputs differ in {', '.join(spread)};"
            " eager gives the same bits twice",
            hint="each call was checked; look for atomics or random numbers in the generated code",
        )


def _spread_details(spread: Mapping[str, Distance]) -> dict[str, float | None]:
    """Return the largest distances as JSON values, None where one is not finite."""
    largest = {
        "max_abs_difference": max(item.max_abs for item in spread.values()),
        "rmse": max(item.rmse for item in spread.values()),
    }
    return {name: number if math.isfinite(number) else None for name, number in largest.items()}


def _report(context: Context, checks: Mapping[str, PartCheck]) -> None:
    findings = context.findings
    worst = [check.worst for check in checks.values()]
    calls = "" if context.is_eager else f", {NUM_CALLS} calls"
    method = f"against the fp64 eager oracle{calls}: {', '.join(checks)}; the worst of them"
    findings.add("max_abs_error", (max(item.max_abs_error for item in worst),), method=method)
    findings.add("cosine_similarity", (min(item.cosine for item in worst),), method=method)
    ratios = [
        check.worst.rmse / check.eager.rmse
        for check in checks.values()
        # A non-finite eager is no reference either: any variant would have a ratio of 0.
        if 0 < check.eager.rmse < math.inf
    ]
    # 8-bit weights deviate by more than any rounding, so the factor is no information about the
    # code.
    is_rounding = not context.request.workload.transform.weights
    if ratios and is_rounding and not context.is_eager:
        findings.add("rmse_ratio", (max(ratios),), method=method)

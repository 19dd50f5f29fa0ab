"""Accuracy of each variant against an fp64 eager oracle.

A component of a result (an output, the gradients) is accurate if its cosine similarity to the
oracle reaches a floor and its RMS error is small. The error may be within the dtype's own rounding
or at most a multiple of eager's error in the same dtype. If two eager runs on the same inputs
differ, their distance widens both limits. Infinities and NaN must be the same in the same places;
the other numbers are compared. The fp64 oracle and the comparison with eager's own error
follow the practice of PyTorch's benchmarks/dynamo; the constants are ours
(docs/explanation/measurement.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from compile_hud.db.records.results import Dtype

# A lower cosine means another answer, not another rounding. Over the zoo
# (docs/explanation/measurement-data.md) eager itself reaches 0.99999 with the factors of its
# products rounded to TF32, 0.999999 in fp16 and 0.9998 under bf16-autocast.
MIN_COSINE = {
    Dtype.FP32: 0.9999,
    Dtype.TF32: 0.999,
    Dtype.BF16: 0.99,
    Dtype.BF16_AUTOCAST: 0.99,
    Dtype.FP16: 0.99,
    Dtype.FP16_AUTOCAST: 0.99,
}
# Gradients add up the rounding of every layer. Those of a small ResNet in bf16 eager reach 0.986,
# those of a small DCGAN 0.993 under bf16-autocast and 0.9993 in TF32. RMSE_FACTOR detects errors
# beyond eager's own rounding.
GRADIENT_MIN_COSINE = {
    Dtype.FP32: 0.9999,
    Dtype.TF32: 0.99,
    Dtype.BF16: 0.95,
    Dtype.BF16_AUTOCAST: 0.95,
    Dtype.FP16: 0.95,
    Dtype.FP16_AUTOCAST: 0.95,
}
# Relative RMS error that reordering sums of this format explains: some hundred units of rounding.
# The factors of a product in TF32 have the 10 bits of fp16.
ROUNDING_RMSE = {
    Dtype.FP32: 1e-5,
    Dtype.TF32: 5e-3,
    Dtype.BF16: 2e-2,
    Dtype.BF16_AUTOCAST: 2e-2,
    Dtype.FP16: 5e-3,
    Dtype.FP16_AUTOCAST: 5e-3,
}
# Another order of summation doubles an error now and then; A/A runs never had three times.
RMSE_FACTOR = 3.0
# Rounding flips integers and truth values at a tie: an argmax, a mask at its threshold.
DISCRETE_SHARE = 0.01
# Two eager runs that agree less than this prove nothing about a third.
MIN_EAGER_COSINE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyLimits:
    """The allowed distance of a result from the oracle.

    `rounding_rmse` is the RMS error, relative to the oracle's own size, that is always allowed;
    `max_rmse_ratio` times eager's error is allowed as well. `max_discrete_share` is the share of
    integers and truth values that may differ.
    """

    min_cosine: float
    min_gradient_cosine: float
    rounding_rmse: float
    max_rmse_ratio: float = RMSE_FACTOR
    max_discrete_share: float = DISCRETE_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """The distance of two vectors; `cosine` is 1 and the others are 0 if they are equal."""

    max_abs: float
    rmse: float
    cosine: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerError:
    """Eager's own error in one component.

    `rmse` is None while eager itself is checked. `spread` is the distance between two of its runs.
    """

    rmse: float | None = None
    spread: Distance = Distance(max_abs=0.0, rmse=0.0, cosine=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Distance of a result from the oracle; `reason` is empty for an accurate one."""

    max_abs_error: float
    rmse: float
    cosine: float
    reason: str


def tolerance_for(dtype: Dtype, overrides: Mapping[str, float]) -> AccuracyLimits:
    """Return the tolerance of `dtype`, with the `overrides` of the model."""
    return AccuracyLimits(
        **{
            "min_cosine": MIN_COSINE[dtype],
            "min_gradient_cosine": GRADIENT_MIN_COSINE[dtype],
            "rounding_rmse": ROUNDING_RMSE[dtype],
            **overrides,
        }
    )


def check_accuracy(
    result: torch.Tensor,
    *,
    oracle: torch.Tensor,
    min_cosine: float,
    tolerance: AccuracyLimits,
    eager: EagerError,
) -> Accuracy:
    """Return the distance of flat `result` from flat `oracle`, and whether it is too large."""
    if result.shape != oracle.shape:
        return _num_mismatches(f"it has {result.numel()} numbers, the oracle {oracle.numel()}")
    finite = finite_parts(result, other=oracle)
    if finite is None:
        if bool((torch.isfinite(oracle) & ~torch.isfinite(result)).any()):
            return _num_mismatches("it holds NaN or infinity where the oracle is finite")
        return _num_mismatches("the oracle holds NaN or infinity where it has something else")
    deviation = _distance(*finite)
    # As for the RMS error, the limit is a multiple of eager's own difference.
    floor = min(min_cosine, 1.0 - tolerance.max_rmse_ratio * (1.0 - eager.spread.cosine))
    reason = ""
    if eager.spread.cosine < MIN_EAGER_COSINE:
        reason = (
            f"two eager runs differ too much to check anything with them: their cosine similarity"
            f" is {eager.spread.cosine:.3f}; switch off what is random (dropout)"
        )
    elif deviation.cosine < floor:
        reason = (
            f"cosine similarity to the fp64 oracle is {deviation.cosine:.6f},"
            f" at least {floor:.6g} is needed"
        )
    elif eager.rmse is not None:
        reason = _too_far(deviation, eager=eager, tolerance=tolerance, oracle=finite[1])
    return Accuracy(
        max_abs_error=deviation.max_abs, rmse=deviation.rmse, cosine=deviation.cosine, reason=reason
    )


def _too_far(
    deviation: Distance, *, eager: EagerError, tolerance: AccuracyLimits, oracle: torch.Tensor
) -> str:
    assert eager.rmse is not None
    rounding = tolerance.rounding_rmse * _rms(oracle)
    own = eager.rmse + eager.spread.rmse
    if deviation.rmse <= max(rounding, tolerance.max_rmse_ratio * own):
        return ""
    return (
        f"RMS error against the fp64 oracle is {deviation.rmse:.3g}, eager's is {own:.3g};"
        f" at most {tolerance.max_rmse_ratio:g} times eager's is allowed"
    )


def finite_parts(
    vector: torch.Tensor, *, other: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the finite numbers of two vectors of the same length, in fp64.

    None if NaN and infinities are not the same in the same places. Numbers at the limit of the
    dtype of `vector` count as infinite: masks write them, and they would hide all others.
    """
    limit = torch.finfo(vector.dtype).max
    vector, other = vector.double(), other.double()
    if bool(((vector.abs() < limit) & (other.abs() < limit)).all()):
        return vector, other
    # In a narrow dtype rounding reaches the limit where the oracle does not.
    for bound in (limit, math.inf):
        kinds = _kinds(other, bound=bound)
        if torch.equal(_kinds(vector, bound=bound), kinds):
            return vector[kinds == 0], other[kinds == 0]
    return None


def _kinds(vector: torch.Tensor, *, bound: float) -> torch.Tensor:
    """Return 0 for each number within `bound`, 1 and -1 for those beyond it, 2 for NaN."""
    kinds = (vector >= bound).to(torch.int8) - (vector <= -bound).to(torch.int8)
    kinds[vector.isnan()] = 2
    return kinds


def distance(vector: torch.Tensor, *, other: torch.Tensor) -> Distance:
    """Return the distance of two vectors of the same length, of their finite parts."""
    finite = finite_parts(vector, other=other)
    if finite is None:
        return Distance(max_abs=math.inf, rmse=math.inf, cosine=0.0)
    return _distance(*finite)


def _distance(vector: torch.Tensor, other: torch.Tensor) -> Distance:
    difference = vector - other
    return Distance(
        max_abs=float(difference.abs().max()) if difference.numel() else 0.0,
        rmse=_rms(difference),
        cosine=_cosine(vector, other),
    )


def num_allowed_flips(num_values: int, *, num_by_eager: int, tolerance: AccuracyLimits) -> int:
    """Return the number of `num_values` integers that may differ from the oracle's.

    A single value must be right; of several, at least one may lie at a tie.
    """
    share = math.ceil(tolerance.max_discrete_share * num_values) if num_values > 1 else 0
    return max(share, int(tolerance.max_rmse_ratio * num_by_eager))


def _num_mismatches(reason: str) -> Accuracy:
    return Accuracy(max_abs_error=math.inf, rmse=math.inf, cosine=0.0, reason=reason)


def _rms(vector: torch.Tensor) -> float:
    return float(vector.square().mean().sqrt()) if vector.numel() else 0.0


def _cosine(left: torch.Tensor, right: torch.Tensor) -> float:
    norms = float(left.norm() * right.norm())
    if norms == 0.0:
        # Two zero vectors are the same vector; one of them alone is as wrong as it gets.
        return 1.0 if bool((left == right).all()) else 0.0
    return min(1.0, float(left @ right) / norms)

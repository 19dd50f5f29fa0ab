"""Is the result right? Each variant against an fp64 eager oracle.

A result is accurate when its cosine similarity to the oracle reaches the floor of its dtype and
its RMS error is either within the dtype's own rounding or at most RMSE_FACTOR times that of eager
in the same dtype. The fp64 oracle and the comparison with eager's own error follow the practice of
PyTorch's benchmarks/dynamo; the constants are ours (docs/methodology.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from db.records import Dtype

# Below these the answer is another answer, not another rounding.
MIN_COSINE = {Dtype.FP32: 0.9999, Dtype.BF16: 0.99, Dtype.FP16_AUTOCAST: 0.99}
# Gradients add up the rounding of every layer: those of a small ResNet in bf16 eager reach 0.986.
# What is wrong beyond eager's own rounding, RMSE_FACTOR finds.
GRADIENT_MIN_COSINE = {Dtype.FP32: 0.9999, Dtype.BF16: 0.95, Dtype.FP16_AUTOCAST: 0.95}
# Relative RMS error that reordering sums of this format explains: some hundred units of rounding.
ROUNDING_RMSE = {Dtype.FP32: 1e-5, Dtype.BF16: 2e-2, Dtype.FP16_AUTOCAST: 5e-3}
# Another order of summation doubles an error now and then; three times was not seen in A/A.
RMSE_FACTOR = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Distance of a result from the oracle; `reason` says why it is inaccurate, empty when not."""

    max_abs_error: float
    rmse: float
    cosine: float
    reason: str


def flatten(outputs: object) -> torch.Tensor:
    """Return every floating-point tensor in `outputs`, in order, as one fp64 vector.

    Raises TypeError when there is none.
    """
    tensors = list(floating_tensors(outputs))
    if not tensors:
        raise TypeError(
            f"the model returned {type(outputs).__name__} without any floating-point tensor;"
            " there is nothing to check its accuracy with"
        )
    return torch.cat([tensor.detach().double().reshape(-1) for tensor in tensors])


def floating_tensors(outputs: object) -> Iterator[torch.Tensor]:
    """Yield every floating-point tensor in `outputs`, in order, whatever holds it."""
    if isinstance(outputs, torch.Tensor):
        if outputs.is_floating_point():
            yield outputs
    elif isinstance(outputs, Mapping):
        for value in outputs.values():
            yield from floating_tensors(value)
    elif isinstance(outputs, list | tuple):
        for value in outputs:
            yield from floating_tensors(value)


def check_accuracy(
    result: torch.Tensor,
    *,
    oracle: torch.Tensor,
    dtype: Dtype,
    eager_rmse: float | None = None,
    min_cosine: float | None = None,
) -> Accuracy:
    """Return how far flat `result` is from flat `oracle`; `eager_rmse` is eager's own error."""
    if result.shape != oracle.shape:
        return _unlike(f"it has {result.numel()} numbers, the oracle {oracle.numel()}")
    if not bool(torch.isfinite(oracle).all()):
        return _unlike("the fp64 oracle itself is not finite")
    if not bool(torch.isfinite(result).all()):
        return _unlike("it holds NaN or infinity where the oracle is finite")
    difference = result - oracle
    rmse = _rms(difference)
    max_abs_error = float(difference.abs().max())
    cosine = _cosine(result, oracle)
    floor = MIN_COSINE[dtype] if min_cosine is None else min_cosine
    rounding = ROUNDING_RMSE[dtype] * _rms(oracle)
    reason = ""
    if cosine < floor:
        reason = f"cosine similarity to the fp64 oracle is {cosine:.6f}, at least {floor} is needed"
    elif eager_rmse is not None and rmse > max(rounding, RMSE_FACTOR * eager_rmse):
        reason = (
            f"RMS error against the fp64 oracle is {rmse:.3g}, eager's is {eager_rmse:.3g};"
            f" at most {RMSE_FACTOR:g} times eager's is allowed"
        )
    return Accuracy(max_abs_error=max_abs_error, rmse=rmse, cosine=cosine, reason=reason)


def _unlike(reason: str) -> Accuracy:
    return Accuracy(max_abs_error=math.inf, rmse=math.inf, cosine=0.0, reason=reason)


def _rms(vector: torch.Tensor) -> float:
    return float(vector.square().mean().sqrt())


def _cosine(left: torch.Tensor, right: torch.Tensor) -> float:
    norms = float(left.norm() * right.norm())
    if norms == 0.0:
        # Two zero vectors are the same vector; one of them alone is as wrong as it gets.
        return 1.0 if bool((left == right).all()) else 0.0
    return min(1.0, float(left @ right) / norms)

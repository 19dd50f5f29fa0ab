"""Two kernels written in Triton, as operators that torch.compile sees into.

Both take rows, one program each, and accumulate in fp32, or fp64 for the oracle. Only the CUDA
builds of torch include Triton; without it the operators do not exist and `check_available` raises.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor
from torch.library import triton_op, wrap_triton

from compile_hud.models_zoo.catalog.errors import UnavailableModelError

HAS_TRITON = find_spec("triton") is not None

if HAS_TRITON:
    import triton
    import triton.language as tl

    @triton.jit
    def _rms_norm_kernel(
        rows_ptr, weight_ptr, out_ptr, width, eps, BLOCK: tl.constexpr, IS_FP64: tl.constexpr
    ):
        row = tl.program_id(0).to(tl.int64) * width
        columns = tl.arange(0, BLOCK)
        is_inside = columns < width
        values = tl.load(rows_ptr + row + columns, mask=is_inside, other=0.0)
        weight = tl.load(weight_ptr + columns, mask=is_inside, other=0.0)
        exact = values.to(tl.float64) if IS_FP64 else values.to(tl.float32)
        mean_square = tl.sum(exact * exact, axis=0) / width
        normed = exact / tl.sqrt(mean_square + eps) * weight
        tl.store(out_ptr + row + columns, normed.to(values.dtype), mask=is_inside)

    @triton.jit
    def _softmax_kernel(rows_ptr, out_ptr, width, BLOCK: tl.constexpr, IS_FP64: tl.constexpr):
        row = tl.program_id(0).to(tl.int64) * width
        columns = tl.arange(0, BLOCK)
        is_inside = columns < width
        values = tl.load(rows_ptr + row + columns, mask=is_inside, other=-float("inf"))
        exact = values.to(tl.float64) if IS_FP64 else values.to(tl.float32)
        powers = tl.exp(exact - tl.max(exact, axis=0))
        shares = powers / tl.sum(powers, axis=0)
        tl.store(out_ptr + row + columns, shares.to(values.dtype), mask=is_inside)

    @triton_op("compile_hud::rms_norm", mutates_args=())
    def rms_norm(rows: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Return each row over its root mean square, times `weight`."""
        out = torch.empty_like(rows)
        width = rows.shape[-1]
        wrap_triton(_rms_norm_kernel)[(rows.numel() // width,)](
            rows,
            weight,
            out,
            width,
            eps,
            BLOCK=triton.next_power_of_2(width),
            IS_FP64=rows.dtype is torch.float64,
        )
        return out

    @triton_op("compile_hud::softmax", mutates_args=())
    def softmax(rows: Tensor) -> Tensor:
        """Return the softmax of each row."""
        out = torch.empty_like(rows)
        width = rows.shape[-1]
        wrap_triton(_softmax_kernel)[(rows.numel() // width,)](
            rows,
            out,
            width,
            BLOCK=triton.next_power_of_2(width),
            IS_FP64=rows.dtype is torch.float64,
        )
        return out


def check_available() -> None:
    """Raise UnavailableModelError without Triton, or without a GPU that runs its kernels."""
    if not torch.cuda.is_available():
        raise UnavailableModelError(
            "Triton's kernels run on a GPU and there is none here; the twin without `triton_` runs"
            " everywhere."
        )
    if not HAS_TRITON:
        raise UnavailableModelError(
            "Triton is not installed; the CUDA builds of torch bring it: `pip install torch`."
        )

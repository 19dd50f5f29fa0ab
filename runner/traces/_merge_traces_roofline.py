"""How near a call comes to what its device was measured to be able to."""

from __future__ import annotations

import math
from collections.abc import Mapping

from compile_hud.runner.traces.operator_costs import Work

# The facts of runner/measure/resources/device_peaks.py by the type of the operations.
_PEAKS = {
    "float32": "fp32_flops_per_s",
    "bfloat16": "bf16_flops_per_s",
    "float16": "fp16_flops_per_s",
}
_TF32_PEAK = "tf32_flops_per_s"
_COPY_PEAK = "copy_bytes_per_s"


def share_of_peak(work: Work, *, mean_s: float, peaks: Mapping[str, float]) -> float | None:
    """Return the part of the measured roofline that a call reaches, None where nobody knows.

    That is the larger of the achieved bytes/s over the peak of copies and of the achieved FLOP/s
    over the peak of products in that type.
    """
    if mean_s == 0:
        return None
    shares = []
    copy_peak = _peak(peaks, _COPY_PEAK)
    if work.num_bytes is not None and work.is_on_device and copy_peak:
        shares.append(work.num_bytes / mean_s / copy_peak)
    flops_peak = _peak(peaks, _flops_name(work, peaks))
    if work.flops is not None and flops_peak:
        shares.append(work.flops / mean_s / flops_peak)
    return max(shares, default=None)


def _flops_name(work: Work, peaks: Mapping[str, float]) -> str:
    # cuDNN runs fp32 convolutions in TF32 unless told not to.
    if work.is_convolution and work.dtype == "float32" and _peak(peaks, _TF32_PEAK):
        return _TF32_PEAK
    return _PEAKS.get(work.dtype, "")


def _peak(peaks: Mapping[str, float], name: str) -> float | None:
    value = peaks.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and value is not None and 0 < value < math.inf else None

"""Utilisation of the device by a case, relative to the peaks of the same run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import CaseResult, Dtype, Measurement
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.analysis.stats.launch_noise import launch_spread

# The peak for fp32 convolutions that may run in TF32: seven times the fp32 rate.
TF32_NAME = "tf32_flops_per_s"
# Under autocast the products run in half precision.
PEAK_NAMES = {
    Dtype.FP32: "fp32_flops_per_s",
    Dtype.TF32: TF32_NAME,
    Dtype.BF16: "bf16_flops_per_s",
    Dtype.BF16_AUTOCAST: "bf16_flops_per_s",
    Dtype.FP16: "fp16_flops_per_s",
    Dtype.FP16_AUTOCAST: "fp16_flops_per_s",
}
COPY_NAME = "copy_bytes_per_s"


def with_utilisation(result: CaseResult, *, peaks: Mapping[str, Any]) -> CaseResult:
    """Return `result` with MFU and bandwidth, if its counts and `peaks` allow them.

    Both are computed sample by sample, launch by launch, so that they have intervals. They use
    thread CPU time where it exists, as the peaks do. At load 8 on two cores the MFU of a matrix
    product was 0.20 by wall time and 0.99 by CPU time.
    """
    latency = result.measurement("latency_cpu_s") or result.measurement("latency_s")
    if latency is None:
        return result
    derived = tuple(_derived(result, latency, peaks=peaks))
    warnings = result.warnings
    mfu = next((item for item in derived if item.metric == "mfu"), None)
    # A matrix product is at 1 itself, give or take the noise.
    if mfu is not None and mfu.interval[0] > 1:
        warnings = (*warnings, _above_one(result, mfu.median))
    return replace(result, measurements=(*result.measurements, *derived), warnings=warnings)


def peaks_in_trace(dtype: Dtype, *, peaks: Mapping[str, Any]) -> dict[str, float]:
    """Return the `peaks` that apply to kernels of a case in `dtype`.

    A trace has only the types of operands, and products in TF32 have fp32 operands.
    """
    numbers = {name: float(peak) for name, peak in peaks.items() if isinstance(peak, int | float)}
    if dtype is Dtype.TF32 and TF32_NAME in numbers:
        numbers[PEAK_NAMES[Dtype.FP32]] = numbers[TF32_NAME]
    return numbers


def _derived(
    result: CaseResult, latency: Measurement, *, peaks: Mapping[str, Any]
) -> Iterator[Measurement]:
    over = partial(_over_latency, latency=latency, device=result.case.device)
    names = [PEAK_NAMES[result.case.dtype]]
    flops = result.measurement("flops")
    if flops is not None and peaks.get(names[0]):
        least_s = flops.median / peaks[names[0]]
        num_in_tf32 = _convolution_flops(result) if result.case.dtype is Dtype.FP32 else 0
        if num_in_tf32 and peaks.get(TF32_NAME):
            names.append(TF32_NAME)
            least_s += num_in_tf32 / peaks[TF32_NAME] - num_in_tf32 / peaks[names[0]]
        method = f"flops over {latency.metric} and {', '.join(names)} of the run"
        yield over("mfu", least_s, latency=latency, device=result.case.device, method=method)
    moved = result.measurement("compulsory_bytes")
    if moved is None:
        return
    method = f"compulsory_bytes over {latency.metric}"
    yield over(
        "bandwidth_bytes_per_s",
        moved.median,
        latency=latency,
        device=result.case.device,
        method=method,
    )
    if copy_bytes_per_s := peaks.get(COPY_NAME):
        least_s = moved.median / copy_bytes_per_s
        method = f"{method} and {COPY_NAME} of the run"
        yield over(
            "bandwidth_share", least_s, latency=latency, device=result.case.device, method=method
        )


def _convolution_flops(result: CaseResult) -> int:
    by_operator = result.details.get("work", {}).get("flops_by_operator", {})
    return sum(number for name, number in by_operator.items() if "convolution" in name)


def _over_latency(
    metric: str, amount: float, *, latency: Measurement, device: str, method: str
) -> Measurement:
    samples = tuple(amount / sample_s for sample_s in latency.samples)
    prior = launch_spread(latency.metric, device=device)
    level = estimate(samples, launches=latency.launches, prior=prior)
    return Measurement(
        metric=metric,
        unit=METRICS[metric].unit,
        samples=samples,
        launches=latency.launches,
        median=level.value,
        interval=(level.low, level.high),
        method=method,
    )


def _above_one(result: CaseResult, mfu: float) -> RunWarning:
    runtime = result.case.backend if result.details.get("runtime") else None
    faster = f"{runtime}'s products are faster than torch's, or " if runtime else ""
    return RunWarning(
        code="mfu-above-one",
        text=f"it ran at {mfu:.2f} times the highest rate that a {result.case.dtype} matrix product"
        " of torch reached at the start of the run",
        hint=f"{faster}the device was busy when the peaks were measured, or the code computes less"
        " or in another precision than eager; repeat the run on a quiet device",
    )

"""Nights of the kernels of a case: a norm, products and pointwise kernels, with new numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np

from compile_hud.db.records.kernels import Kernel, Origin
from compile_hud.db.records.results import RunRef
from compile_hud.db.records.summaries import KernelHistory, KernelNight
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from tests.support.builders import START, make_case, make_kernel

NORM = "triton_per_fused_add_native_layer_norm"
GELU = "triton_poi_fused_gelu"
SOFTMAX = "triton_per_fused__softmax"
COPY = "triton_poi_fused_clone"
PRODUCT, ATTENTION = "sm90_gemm_128x128", "flash_fwd_kernel"
# Microseconds of an iteration of 1,000.
LEVELS_US: Mapping[str, float] = {
    PRODUCT: 480.0,
    ATTENTION: 160.0,
    NORM: 120.0,
    GELU: 90.0,
    SOFTMAX: 60.0,
    COPY: 40.0,
}
LATENCY_S = 1e-3
NOISE = 0.004
# The time of a kernel in a night, from its number of the night and its level, in microseconds.
Times = Callable[[int, str, float], float]


def steady(_night: int, _label: str, time_us: float) -> float:
    """Return the level of a kernel that does not change."""
    return time_us


def masked_from(first: int, *, change_us: float = 48.0) -> Times:
    """Return times in which the norm gets slower from a night on, and the product faster."""
    changes = {NORM: change_us, PRODUCT: -change_us}

    def times(night: int, label: str, time_us: float) -> float:
        return time_us + (changes.get(label, 0.0) if night >= first else 0.0)

    return times


def kernels_of_night(night: int, *, times: Times = steady, seed: int = 0) -> tuple[Kernel, ...]:
    """Return the kernels of a night; Inductor's numbers and the order are other ones each night."""
    rng = np.random.default_rng([seed, night])
    kernels = []
    for label, level_us in LEVELS_US.items():
        time_s = 1e-6 * times(night, label, level_us) * (1 + NOISE * rng.standard_normal())
        is_generated = label.startswith("triton")
        kernel = make_kernel(
            f"{label}_{rng.integers(9)}" if is_generated else label,
            label=label,
            library="triton" if is_generated else "cublas",
            kind="fused" if is_generated else "gemm",
            operators=[f"aten.{label.rpartition('fused_')[2]}"],
            source_hash=f"hash of {label}" if is_generated else "",
            count=12.0,
            mean_s=time_s / 12,
        )
        origin = Origin(node="n", target="aten.x", module="encoder", file="model.py", line=58)
        kernels.append(replace(kernel, module="encoder", origins=(origin,)))
    return tuple(kernels[index] for index in rng.permutation(len(kernels)))


def kernel_nights(
    num_nights: int,
    *,
    times: Times = steady,
    missing: Sequence[int] = (),
    latency_s: float = LATENCY_S,
) -> tuple[KernelNight, ...]:
    """Return nights whose runs are `run-00` and so on, without the `missing` ones."""
    return tuple(
        KernelNight(
            run=RunRef(
                run_id=f"run-{night:02}",
                revision=f"torch {night}",
                at=START + timedelta(days=night),
            ),
            result_id=f"result-{night:02}",
            latency_s=latency_s,
            kernels=kernels_of_night(night, times=times),
        )
        for night in range(num_nights)
        if night not in missing
    )


def kernel_history(nights: Sequence[KernelNight]) -> KernelHistory:
    """Return the history of a case on a GPU."""
    return KernelHistory(
        case=make_case("bert"),
        machine="box",
        toolchain="stable",
        fingerprint="f" * 64,
        nights=tuple(nights),
    )


def side_of(night: KernelNight) -> KernelSide:
    """Return the side of a night, without code."""
    return KernelSide(kernels=night.kernels, sources={})

"""Histories of kernels: tables of an H100 with the noise that two of its campaigns show.

A kernel varies from night to night as one measured twice did. A share of the generated kernels has
two configurations, between which autotuning chooses each night; so many differ between campaigns.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

import numpy as np

from benchmarks.gpu.ledger import read_ledger
from compile_hud.db.records.kernels import Kernel
from compile_hud.db.records.results import CaseResult, RunRef
from compile_hud.db.records.summaries import KernelNight
from compile_hud.runner.analysis.kernel_series.chains import kernel_key
from compile_hud.runner.analysis.kernels.grouping import GENERATED, KernelSide

# Two configurations of a kernel are further apart than this, logarithms of times.
APART = 0.1
# Kernels of a smaller share of an iteration vary by the resolution of the profiler.
MIN_SHARE = 0.01
# Two nights with one of two configurations each differ with 2 p (1 - p), which is at most a half.
MODES_PER_DIFFERENCE = 2.0
# The least noise of a kernel: some had the same time twice.
MIN_SD = 1e-3
# So many nights have no result.
SHARE_MISSING = 0.05
# Every so many nights comes another torch, whose code of a share of the kernels is other text.
NIGHTS_PER_TORCH, SHARE_REWRITTEN = 30, 0.2
_START = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Differences of kernels between two campaigns, as logarithms without the common factor.

    `modes` are those of generated kernels with two configurations, `mode_share` their share.
    """

    core: np.ndarray
    common: np.ndarray
    modes: np.ndarray
    mode_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A kernel that becomes slower by a share of the latency; the others get faster by as much."""

    night: int
    kernel: int
    share: float


def templates() -> list[CaseResult]:
    """Return the newest result with kernels of each case of the ledger."""
    newest = {
        result.case.key: result
        for document in read_ledger()
        for result in document.results
        if result.kernels and result.measurement("latency_s") is not None
    }
    return list(newest.values())


def measured_noise() -> Noise:
    """Return the differences of kernels that two campaigns measured with the same code."""
    results: dict[tuple[str, str], list[CaseResult]] = defaultdict(list)
    for document in read_ledger():
        for result in document.results:
            if result.kernels:
                torch = str(document.run.environment.get("torch_version"))
                results[result.case.key, torch].append(result)
    core, common, modes, num_generated = [], [], [], 0
    for same in results.values():
        if len(same) < 2:
            continue
        before, after = (_by_key(result) for result in same[-2:])
        differences = {
            key: math.log(after[key].total_s / before[key].total_s)
            for key in sorted(before.keys() & after.keys())
            if before[key].share >= MIN_SHARE
        }
        if not differences:
            continue
        factor = float(np.median(list(differences.values())))
        common.append(factor)
        for key, difference in differences.items():
            is_generated = before[key].library in GENERATED
            num_generated += is_generated
            if is_generated and abs(difference - factor) > APART:
                modes.append(abs(difference - factor))
            elif abs(difference - factor) <= APART:
                core.append(difference - factor)
    return Noise(
        core=np.array(core) / math.sqrt(2),
        common=np.array(common) / math.sqrt(2),
        modes=np.array(modes),
        mode_share=MODES_PER_DIFFERENCE * len(modes) / num_generated,
    )


def draw(
    result: CaseResult,
    *,
    num_nights: int,
    noise: Noise,
    rng: np.random.Generator,
    planted: Planted | None = None,
) -> list[KernelNight]:
    """Return nights of the case of `result`, with new numbers in the names of its kernels."""
    latency = result.measurement("latency_s")
    assert latency is not None
    kernels = [kernel for kernel in result.kernels if kernel.total_s > 0]
    times_s, is_other = _times(kernels, num_nights=num_nights, noise=noise, rng=rng)
    if planted is not None:
        _plant(times_s, planted, latency_s=latency.median)
    common = rng.choice(noise.common, num_nights)
    hashes = [kernel.source_hash for kernel in kernels]
    nights = []
    for night in range(num_nights):
        if night and night % NIGHTS_PER_TORCH == 0:
            is_new = rng.random(len(kernels)) < SHARE_REWRITTEN
            hashes = [
                f"{old}+{night}" if old and new else old
                for old, new in zip(hashes, is_new, strict=True)
            ]
        if rng.random() < SHARE_MISSING and not (planted is not None and night == planted.night):
            continue
        tonight = [
            _taking(
                kernel,
                times_s[night, index] * math.exp(common[night]),
                source_hash=hashes[index],
                num_warps=8 if is_other[night, index] else 4,
            )
            for index, kernel in enumerate(kernels)
        ]
        rng.shuffle(tonight)  # type: ignore[arg-type]
        nights.append(
            KernelNight(
                run=RunRef(
                    run_id=f"{night:04d}", revision=f"r{night}", at=_START + timedelta(days=night)
                ),
                result_id=f"{night:04d}",
                latency_s=latency.median * math.exp(common[night]),
                kernels=tuple(
                    replace(kernel, name=f"{kernel.label}_{number}")
                    for number, kernel in enumerate(tonight)
                ),
            )
        )
    return nights


def side_of(night: KernelNight) -> KernelSide:
    """Return the side of a night; the ledger has no code."""
    return KernelSide(kernels=night.kernels, sources={})


def _by_key(result: CaseResult) -> dict[tuple[str, ...], Kernel]:
    return {kernel_key(kernel): kernel for kernel in result.kernels if kernel.total_s > 0}


def _times(
    kernels: Sequence[Kernel], *, num_nights: int, noise: Noise, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds of each kernel (columns) in each night (rows), and the other choices."""
    level_s = np.array([kernel.total_s for kernel in kernels])
    # Some kernels vary more than others: each has the size of one measured difference.
    sizes = np.maximum(np.abs(rng.choice(noise.core, len(kernels))), MIN_SD)
    logs = sizes * rng.standard_normal((num_nights, len(kernels)))
    has_modes = [
        kernel.library in GENERATED and rng.random() < noise.mode_share for kernel in kernels
    ]
    is_other = np.array(has_modes) & (rng.random(logs.shape) < 0.5)
    logs += is_other * rng.choice(noise.modes, len(kernels))
    return level_s * np.exp(logs), is_other


def _plant(times_s: np.ndarray, planted: Planted, *, latency_s: float) -> None:
    """Add the planted step to `times_s`, and take as much from the longest other kernels."""
    extra_s = planted.share * latency_s
    after = times_s[planted.night :]
    after[:, planted.kernel] *= 1 + extra_s / float(np.median(times_s[:, planted.kernel]))
    levels = np.median(times_s, axis=0)
    for other in np.argsort(-levels):
        if other != planted.kernel and levels[other] > 2 * extra_s:
            after[:, other] *= 1 - extra_s / levels[other]
            return


def _taking(kernel: Kernel, total_s: float, *, source_hash: str, num_warps: int) -> Kernel:
    mean_s = total_s / kernel.count
    return replace(
        kernel,
        total_s=total_s,
        mean_s=mean_s,
        min_s=0.97 * mean_s,
        source_hash=source_hash,
        config={"num_warps": num_warps} if source_hash else {},
    )

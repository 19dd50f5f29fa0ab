"""Measure how often planted kernel steps are reported, and how often equal code raises an alert.

The histories are those of histories.py: every case with kernels of the GPU ledger. A planted kernel
becomes slower by a share of the latency, and another faster by as much, so that the latency stays.
The judge sees the newest results of each night, as `hud detect` does. The document has the recall
within three nights and within two weeks, and the false alarms of a case-year without a step. It
also has the seconds that judging a case takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2

from benchmarks.kernel_series.histories import (
    Noise,
    Planted,
    draw,
    measured_noise,
    side_of,
    templates,
)
from benchmarks.precision.rates import wilson_interval
from benchmarks.startup import RESULTS, commit, describe_machine
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import CaseResult
from compile_hud.db.records.summaries import KernelNight
from compile_hud.runner.analysis.kernel_series.chains import KernelChain, chain_kernels
from compile_hud.runner.analysis.kernel_series.masked_changes import (
    NIGHT_BUDGET,
    NUM_RESULTS,
    MaskedChange,
    find_masked_changes,
)

# 1: first version.
SCHEMA_VERSION = 1
SEED = 1
SHARES = (0.005, 0.01, 0.02, 0.04)
# A kernel with less than this share of the latency would have to take half as long again.
LEAST_SHARE = 0.02
FIRST_NIGHTS, LAST_NIGHTS = 3, 14
# An onset may be off by one night.
NIGHTS_OFF = 1
# Alerts nearer than this are one.
SAME_NIGHTS = 3
NIGHTS_PER_YEAR = 365
FLOOR = METRICS["kernel_s"].relevance_floor
LATENCY_FLOOR = METRICS["latency_s"].relevance_floor


def judged(
    chains: Sequence[KernelChain], nights: Sequence[KernelNight], *, end: int
) -> list[MaskedChange]:
    """Return the changes that the newest results before night `end` show."""
    window = slice(max(0, end - NUM_RESULTS), end)
    seen = [
        KernelChain(keys=chain.keys, seconds=chain.seconds[window], variants=chain.variants[window])
        for chain in chains
        if not np.isnan(chain.seconds[window]).all()
    ]
    changes = find_masked_changes(
        seen,
        latencies_s=np.array([night.latency_s for night in nights[window]]),
        floor=FLOOR,
        latency_floor=LATENCY_FLOOR,
    )
    return [change for change in changes if change.p_value <= NIGHT_BUDGET]


def first_report(
    result: CaseResult, *, share: float, noise: Noise, rng: np.random.Generator
) -> int | None:
    """Return the number of nights until a planted step is reported, None if it never is."""
    latency = result.measurement("latency_s")
    assert latency is not None
    kernels = [kernel for kernel in result.kernels if kernel.total_s > 0]
    longest = [
        index
        for index, kernel in enumerate(kernels)
        if not kernel.is_dispatch and kernel.total_s >= LEAST_SHARE * latency.median
    ]
    planted = Planted(night=NUM_RESULTS + 5, kernel=int(rng.choice(longest)), share=share)
    nights = draw(result, num_nights=NUM_RESULTS + 25, noise=noise, rng=rng, planted=planted)
    chains = chain_kernels(nights, side_of=side_of)
    onset = next(
        index for index, night in enumerate(nights) if night.run.run_id == f"{planted.night:04d}"
    )
    for number in range(FIRST_NIGHTS, LAST_NIGHTS + 1):
        end = onset + number
        start = max(0, end - NUM_RESULTS)
        changes = judged(chains, nights, end=end)
        if any(abs(change.first + start - onset) <= NIGHTS_OFF for change in changes):
            return number
    return None


def num_false(
    result: CaseResult, *, num_nights: int, noise: Noise, rng: np.random.Generator
) -> int:
    """Return the number of alerts in a history without a step."""
    nights = draw(result, num_nights=NUM_RESULTS + num_nights, noise=noise, rng=rng)
    chains = chain_kernels(nights, side_of=side_of)
    onsets: list[int] = []
    for end in range(len(nights) - num_nights, len(nights) + 1):
        start = max(0, end - NUM_RESULTS)
        for change in judged(chains, nights, end=end):
            onset = change.first + start
            if all(abs(onset - other) > SAME_NIGHTS for other in onsets):
                onsets.append(onset)
    return len(onsets)


def recall(
    results: Sequence[CaseResult], *, share: float, num_each: int, noise: Noise
) -> dict[str, Any]:
    """Return the recall of planted steps of `share` of the latency."""
    rng = np.random.default_rng((SEED, round(1e4 * share)))
    delays = [
        first_report(result, share=share, noise=noise, rng=rng)
        for _ in range(num_each)
        for result in results
    ]
    early = sum(delay is not None and delay <= FIRST_NIGHTS for delay in delays)
    late = sum(delay is not None for delay in delays)
    return {
        "share_of_latency": share,
        "num_planted": len(delays),
        f"recall_within_{FIRST_NIGHTS}_nights": early / len(delays),
        "interval": list(wilson_interval(early, len(delays))),
        f"recall_within_{LAST_NIGHTS}_nights": late / len(delays),
    }


def false_alarms(results: Sequence[CaseResult], *, num_nights: int, noise: Noise) -> dict[str, Any]:
    """Return the alerts in histories without a step."""
    rng = np.random.default_rng(SEED)
    number = sum(
        num_false(result, num_nights=num_nights, noise=noise, rng=rng) for result in results
    )
    years = len(results) * num_nights / NIGHTS_PER_YEAR
    return {
        "num_alerts": number,
        "case_years": years,
        "alerts_per_case_year": number / years,
        # Poisson's exact 95 % bound from above.
        "upper_bound_per_case_year": float(chi2.ppf(0.95, 2 * (number + 1))) / 2 / years,
    }


def cost(results: Sequence[CaseResult], *, noise: Noise) -> dict[str, Any]:
    """Return the seconds of judging all cases of a night, and of measuring them."""
    rng = np.random.default_rng(SEED)
    judging_s, measuring_s = [], []
    for result in results:
        nights = draw(result, num_nights=NUM_RESULTS, noise=noise, rng=rng)
        began = time.perf_counter()
        judged(chain_kernels(nights, side_of=side_of), nights, end=len(nights))
        judging_s.append(time.perf_counter() - began)
        measuring_s.append((result.finished_at - result.started_at).total_seconds())
    return {
        "judging_median_s": statistics.median(judging_s),
        "judging_all_s": sum(judging_s),
        "measuring_all_s": sum(measuring_s),
        "share_of_night": sum(judging_s) / sum(measuring_s),
    }


def main() -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=4, help="planted steps of each size a case")
    parser.add_argument("--nights", type=int, default=NIGHTS_PER_YEAR, help="without a step")
    parser.add_argument("--cases", type=int, default=0, help="only so many cases")
    parser.add_argument("--out", type=Path, default=RESULTS / "kernel_series.json")
    options = parser.parse_args()
    noise = measured_noise()
    results = [result for result in templates() if _is_long(result)]
    results = results[: options.cases or None]
    document = {
        "schema_version": SCHEMA_VERSION,
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": describe_machine(),
        "num_cases": len(results),
        "noise": {
            "num_differences": len(noise.core),
            "median_core": float(np.median(np.abs(noise.core))),
            "largest_core": float(np.abs(noise.core).max()),
            "num_mode_differences": len(noise.modes),
            "median_mode": float(np.median(noise.modes)),
            "mode_share": noise.mode_share,
        },
        "cost": cost(results, noise=noise),
        "planted": [
            recall(results, share=share, num_each=options.each, noise=noise) for share in SHARES
        ],
        "same_code": false_alarms(results, num_nights=options.nights, noise=noise),
    }
    options.out.write_text(f"{json.dumps(document, indent=2)}\n", encoding="utf-8")


def _is_long(result: CaseResult) -> bool:
    """Return whether a kernel takes a relevant share of the latency."""
    latency = result.measurement("latency_s")
    assert latency is not None
    return any(
        kernel.total_s >= LEAST_SHARE * latency.median and not kernel.is_dispatch
        for kernel in result.kernels
    )


if __name__ == "__main__":
    main()

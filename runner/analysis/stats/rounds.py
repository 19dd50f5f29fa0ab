"""Merge the rounds of a case on each side of a comparison."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compile_hud.db.records.results import CaseResult, Measurement, Outcome
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.analysis.stats.launch_levels import (
    common_speed_probe_s,
    launch_levels,
    speed_probe_levels,
)
from compile_hud.runner.analysis.stats.launch_noise import launch_spread


@dataclass(frozen=True, slots=True)
class Pair:
    """The results of one case on both sides."""

    baseline: CaseResult
    candidate: CaseResult

    def measurements(self, metric: str) -> tuple[Measurement, Measurement] | None:
        """Return the measurements of `metric`, None unless both sides have it."""
        before, right = self.baseline.measurement(metric), self.candidate.measurement(metric)
        return None if before is None or right is None else (before, right)

    def launch_levels(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the normalised level of each launch on both sides, which both have `metric`."""
        speed_probe_s = common_speed_probe_s(self.baseline, self.candidate)
        sides = (self.baseline, self.candidate)
        before, after = (launch_levels(side, metric, speed_probe_s=speed_probe_s) for side in sides)
        return before, after

    def machine_ratio(self, metric: str) -> float | None:
        """Return the ratio of the speed probes by which `metric` is normalised; None without."""
        before = speed_probe_levels(self.baseline, metric)
        after = speed_probe_levels(self.candidate, metric)
        if before is None or after is None:
            return None
        return math.exp(float(np.mean(np.log(after)) - np.mean(np.log(before))))


def results_by_case(results: Iterable[CaseResult]) -> dict[str, CaseResult]:
    """Return one result a case, in order; a case with a failed round is not ok."""
    merged: dict[str, CaseResult] = {}
    for result in results:
        known = merged.get(result.case.key)
        merged[result.case.key] = result if known is None else _merge(known, result)
    return merged


def _merge(first: CaseResult, second: CaseResult) -> CaseResult:
    if first.outcome is not Outcome.OK or second.outcome is not Outcome.OK:
        return first if first.outcome is not Outcome.OK else second
    names = dict.fromkeys(item.metric for item in (*first.measurements, *second.measurements))
    parts = [(first.measurement(name), second.measurement(name)) for name in names]
    measurements = tuple(
        _concatenate([part for part in both if part], device=first.case.device) for both in parts
    )
    num_launches = sum(int(item.details.get("num_launches", 0)) for item in (first, second))
    return dataclasses.replace(
        first,
        measurements=measurements,
        finished_at=second.finished_at,
        details={**first.details, "num_launches": num_launches},
    )


def _concatenate(parts: Sequence[Measurement], *, device: str) -> Measurement:
    samples = tuple(sample for part in parts for sample in part.samples)
    launches = tuple(n for part in parts for n in (part.launches or (len(part.samples),)))
    prior = launch_spread(parts[0].metric, device=device)
    merged = estimate(samples, launches=launches, prior=prior)
    return dataclasses.replace(
        parts[0],
        samples=samples,
        launches=launches,
        warmups=tuple(warmup for part in parts for warmup in part.warmups),
        median=merged.value,
        interval=(merged.low, merged.high),
    )


def speedups(row: Mapping[str, Any]) -> list[float]:
    """Return eager over variant of one shape (a row of `details.shapes`), round by round."""
    return [
        eager / variant for eager, variant in zip(row["eager_s"], row["variant_s"], strict=True)
    ]

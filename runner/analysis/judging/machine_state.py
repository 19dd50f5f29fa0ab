"""Machine drift: did the machine change, or the code? The reference cases of every run decide.

Method: a reference case is the same eager code in every run, so a change of its time is one of the
machine (or of eager torch itself, if the revision changed too). Against a history: Student's
interval of the difference between the median log time of the runs before and that of the runs
after. Its variance is that from one run to the next, moderated by a prior as in launch_noise.py.
Between two documents: as any two measurements (measurements.py). The three cases share one error
among them (Bonferroni).
Assumptions: a slowdown of a kind of work (arithmetic, memory, launching) slows the reference case
of that kind by about the same factor.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import CaseResult
from compile_hud.db.records.summaries import Point, Series
from compile_hud.db.shared.text import counted, signed, signed_percent
from compile_hud.runner.analysis.comparison.measurements import (
    FAMILY_ERROR,
    Comparison,
    Judgement,
    compare_measurements,
)
from compile_hud.runner.analysis.comparison.noise_model import History, NoiseModel, learn_noise
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.stats.estimates import robust_sd, student_quantile
from compile_hud.runner.analysis.stats.launch_noise import prior_sd
from compile_hud.runner.analysis.stats.rounds import Pair, results_by_case

# The resource that bounds each reference case.
KINDS = {"ref_gemm": "compute", "ref_copy": "memory", "ref_chain": "launch"}
# The steadier clock first.
CLOCKS = ("latency_cpu_s", "latency_s")
# A slower machine alone makes these metrics worse; ratios stay.
ABSOLUTE_METRICS = (*CLOCKS, "compile_cold_s", "compile_cold_cpu_s", "compile_warm_s")
# A machine counts as steady if a change of this size would have been detected. Smaller changes need
# more nights than a page has.
STEADY_WITHIN = 0.10
# The weight of the prior spread between runs: at first the spread is known from a few runs.
PRIOR_RUNS = 4.0


class MachineVerdict(StrEnum):
    """The verdict of a reference case about the machine."""

    MOVED = "moved"
    STEADY = "steady"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineChange:
    """The change of one reference case; `low` and `high` are the interval of the relative `change`.

    The numbers are None without a comparison; above 0 is slower.
    """

    model: str
    metric: str
    verdict: MachineVerdict
    reason: str
    baseline: float | None = None
    candidate: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def kind(self) -> str:
        """Return the resource that bounds the case: compute, memory or launch."""
        return KINDS.get(self.model, self.model)

    @property
    def text(self) -> str:
        """Return the change in words: `ref_gemm (compute) +8.1 % [+6.0, +9.9]`."""
        if self.change is None or self.low is None or self.high is None:
            return f"{self.model} ({self.kind}): {self.reason}"
        low, high = signed(100 * self.low), signed(100 * self.high)
        return f"{self.model} ({self.kind}) {signed_percent(self.change)} [{low}, {high}]"

    def to_json(self) -> dict[str, Any]:
        """Return the change as a JSON object, relative changes in percent."""
        has_interval = self.low is not None and self.high is not None
        return {
            "case": self.model,
            "kind": self.kind,
            "metric": self.metric,
            "verdict": str(self.verdict),
            "baseline": self.baseline,
            "candidate": self.candidate,
            "change_pct": None if self.change is None else 100 * self.change,
            "interval_pct": [100 * (self.low or 0), 100 * (self.high or 0)]
            if has_interval
            else None,
            "reason": self.reason,
        }


def drifted_references(changes: Iterable[MachineChange]) -> tuple[MachineChange, ...]:
    """Return the changes that show machine drift, the largest first."""
    drifted = [item for item in changes if item.verdict is MachineVerdict.MOVED]
    return tuple(sorted(drifted, key=lambda item: -abs(math.log1p(item.change or 0.0))))


def machine_text(changes: Sequence[MachineChange]) -> str:
    """Return the verdict of the reference cases, as in `moved: ref_gemm (compute) +8.1 %`."""
    if movers := drifted_references(changes):
        return f"moved: {', '.join(item.text for item in movers)}"
    unknown = [item for item in changes if item.verdict is MachineVerdict.UNKNOWN]
    if unknown:
        models = ", ".join(item.model for item in unknown)
        reasons = "; ".join(dict.fromkeys(item.reason for item in unknown))
        return f"not checked: {models}: {reasons}"
    return "steady" if changes else "not checked: no reference case was measured"


def level_change(
    model: str, before: Sequence[float], after: Sequence[float], *, metric: str, device: str
) -> MachineChange:
    """Return the change of a reference case's level from the runs before to those after.

    Both are the medians of runs, above 0; unknown with fewer than SUSTAINED_POINTS before.
    """
    if len(before) < DEFAULT_CONFIG.sustained_points or not after:
        return MachineChange(
            model=model,
            metric=metric,
            verdict=MachineVerdict.UNKNOWN,
            reason=(
                f"{counted(len(before), 'earlier run')} to compare with; "
                f"{DEFAULT_CONFIG.sustained_points} are needed"
            ),
        )
    old, new = np.log(before), np.log(after)
    error, degrees = _error(old, new, prior=prior_sd(metric, device=device))
    margin = student_quantile(1 - FAMILY_ERROR / (2 * len(KINDS)), degrees=degrees) * error
    difference = float(np.median(new) - np.median(old))
    return _judged(
        MachineChange(
            model=model,
            metric=metric,
            verdict=MachineVerdict.UNKNOWN,
            reason="",
            baseline=math.exp(float(np.median(old))),
            candidate=math.exp(float(np.median(new))),
            change=math.expm1(difference),
            low=math.expm1(difference - margin),
            high=math.expm1(difference + margin),
        ),
        is_significant=abs(difference) > margin,
    )


def machine_history(histories: Iterable[Series]) -> dict[str, tuple[MachineChange, ...]]:
    """Return the changes of the reference cases of each run since the runs before, by run id.

    Only runs on the same machine in the same toolchain and environment are compared.
    """
    changes: dict[str, dict[str, MachineChange]] = defaultdict(dict)
    series = [item for item in histories if item.header.case.is_reference]
    # The steadier clock comes last and overwrites the other.
    for item in sorted(series, key=lambda item: -CLOCKS.index(item.header.metric)):
        case = item.header.case
        for points in _by_scope(item.points):
            for number, point in enumerate(points):
                before = points[max(0, number - DEFAULT_CONFIG.baseline_points) : number]
                changes[point.run_id][case.model] = level_change(
                    case.model,
                    [earlier.median for earlier in before],
                    [point.median],
                    metric=item.header.metric,
                    device=case.device,
                )
    return {
        run_id: tuple(run_changes[model] for model in KINDS if model in run_changes)
        for run_id, run_changes in changes.items()
    }


def compare_machine(
    baseline: Sequence[CaseResult],
    *,
    candidate: Sequence[CaseResult],
    history: History | None = None,
) -> tuple[MachineChange, ...]:
    """Return the changes of the reference cases that two runs have in common.

    `history` has the series that their noise is learnt from.
    """
    before, after = (
        results_by_case(item for item in side if item.case.is_reference)
        for side in (baseline, candidate)
    )
    pairs = [Pair(before[key], after[key]) for key in before if key in after]
    noise = learn_noise(
        pairs,
        metrics=CLOCKS,
        history=history or History(),
        floors={metric: METRICS[metric].relevance_floor for metric in CLOCKS},
    )
    return tuple(change for pair in pairs if (change := _compare(pair, noise)) is not None)


def explained(comparison: Comparison, *, by: Sequence[MachineChange]) -> MachineChange | None:
    """Return the machine drift that explains `comparison`, an absolute time, up to noise.

    None if no drift has the same direction, or if the remaining change is significant.
    """
    ratio, low, high = comparison.ratio, comparison.low, comparison.high
    if ratio is None or low is None or high is None:
        return None
    for item in drifted_references(by):
        assert item.change is not None
        assert item.low is not None
        assert item.high is not None
        same_way = (ratio > 1) == (item.change > 0)
        if same_way and low / (1 + item.high) <= 1 <= high / (1 + item.low):
            return item
    return None


def _compare(pair: Pair, noise: NoiseModel) -> MachineChange | None:
    metric = next((name for name in CLOCKS if pair.measurements(name)), None)
    if metric is None:
        return None
    both = pair.measurements(metric)
    assert both is not None
    case = pair.baseline.case
    comparison = compare_measurements(
        both[0],
        candidate=both[1],
        judgement=Judgement(
            floor=METRICS[metric].relevance_floor,
            noise=noise.noise(pair, metric),
            max_p=FAMILY_ERROR / len(KINDS),
        ),
    )
    change = MachineChange(
        model=case.model,
        metric=metric,
        verdict=MachineVerdict.UNKNOWN,
        reason=comparison.reason,
        baseline=both[0].median,
        candidate=both[1].median,
    )
    if comparison.ratio is None or comparison.low is None or comparison.high is None:
        return change
    return _judged(
        dataclasses.replace(
            change, change=comparison.ratio - 1, low=comparison.low - 1, high=comparison.high - 1
        ),
        is_significant=comparison.is_significant,
    )


def _judged(change: MachineChange, *, is_significant: bool) -> MachineChange:
    assert change.change is not None
    assert change.low is not None
    assert change.high is not None
    floor = METRICS[change.metric].relevance_floor
    if is_significant and abs(change.change) >= floor:
        direction = "slower" if change.change > 0 else "faster"
        return dataclasses.replace(
            change, verdict=MachineVerdict.MOVED, reason=f"{direction}, beyond {100 * floor:g} %"
        )
    if max(-change.low, change.high) <= STEADY_WITHIN:
        reason = f"a move of {100 * STEADY_WITHIN:g} % would have shown"
        return dataclasses.replace(change, verdict=MachineVerdict.STEADY, reason=reason)
    reason = f"anything from {signed(100 * change.low)} to {signed_percent(change.high)} fits"
    return dataclasses.replace(change, reason=reason)


def _error(old: np.ndarray, new: np.ndarray, *, prior: float) -> tuple[float, float]:
    """Return the standard error of the difference of two medians of logs, and its degrees."""
    # Differences from one run to the next do not count a step among them as noise. The robust sd
    # prevents one bad night from hiding a drift.
    squares = (len(old) - 1) * robust_sd(np.diff(old)) ** 2 / 2
    degrees = PRIOR_RUNS + len(old) - 1
    variance = (PRIOR_RUNS * prior**2 + squares) / degrees
    return math.sqrt(variance * (1 / len(old) + 1 / len(new))), degrees


def _by_scope(points: Iterable[Point]) -> Iterable[list[Point]]:
    scopes: Mapping[tuple[str, str, str], list[Point]] = defaultdict(list)
    for point in points:
        scopes[point.machine, point.toolchain, point.fingerprint].append(point)
    return scopes.values()

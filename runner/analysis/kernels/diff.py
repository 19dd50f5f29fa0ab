"""Diff the kernels of two results and attribute the change of the latency to them.

The contributions are differences of times under the profiler, but the latencies were measured
without it: `unexplained_s` holds the change of the profiling overhead, and noise. Explained and
unexplained add up to the difference of the latencies.
The diff in the other direction is the mirror image: the same kernels match, with `new` for
`vanished`, `split` for `merged`, and every contribution negated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from compile_hud.db.records.alerts import VANISHED, Alert
from compile_hud.db.records.kernels import ProfiledResult, profile_of
from compile_hud.db.records.memory.peak import memory_peak_of
from compile_hud.db.records.results import CaseResult, Verdict
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.text import signed, signed_us
from compile_hud.runner.analysis.kernels.change_classes import KernelChange, change_of, part_change
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from compile_hud.runner.analysis.kernels.matching import match_kernels
from compile_hud.runner.analysis.kernels.noise import (
    Noise,
    codes_text,
    deviation_of,
    noise_between,
    noise_warnings,
)
from compile_hud.runner.analysis.kernels.rollup import PartChange, Rollup, roll_up
from compile_hud.runner.analysis.memory_peak.diff import MemoryDiff, diff_of

# The bases of a diff; the first one that both sides have counts.
LATENCY, ITERATION, KERNELS = "latency", "profiled iteration", "sum of kernels"
OVERLAP = "overlap"
# Times are shown to a tenth of a microsecond; anything smaller is rounding.
SIGNIFICANT_DIGITS = 7
# Share of the change. Components of the profile have no test, and no two nights are equal.
MIN_PART = 0.05
# Metrics of an iteration. Compile time and memory do not depend on single kernels.
_METRICS = (
    "latency_s",
    "latency_cpu_s",
    "speedup",
    "throughput_samples_per_s",
    "throughput_tokens_per_s",
    "num_kernels",
    "kernel_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDiff:
    """The changes of all kernels, the largest contribution first.

    `baseline_s` and `candidate_s` are the times that `basis` names: the latencies, or, if one side
    has none, the iterations under the profiler, or the sums of the kernels. `parts` are the
    components of both profiles, empty if one side has none. `noise` is the uncertainty of the
    times; `warnings` are the related warnings of both results. `memory` has the
    changes of memory at the peak, None if a side has none.
    """

    rows: tuple[KernelChange, ...]
    basis: str
    baseline_s: float
    candidate_s: float
    parts: tuple[PartChange, ...]
    noise: Noise = Noise()
    warnings: tuple[tuple[RunWarning, ...], tuple[RunWarning, ...]] = ((), ())
    memory: MemoryDiff | None = None

    @property
    def rollup(self) -> Rollup:
        """Return the sums of the kernels by kind, operator and module."""
        return roll_up(self.rows)

    @property
    def change_s(self) -> float:
        """Return the candidate's extra time, in seconds an iteration."""
        return self.candidate_s - self.baseline_s

    @property
    def explained_s(self) -> float:
        """Return the sum of all contributions."""
        return math.fsum(row.contribution_s for row in self.rows)

    @property
    def unexplained_s(self) -> float:
        """Return the change without the contributions."""
        return self.change_s - self.explained_s

    @property
    def has_unexplained(self) -> bool:
        """Return whether anything is unexplained in the digits shown."""
        return round(self.unexplained_s, SIGNIFICANT_DIGITS) != 0

    @property
    def unexplained_text(self) -> str:
        """Return the reason of the unexplained part, "" without one."""
        if not self.has_unexplained:
            return ""
        if self.noise.is_profile_off:
            return "the profiled iterations were disturbed"
        if self.noise.apart_s:
            return "more than profiling costs: one side was disturbed"
        return "what profiling costs, and noise"

    @property
    def noise_text(self) -> str:
        """Return a line on the uncertainty of the times, "" if there is no sign of it."""
        noisy = [
            f"the {name} is {codes_text(side_warnings)}"
            for name, side_warnings in zip(("baseline", "candidate"), self.warnings, strict=True)
            if side_warnings
        ]
        if self.noise.apart_s:
            profiled, sampled = (
                signed(1e6 * part_s, decimals=0) for part_s in (self.explained_s, self.change_s)
            )
            noisy.append(
                f"the profiled iterations changed by {profiled} us and the latency by {sampled} us:"
                f" {self.unexplained_text}"
            )
        return f"Noise: {'; '.join(noisy)}." if noisy else ""

    def to_json(self) -> dict[str, Any]:
        """Return the diff as a JSON object; times are microseconds an iteration."""
        return {
            "basis": self.basis,
            "baseline_us": 1e6 * self.baseline_s,
            "candidate_us": 1e6 * self.candidate_s,
            "change_us": 1e6 * self.change_s,
            "explained_us": 1e6 * self.explained_s,
            "unexplained_us": 1e6 * self.unexplained_s if self.has_unexplained else 0.0,
            "unexplained": self.unexplained_text,
            "noise": self.noise_text,
            "warnings": {
                name: [warning.to_json() for warning in side_warnings]
                for name, side_warnings in zip(
                    ("baseline", "candidate"), self.warnings, strict=True
                )
            },
            "parts": [part.to_json() for part in self.parts],
            "rollup": self.rollup.to_json(),
            "rows": [row.to_json() for row in self.rows],
            "memory": None if self.memory is None else self.memory.to_json(),
        }


def diff_kernels(baseline: KernelSide, candidate: KernelSide) -> KernelDiff:
    """Return the changes of the kernels from `baseline` to `candidate`."""
    basis, baseline_s, candidate_s = _measured(baseline, candidate)
    parts = _parts(baseline, candidate)
    # The kernels of a kind are rows already.
    kinds = {kernel.kind for side in (baseline, candidate) for kernel in side.kernels}
    rows = [
        part_change(part.name, baseline_s=part.baseline_s, candidate_s=part.candidate_s)
        for part in (*parts, *_overlap(baseline, candidate))
        if part.name not in kinds
    ]
    noise = noise_between(
        baseline,
        candidate,
        explained_s=math.fsum(row.contribution_s for row in rows)
        + _kernels_s(candidate)
        - _kernels_s(baseline),
        change_s=candidate_s - baseline_s if basis == LATENCY else None,
    )
    rows += [
        change_of(match, noise=noise) for match in match_kernels(baseline, candidate=candidate)
    ]
    return KernelDiff(
        rows=_ordered(rows),
        noise=noise,
        warnings=(noise_warnings(baseline.warnings), noise_warnings(candidate.warnings)),
        basis=basis,
        baseline_s=baseline_s,
        candidate_s=candidate_s,
        parts=parts,
        memory=diff_of(baseline.memory, candidate.memory),
    )


def side_of(result: CaseResult) -> KernelSide:
    """Return `kernel_side` of a result with everything; raise RecordError if that is damaged."""
    latency = result.measurement("latency_s")
    return kernel_side(
        ProfiledResult(
            kernels=result.kernels,
            sources=result.sources,
            details=result.details,
            latency_s=None if latency is None else latency.median,
            samples=() if latency is None else latency.samples,
            warnings=result.warnings,
        )
    )


def kernel_side(result: ProfiledResult) -> KernelSide:
    """Return the kernels of `result` for a diff; raise RecordError for damaged ones."""
    return KernelSide(
        kernels=result.kernels,
        sources={source.hash: source.text for source in result.sources},
        profile=profile_of(result.details),
        latency_s=result.latency_s,
        deviation=deviation_of(result.samples),
        warnings=result.warnings,
        memory=memory_peak_of(result.details),
    )


def top_rows(
    diff: KernelDiff, *, is_slower: bool | None = None, num_rows: int = 3
) -> tuple[KernelChange, ...]:
    """Return the rows that made the candidate slower, the largest first.

    Without `is_slower` they are the rows that made it faster; by default the times of both sides
    decide. Rows within noise are left out, and so are components of the profile below a twentieth
    of the change (MIN_PART).
    """
    sign = 1 if (diff.change_s > 0 if is_slower is None else is_slower) else -1
    min_s = MIN_PART * abs(diff.change_s)
    causes = [
        row
        for row in diff.rows
        if sign * row.contribution_s > 0
        and row.is_beyond_noise
        and (not row.part or sign * row.contribution_s >= min_s)
    ]
    return tuple(causes[:num_rows])


def top_kernels(diff: KernelDiff, *, is_slower: bool | None = None) -> list[dict[str, Any]]:
    """Return `top_rows` as JSON."""
    return [
        {
            "label": row.label,
            "class": str(row.kind),
            "contribution_us": 1e6 * row.contribution_s,
            "text": row.text,
        }
        for row in top_rows(diff, is_slower=is_slower)
    ]


def share_text(explained_s: float, *, change_s: float, basis: str) -> str:
    """Return the text on the share of a change that some rows explain.

    Rows explain more than the change where others offset a part of it.
    """
    if abs(explained_s) > abs(change_s) or explained_s * change_s < 0:
        rest = signed_us(change_s - explained_s)
        return (
            f"{signed_us(explained_s)} us here and {rest} us elsewhere: the {basis} changed by"
            f" {signed_us(change_s)} us between the two runs."
        )
    return (
        f"{signed_us(explained_s)} us of the {signed_us(change_s)} us by which the {basis} changed"
        " between the two runs."
    )


def devices_text(baseline: str, *, candidate: str) -> str:
    """Return a sentence about two different devices, "" if they are equal or one is unknown."""
    if not baseline or not candidate or baseline == candidate:
        return ""
    return f"The devices differ: {baseline} and {candidate}. All times include that difference."


def _measured(baseline: KernelSide, candidate: KernelSide) -> tuple[str, float, float]:
    if baseline.latency_s is not None and candidate.latency_s is not None:
        return LATENCY, baseline.latency_s, candidate.latency_s
    if baseline.profile is not None and candidate.profile is not None:
        return ITERATION, baseline.profile.iteration_s, candidate.profile.iteration_s
    return KERNELS, _kernels_s(baseline), _kernels_s(candidate)


def _kernels_s(side: KernelSide) -> float:
    return math.fsum(kernel.total_s for kernel in side.kernels)


def _parts(baseline: KernelSide, candidate: KernelSide) -> tuple[PartChange, ...]:
    if baseline.profile is None or candidate.profile is None:
        return ()
    before, after = baseline.profile.components, candidate.profile.components
    if baseline.latency_s is not None and candidate.latency_s is not None:
        before, after = baseline.profile.latency_components, candidate.profile.latency_components
    return tuple(
        PartChange(name=name, baseline_s=before.get(name, 0.0), candidate_s=after.get(name, 0.0))
        for name in sorted(before.keys() | after.keys())
    )


def _overlap(baseline: KernelSide, candidate: KernelSide) -> tuple[PartChange, ...]:
    """Return the time that several rows count, as a component with a negative contribution."""
    if baseline.profile is None or candidate.profile is None:
        return ()
    before_s, after_s = baseline.profile.overlap_s, candidate.profile.overlap_s
    if before_s == after_s == 0:
        return ()
    return (PartChange(name=OVERLAP, baseline_s=-before_s, candidate_s=-after_s),)


def _ordered(rows: Iterable[KernelChange]) -> tuple[KernelChange, ...]:
    """Return the rows, the largest first, in an order that the mirrored diff has too."""
    by_size = sorted(rows, key=_size_of)
    # Rows of equal size are rare, and comparing kernels is slow.
    return tuple(
        row for _, equal in groupby(by_size, key=_size_of) for row in _in_stable_order(list(equal))
    )


def _size_of(row: KernelChange) -> float:
    return -abs(row.contribution_s)


def _in_stable_order(rows: list[KernelChange]) -> list[KernelChange]:
    return rows if len(rows) == 1 else sorted(rows, key=_name_of)


def _name_of(row: KernelChange) -> tuple[list[str], str]:
    """Return a key that identifies a row, equal to that of its mirror image."""
    kernels = [
        json.dumps(kernel.to_json(), sort_keys=True, default=str)
        for kernel in (*row.baseline, *row.candidate)
    ]
    return sorted(kernels), row.part


def kernel_bounds(alert: Alert) -> tuple[tuple[str, str], ...]:
    """Return run and case of the last good and of the first bad result of `alert`.

    Empty for alerts that kernels do not explain, such as a missing metric, and without a last good
    run.
    """
    if alert.metric not in _METRICS or alert.kind == VANISHED or alert.last_good is None:
        return ()
    key = alert.case.key
    return (alert.last_good.run_id, key), (alert.first_bad.run_id, key)


def is_about_slower(alert: Alert) -> bool:
    """Return whether slower kernels can be the cause of `alert`."""
    return alert.verdict is not Verdict.IMPROVEMENT
